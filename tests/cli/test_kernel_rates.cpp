// `keel info --rates`: kernels chosen by rate, forced by KEEL_ISA, and cache folders in every
// state.
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "cli/tool.h"
#include "support/error_of.h"
#include "support/temp_folder.h"

// The rates are kept only where 50 ms of measuring were enough, which they are not beside others,
// and now and then not on a machine that is shared with others.
TEST_SUITE_BEGIN("alone");

namespace {

using namespace keel_test;
using nlohmann::json;

struct Info {
  json rates;
  std::string told;
};

Info info_rates(const Variables& variables) {
  const ToolResult result = run_tool({"info", "--rates", "--json"}, variables);
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  return {json::parse(result.out), result.err};
}

// A process that had the time to measure.
Info kept_rates(const Variables& variables) {
  Info info = info_rates(variables);
  for (int tries = 1; tries < 20 && info.rates.at("file").is_null(); ++tries)
    info = info_rates(variables);
  return info;
}

bool is_available(const std::string& isa) {
  const json info = json::parse(run_tool({"info", "--json"}).out);
  for (const json& device : info.at("devices")) {
    if (device.at("backend") != "npu") continue;
    const std::string all = device.at("properties").at("available isas");
    return contains(" " + all + " ", " " + isa + " ");
  }
  return false;
}

std::vector<std::string> files_of(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename());
  return names;
}

}  // namespace

TEST_CASE("info rates: measured once and then read from the cache folder") {
  const TempFolder cache;
  const Variables there = {{"XDG_CACHE_HOME", cache.path()}, {"KEEL_ISA", ""}};
  const Info first = kept_rates(there), second = info_rates(there);
  CHECK(first.rates.at("source") == "measured");
  CHECK(second.rates.at("source") == "read");
  CHECK(first.told.empty());
  CHECK(second.told.empty());
  for (const char* same : {"isa", "processor", "file", "gflops", "kernels"})
    CHECK(first.rates.at(same) == second.rates.at(same));
  CHECK(first.rates.at("chosen_by") == "rates");
  CHECK(first.rates.at("problem").is_null());
  for (const char* dtype : {"f32", "f16", "bf16"}) {
    for (const char* shape : {"square", "rows", "columns", "vector", "small"}) {
      const std::string kernel = first.rates.at("kernels").at(dtype).at(shape);
      CHECK(first.rates.at("gflops").at(dtype).at(shape).at(kernel) > 0);
    }
  }
  const ToolResult text = run_tool({"info", "--rates"}, there);
  CHECK(
      contains(text.out, "isa " + first.rates.at("isa").get<std::string>() + ", chosen by rates"));
  CHECK(contains(text.out, "square   f32"));

  // The name is the one of devices, and so of summaries and checkpoints.
  const json info = json::parse(run_tool({"info", "--json"}, there).out);
  for (const json& device : info.at("devices")) {
    if (device.at("backend") == "npu")
      CHECK(device.at("properties").at("isa") == first.rates.at("isa"));
  }
}

TEST_CASE("info rates: HOME holds the cache where XDG_CACHE_HOME does not") {
  const TempFolder home;
  for (const char* elsewhere : {"", "relative/folder"}) {
    const Info info = kept_rates({{"HOME", home.path()}, {"XDG_CACHE_HOME", elsewhere}});
    const std::string file = info.rates.at("file");
    CHECK(file.starts_with(home.path() + "/.cache/keel/rates-"));
    CHECK(std::filesystem::exists(file));
  }
}

TEST_CASE("info rates: a file that is broken or of another processor is told of and replaced") {
  const TempFolder cache;
  const Variables there = {{"XDG_CACHE_HOME", cache.path()}};
  const std::string file = kept_rates(there).rates.at("file");
  json other = read_json(file);
  other["processor"]["family"] = 99;
  for (const std::string& text : {std::string("{\"format\": 1"), other.dump()}) {
    std::ofstream(file, std::ios::trunc) << text;
    const Info info = kept_rates(there);
    CHECK(info.rates.at("source") == "measured");
    CHECK(info.rates.at("file") == file);
    CHECK(contains(info.rates.at("problem"), file));
    CHECK(contains(info.told, file));
    CHECK(info_rates(there).rates.at("source") == "read");
  }
}

TEST_CASE("info rates: no cache folder is told of and no error") {
  const TempFolder folder;
  const std::string file = folder.write("file", "");
  const std::vector<Variables> nowhere = {{{"XDG_CACHE_HOME", ""}, {"HOME", ""}},
                                          {{"XDG_CACHE_HOME", file}},
                                          {{"XDG_CACHE_HOME", "/proc"}}};
  for (const Variables& variables : nowhere) {
    const Info info = info_rates(variables);
    CHECK(info.rates.at("source") == "measured");
    CHECK(info.rates.at("file").is_null());
    CHECK_FALSE(info.rates.at("problem").is_null());
    CHECK(contains(info.told, "are not kept"));
    // Another process would measure other rates, and could compute other bits.
    CHECK(info.rates.at("chosen_by") == "instruction set");
    CHECK_FALSE(contains(info.rates.at("isa"), ":"));
  }
}

TEST_CASE("info rates: KEEL_ISA forces kernels and its name is the one of the device") {
  const TempFolder cache;
  Variables forced = {{"XDG_CACHE_HOME", cache.path()}, {"KEEL_ISA", "scalar"}};
  CHECK(info_rates(forced).rates.at("chosen_by") == "KEEL_ISA");
  forced["KEEL_ISA"] = "scalar:rows=pairs";
  const ToolResult refused = run_tool({"info", "--rates"}, forced);
  CHECK(refused.exit_code == 2);
  CHECK(contains(refused.err, "KEEL_ISA: expected one of widening, got 'pairs'"));
  if (!is_available("avx512_bf16")) return;
  forced["KEEL_ISA"] = "avx512_bf16:vector=widening,rows=widening";
  const json rates = info_rates(forced).rates;
  CHECK(rates.at("isa") == "avx512_bf16:rows=widening,vector=widening");
  CHECK(rates.at("kernels").at("bf16").at("rows") == "widening");
  CHECK(rates.at("kernels").at("bf16").at("square") == "pairs");
}

TEST_CASE("info rates: two processes that start at once agree") {
  const TempFolder cache;
  const Variables there = {{"XDG_CACHE_HOME", cache.path()}, {"KEEL_ISA", ""}};
  Info one, two;
  const auto both_kept = [&] {
    std::filesystem::remove_all(cache.path() + "/keel");
    std::thread beside([&] { one = info_rates(there); });
    two = info_rates(there);
    beside.join();
    return !one.rates.at("file").is_null() && !two.rates.at("file").is_null();
  };
  for (int tries = 1; !both_kept() && tries < 20;) ++tries;
  CHECK(one.told.empty());
  CHECK(two.told.empty());
  CHECK(one.rates.at("gflops") == two.rates.at("gflops"));
  CHECK(one.rates.at("isa") == two.rates.at("isa"));
  CHECK(files_of(cache.path() + "/keel").size() == 1);
}

TEST_SUITE_END();
