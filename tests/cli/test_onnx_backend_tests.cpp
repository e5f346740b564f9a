// `keel conformance --onnx`: the backend tests of the ONNX project, from Debian's libonnx-testdata.
// Nothing that is not refused by the import may fail, and a least number has to pass.
#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include "cli/tool.h"
#include "support/error_of.h"
#include "support/onnx_bytes.h"
#include "support/onnx_test_data.h"
#include "support/temp_folder.h"

namespace keel_test {
TEST_SUITE_BEGIN("cli");

TEST_CASE("the backend tests of onnx pass where they are not refused") {
  if (!has_onnx_test_data()) {
    MESSAGE("keel test skipped: the package libonnx-testdata is not installed");
    return;
  }
  for (const std::string backend : {"ref", "cpu", "npu"}) {
    const TempFolder temp;
    const ToolResult result =
        run_tool({"conformance", "--onnx", kOnnxTestData, "--backend", backend, "--except",
                  kContradictoryOnnxTest, "--json", temp.file("c")});
    CAPTURE(backend);
    const nlohmann::json card = read_json(temp.file("c"));
    for (const auto& entry : card.at("cases")) {
      if (entry.at("verdict") == "failed")
        MESSAGE(entry.at("name").get<std::string>()
                << ": " << entry.at("detail").get<std::string>());
    }
    CHECK(result.exit_code == 0);
    CHECK(card.at("counts").at("failed") == 0);
    // The NPU has no f64, and says so when it compiles.
    CHECK(card.at("counts").at("passed").get<int>() >= (backend == "npu" ? 900 : 930));
  }
}

TEST_CASE("onnx tests of whole numbers beyond 2^53 go by each of their bits") {
  constexpr int64_t kBeyond = int64_t{1} << 53;
  for (const int64_t expected : {kBeyond + 1, kBeyond}) {
    const TempFolder temp;
    std::filesystem::create_directories(temp.file("case/test_data_set_0"));
    temp.write("case/model.onnx", onnx_model({.nodes = {onnx_node("Neg", {"x"}, {"y"})},
                                              .initializers = {},
                                              .inputs = {onnx_value("x", 7, {2})},
                                              .outputs = {onnx_value("y", 7, {2})}}));
    temp.write("case/test_data_set_0/input_0.pb", onnx_integers("x", {2}, {5, -kBeyond - 1}));
    temp.write("case/test_data_set_0/output_0.pb", onnx_integers("y", {2}, {-5, expected}));
    const ToolResult result = run_tool({"conformance", "--onnx", temp.path(), "--backend", "ref"});
    CAPTURE(result.out + result.err);
    CHECK(result.exit_code == (expected == kBeyond ? 3 : 0));
    CHECK(contains(result.out, "element 1: expected 9007199254740992, got 9007199254740993") ==
          (expected == kBeyond));
  }
}

TEST_CASE("conformance refuses a folder without onnx tests and flags that do not go with it") {
  const TempFolder temp;
  const ToolResult empty = run_tool({"conformance", "--onnx", temp.path()});
  CHECK(empty.exit_code == 1);
  CHECK(contains(empty.err, "holds no folder with a model.onnx"));
  CHECK(run_tool({"conformance", "--onnx", temp.file("absent")}).exit_code == 1);
  CHECK(run_tool({"conformance", "--onnx", temp.path(), "--ops", "add"}).exit_code == 2);
}

// The scorecard took the place of a model, and the next run had one case less.
TEST_CASE("conformance replaces no file that a case of onnx is read from") {
  const TempFolder temp;
  std::filesystem::create_directories(temp.file("case/test_data_set_0"));
  const std::string outside =
      bytes_field(13, bytes_field(1, "location") + bytes_field(2, "w.bin")) + number_field(14, 1);
  const std::string files[] = {
      temp.write("case/model.onnx", onnx_model({.nodes = {onnx_node("Add", {"x", "w"}, {"y"})},
                                                .initializers = {onnx_tensor("w", 1, {2}, outside)},
                                                .inputs = {onnx_value("x", 1, {2})},
                                                .outputs = {onnx_value("y", 1, {2})}})),
      temp.write("case/w.bin", std::string(8, '\0')),
      temp.write("case/test_data_set_0/input_0.pb", onnx_floats("x", {2}, {5, 6})),
      temp.write("case/test_data_set_0/output_0.pb", onnx_floats("y", {2}, {5, 6}))};
  for (const std::string& file : files) {
    CAPTURE(file);
    const std::string before = read_text(file);
    const ToolResult result =
        run_tool({"conformance", "--onnx", temp.path(), "--backend", "ref", "--json", file});
    CHECK(result.exit_code == 2);
    CHECK(result.out.empty());
    CHECK_MESSAGE(contains(result.err, "would overwrite the file that --onnx reads"), result.err);
    CHECK((read_text(file) == before));
  }
  // A scorecard beside them is none of them, once it is there as well.
  for (int i = 0; i < 2; ++i) {
    const ToolResult beside = run_tool({"conformance", "--onnx", temp.path(), "--backend", "ref",
                                        "--json", temp.file("case/scores.json")});
    CHECK_MESSAGE(beside.exit_code == 0, beside.err);
  }
  CHECK(read_json(temp.file("case/scores.json")).at("counts").at("passed") == 1);
}

TEST_SUITE_END();

}  // namespace keel_test
