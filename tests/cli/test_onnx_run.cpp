// `keel import` and `keel run`: ONNX models on NumPy files, directly and as what import makes of
// them. Models are bytes made by hand, expected values computed by hand.
#include <filesystem>
#include <string>

#include <doctest/doctest.h>
#include <keel/core/tensor/npy.h>

#include "cli/tool.h"
#include "support/error_of.h"
#include "support/onnx_bytes.h"
#include "support/temp_folder.h"

namespace keel_test {
namespace {

// y = reshape(x w, shape) and flags = x > 0.
std::string small_model() {
  return onnx_model(
      {.nodes = {onnx_node("MatMul", {"x", "w"}, {"xw"}),
                 onnx_node("Reshape", {"xw", "shape"}, {"y"}),
                 onnx_node("Greater", {"x", "zero"}, {"flags/0"})},
       .initializers = {onnx_floats("w", {2, 2}, {1, 2, 3, 4}), onnx_floats("zero", {}, {0})},
       .inputs = {onnx_value("x", 1, {-1, 2}), onnx_value("shape", 7, {1})},
       .outputs = {onnx_value("y", 1, {-1}), onnx_value("flags/0", 9, {-1, 2})}});
}

struct Files {
  TempFolder temp;
  std::string model = temp.write("m.onnx", small_model());
  std::string x = temp.file("x.npy");
  std::string shape = temp.file("shape.npy");

  Files() {
    keel::write_npy(x, keel::Tensor::of<float>({2, 2}, {1, 1, 0, -1}));
    keel::write_npy(shape, keel::Tensor::of<int64_t>({1}, {-1}));
    std::filesystem::create_directory(temp.file("out"));
  }
  void check_results() const {
    CHECK(bit_equal(keel::read_npy(temp.file("out/y.npy")),
                    keel::Tensor::of<float>({4}, {4, 6, -3, -4})));
    CHECK(bit_equal(keel::read_npy(temp.file("out/flags_0.npy")),
                    keel::Tensor::of<bool>({2, 2}, {true, true, false, false})));
  }
};

}  // namespace

TEST_SUITE_BEGIN("cli");

TEST_CASE("run gives the outputs of an onnx model on each backend") {
  for (const std::string backend : {"ref", "cpu", "npu"}) {
    const Files files;
    const ToolResult result =
        run_tool({"run", files.model, "--input", "x=" + files.x, "--bind", "shape=" + files.shape,
                  "--output-dir", files.temp.file("out"), "--backend", backend});
    CAPTURE(result.out + result.err);
    REQUIRE(result.exit_code == 0);
    CHECK(contains(result.out, "y.npy f32[4]"));
    files.check_results();
  }
}

TEST_CASE("import writes a graph and weights that run takes") {
  const Files files;
  const std::string out = files.temp.file("m.keel");
  const ToolResult imported =
      run_tool({"import", files.model, "--bind", "shape=" + files.shape, "--out", out});
  CAPTURE(imported.out + imported.err);
  REQUIRE(imported.exit_code == 0);
  CHECK(contains(imported.out, "input x f32[?, 2]"));
  CHECK(contains(read_text(out), "\"w\""));
  const ToolResult inspected = run_tool({"inspect", out + ".safetensors"});
  CHECK(inspected.exit_code == 0);
  const ToolResult result = run_tool({"run", out, "--input", "x=" + files.x, "--output-dir",
                                      files.temp.file("out"), "--backend", "cpu"});
  CAPTURE(result.out + result.err);
  REQUIRE(result.exit_code == 0);
  files.check_results();
}

TEST_CASE("run and import say what is missing or wrong") {
  const Files files;
  const auto run = [&](const Words& words) {
    const ToolResult result = run_tool(words);
    return std::to_string(result.exit_code) + " " + result.err;
  };
  const std::string x = "x=" + files.x, shape = "shape=" + files.shape;
  CHECK(contains(run({"run", files.model, "--input", x}), "bind it"));
  CHECK(contains(run({"run", files.model, "--bind", shape}), "2 "));
  CHECK(contains(run({"run", files.model, "--bind", shape}), "--input x=FILE.npy"));
  CHECK(
      contains(run({"run", files.model, "--bind", shape, "--input", x, "--input", "z=" + files.x}),
               "one of: x"));
  CHECK(contains(run({"run", files.model, "--input", files.x}), "NAME=FILE.npy"));
  CHECK(contains(run({"run", files.temp.file("absent.onnx")}), "absent.onnx"));
  CHECK(contains(run({"run"}), "the model is missing"));
  CHECK(contains(run({"import", files.model}), "--out is missing"));
  CHECK(contains(run({"run", files.temp.write("cut.onnx", small_model().substr(0, 40))}), "1 "));
}

TEST_SUITE_END();

}  // namespace keel_test
