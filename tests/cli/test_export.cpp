// keel export: what the ONNX project's own reader finds in the file, and what is refused.
#include <filesystem>

#include <doctest/doctest.h>

#include "cli/tool.h"
#include "cli/trained_model.h"
#include "support/onnx_checker.h"

TEST_SUITE_BEGIN("cli");

namespace {

using namespace keel_test;

struct ExportedModel : TrainedModel {
  using TrainedModel::TrainedModel;
  std::string out() const { return file("model.onnx"); }
};

void check_export_refused(const ExportedModel& trained, const Words& words, int exit_code,
                          const Words& parts) {
  Words all{"export"};
  all.insert(all.end(), words.begin(), words.end());
  const ToolResult result = run_tool(all);
  CAPTURE(result.err);
  CHECK(result.exit_code == exit_code);
  CHECK(lines_of(result.err).size() == 1);
  for (const std::string& part : parts) CHECK(result.err.find(part) != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(trained.out()));
}

}  // namespace

TEST_CASE("keel export writes a model that the ONNX checker accepts") {
  if (!has_onnx_checker()) {
    MESSAGE("keel test skipped: no python3-onnx");
    return;
  }
  const ExportedModel trained("softmax");
  const ToolResult result =
      run_tool({"export", "--load", trained.weights(), "--out", trained.out()});
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  CHECK(result.out == "wrote " + trained.out() + ": softmax for inference\n");
  CHECK(onnx_python(trained.out(),
                    "print([(i.name, i.type.tensor_type.elem_type, [d.dim_param or d.dim_value "
                    "for d in i.type.tensor_type.shape.dim]) for i in [*m.graph.input, "
                    "*m.graph.output]], sorted(t.name for t in m.graph.initializer if "
                    "len(t.dims) > 0), m.metadata_props[0].value)") ==
        "[('image', 2, ['batch', 784]), ('logits', 1, ['batch', 10])] ['b', 'w'] softmax\n");

  const ToolResult fixed = run_tool(
      {"export", "--load", trained.weights(), "--out", trained.out(), "--batch", "3", "--train"});
  REQUIRE_MESSAGE(fixed.exit_code == 0, fixed.err);
  CHECK(onnx_python(trained.out(),
                    "print([(i.name, [d.dim_param or d.dim_value for d in "
                    "i.type.tensor_type.shape.dim]) for i in [*m.graph.input, "
                    "*m.graph.output]])") ==
        "[('image', [3, 784]), ('label', [3]), ('loss', []), ('gradient/w', [784, 10]), "
        "('gradient/b', [10])]\n");
}

TEST_CASE("keel export refuses what it cannot write and leaves no file") {
  const ExportedModel trained("lenet");
  const std::string load = trained.weights(), out = trained.out();
  check_export_refused(trained, {"--out", out}, 2, {"--load", "is missing"});
  check_export_refused(trained, {"--load", load}, 2, {"--out", "is missing"});
  check_export_refused(trained, {"--load", load, "--out", load}, 2, {"--out", "--load"});
  check_export_refused(trained, {"--load", load, "--out", out, "--batch", "0"}, 2,
                       {"--batch", "0"});
  check_export_refused(trained, {"--load", load, "--out", out, "--model", "mlp"}, 1,
                       {"lenet", "mlp"});
  check_export_refused(trained, {"--load", trained.file("none"), "--out", out}, 1, {"none"});
  check_export_refused(trained, {"--load", load, "--out", trained.file("none/model.onnx")}, 1,
                       {"--out", "none"});
  // The dropout of a training draws random numbers.
  check_export_refused(trained, {"--load", load, "--out", out, "--train"}, 1,
                       {"cannot be written as ONNX", "dropout", "has no ONNX form",
                        "(bernoulli bool[batch, 512]): has no ONNX form: it draws random numbers"});
}

TEST_SUITE_END();
