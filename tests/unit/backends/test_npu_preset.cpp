#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "keel/backends/npu/presets/preset_files.h"
#include "keel/core/base/json.h"

#include "npu_model_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::npu;
using namespace npu_model_test;

Json document_of(const std::string& preset) {
  for (const NpuPresetFile& file : builtin_presets()) {
    if (file.name == preset) return parse_json(file.text, preset);
  }
  return Json();
}

}  // namespace

TEST_CASE("npu preset: the built-in ones load and every parameter has a source") {
  const std::vector<std::string> names = {"ascend310",   "ascend910-30c", "ascend910",
                                          "ascend910b1", "ascend910b2",   "ascend910b3",
                                          "ascend910b4"};
  CHECK(preset_names() == names);
  for (const std::string& name : names) {
    CAPTURE(name);
    const Preset preset = load_preset(name);
    CHECK(preset.name == name);
    CHECK(preset.parameters.size() > 30);
    for (const PresetParameter& p : preset.parameters) CHECK(!p.source.empty());
    const std::string text = describe_preset(preset);
    CHECK(contains(text, "assumed"));
    for (const PresetParameter& p : preset.parameters) CHECK(contains(text, p.name));
  }
}

TEST_CASE("npu preset: peaks are those of the published tables") {
  // 2 x 4096 multiply-adds x cores x clock, and 128 half lanes x cores x clock.
  CHECK(load_preset("ascend910").cube_f16_tflops() == doctest::Approx(262.144));
  CHECK(load_preset("ascend910-30c").cube_f16_tflops() == doctest::Approx(221.184));
  CHECK(load_preset("ascend910-30c").vector_f16_gflops() == doctest::Approx(3456));
  CHECK(load_preset("ascend910b1").cube_f16_tflops() == doctest::Approx(363.725));
  CHECK(load_preset("ascend910b4").cube_f16_tflops() == doctest::Approx(245.76));
  CHECK(load_preset("ascend910b1").cube_f32_tflops() == doctest::Approx(363.725 / 4));
  CHECK(load_preset("ascend910").cube_f32_tflops() == doctest::Approx(262.144 / 3));
}

TEST_CASE("npu preset: what the bins can do") {
  CHECK_FALSE(load_preset("ascend910").bf16);
  CHECK(load_preset("ascend910b1").bf16);
  CHECK(load_preset("ascend910").saturate_f16);
  CHECK_FALSE(load_preset("ascend910b4").saturate_f16);
  CHECK_FALSE(load_preset("ascend910").has_atomic_add(f16));
  CHECK(load_preset("ascend910").has_atomic_add(f32));
  CHECK(load_preset("ascend910b1").has_atomic_add(f16));
  CHECK(presets_with_bf16() == "ascend910b1, ascend910b2, ascend910b3, ascend910b4");
}

TEST_CASE("npu preset: errors name the file and the parameter and say what was expected") {
  struct Row {
    const char* what;
    void (*change)(Json& parameters);
    const char* expected;
  };
  const Row rows[] = {
      {"missing", [](Json& p) { p.erase("clock_mhz"); }, "clock_mhz"},
      {"unknown", [](Json& p) { p["clock_mhzz"] = p["clock_mhz"]; }, "did you mean 'clock_mhz'"},
      {"zero clock", [](Json& p) { p["clock_mhz"]["value"] = 0; }, "clock_mhz.value"},
      {"text for a number", [](Json& p) { p["hbm_gb_per_s"]["value"] = "fast"; }, "fast"},
      {"a broken number of cores", [](Json& p) { p["cube_cores"]["value"] = 1.5; }, "1.5"},
      {"no source", [](Json& p) { p["ub_kib"].erase("source"); }, "source"},
      {"empty source", [](Json& p) { p["ub_kib"]["source"] = ""; }, "assumed"},
      {"extra key", [](Json& p) { p["ub_kib"]["unit"] = "KiB"; }, "unit"},
      {"a small buffer", [](Json& p) { p["ub_kib"]["value"] = 63; }, "ub_kib.value"},
      {"bare value", [](Json& p) { p["ub_kib"] = 192; }, "ub_kib"},
      {"wrong word", [](Json& p) { p["fp16_overflow"]["value"] = "wrap"; }, "saturate or inf_nan"},
      {"unknown dtype", [](Json& p) { p["atomic_add_dtypes"]["value"][0] = "f8"; }, "dtype"},
      {"share above 1", [](Json& p) { p["hbm_efficiency"]["value"][2][1] = 1.5; }, "[2][1]"},
      {"points that fall", [](Json& p) { p["hbm_efficiency"]["value"][2][0] = 64; }, "before"},
      {"no points", [](Json& p) { p["hbm_efficiency"]["value"] = Json::array(); }, "at least one"},
      {"rate above 1", [](Json& p) { p["cube_fp32_rate"]["value"] = 2; }, "cube_fp32_rate"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    Json document = document_of("ascend910b1");
    row.change(document["parameters"]);
    const std::string error =
        error_of([&] { parse_preset(write_json(document), "mine", "folder/mine.json"); });
    CAPTURE(error);
    CHECK(contains(error, "folder/mine.json"));
    CHECK(contains(error, row.expected));
  }
}

TEST_CASE("npu preset: wrong documents and names") {
  CHECK(contains(error_of([] { parse_preset("{", "x", "x.json"); }), "x.json"));
  CHECK(contains(error_of([] { parse_preset("[]", "x", "x.json"); }), "x.json"));
  Json document = document_of("ascend910");
  document["series"] = "920";
  CHECK(contains(error_of([&] { parse_preset(write_json(document), "x", "x.json"); }),
                 "910, 910B or 310"));
  const std::string error = error_of([] { load_preset("ascend910b"); });
  CHECK(contains(error, "ascend910b1"));
  CHECK(contains(error, "ascend310"));
  CHECK(contains(error_of([] { load_preset("no/such/file.json"); }), "no/such/file.json"));
}

TEST_CASE("npu preset: a file counts as much as a name") {
  const std::string path = "npu_preset_test.json";
  Json document = document_of("ascend910b1");
  document["parameters"]["cube_cores"]["value"] = 48;
  std::ofstream(path) << document.dump();
  const Preset preset = load_preset(path);
  std::remove(path.c_str());
  CHECK(preset.name == "npu_preset_test");
  CHECK(preset.cube_cores == 48);
}

TEST_SUITE_END();
