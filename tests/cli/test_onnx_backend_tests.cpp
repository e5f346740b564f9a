// `keel conformance --onnx`: the backend tests of the ONNX project, from Debian's libonnx-testdata.
// Nothing that is not refused by the import may fail, and a least number has to pass.
#include <string>

#include <doctest/doctest.h>

#include "cli/tool.h"
#include "support/error_of.h"
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

TEST_CASE("conformance refuses a folder without onnx tests and flags that do not go with it") {
  const TempFolder temp;
  const ToolResult empty = run_tool({"conformance", "--onnx", temp.path()});
  CHECK(empty.exit_code == 1);
  CHECK(contains(empty.err, "holds no folder with a model.onnx"));
  CHECK(run_tool({"conformance", "--onnx", temp.file("absent")}).exit_code == 1);
  CHECK(run_tool({"conformance", "--onnx", temp.path(), "--ops", "add"}).exit_code == 2);
}

TEST_SUITE_END();

}  // namespace keel_test
