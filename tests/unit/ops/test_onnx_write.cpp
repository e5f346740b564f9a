// The file that a model becomes, as the ONNX project's own reader sees it.
#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>

#include "keel/core/base/error.h"
#include "keel/ops/exchange/onnx/write_model.h"

#include "support/onnx_checker.h"
#include "support/temp_folder.h"

TEST_SUITE_BEGIN("unit");

namespace keel::onnx {
namespace {

// y = x w + 1, x being [batch, 2].
WrittenModel small_model() {
  WrittenModel model;
  model.producer_version = "1.2.3";
  model.metadata = {{"made", "by a test"}};
  WrittenGraph& graph = model.graph;
  graph.name = "small";
  graph.inputs = {{"x", f32, {{.symbol = "batch"}, {.size = 2}}}};
  graph.outputs = {{"y", f32, {{.symbol = "batch"}, {.size = 3}}}};
  graph.initializers = {{"w", Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6})},
                        {"one", Tensor::scalar(1.0f)}};
  graph.nodes = {{"Gemm", "product", {"x", "w"}, {"p"}, {{"alpha", 1.0f}, {"transB", int64_t{0}}}},
                 {"Add", "sum", {"p", "one"}, {"y"}, {}}};
  return model;
}

bool lacks_checker() {
  if (keel_test::has_onnx_checker()) return false;
  MESSAGE("keel test skipped: no python3-onnx");
  return true;
}

}  // namespace

TEST_CASE("a written ONNX model passes the checker and reads back") {
  if (lacks_checker()) return;
  const keel_test::TempFolder folder;
  const std::string path = folder.file("small.onnx");
  write_model(small_model(), path);
  CHECK(keel_test::onnx_python(
            path,
            "print(m.ir_version, m.opset_import[0].version, m.producer_name, "
            "m.producer_version, m.metadata_props[0].key, m.metadata_props[0].value)") ==
        "8 17 keel 1.2.3 made by a test\n");
  CHECK(keel_test::onnx_python(
            path,
            "print(*[(n.name, n.op_type, *n.input, *n.output) for n in m.graph.node], "
            "*[(a.name, a.type, a.f, a.i) for a in m.graph.node[0].attribute])") ==
        "('product', 'Gemm', 'x', 'w', 'p') ('sum', 'Add', 'p', 'one', 'y') "
        "('alpha', 1, 1.0, 0) ('transB', 2, 0.0, 0)\n");
  CHECK(keel_test::onnx_python(
            path,
            "print(*[numpy_helper.to_array(t).tolist() for t in m.graph.initializer], "
            "[(d.dim_param, d.dim_value) for d in "
            "m.graph.input[0].type.tensor_type.shape.dim])") ==
        "[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]] 1.0 [('batch', 0), ('', 2)]\n");
}

TEST_CASE("each kind of ONNX attribute and each dtype is written") {
  if (lacks_checker()) return;
  const keel_test::TempFolder folder;
  const std::string path = folder.file("kinds.onnx");
  WrittenModel model;
  WrittenGraph& graph = model.graph;
  graph.name = "kinds";
  auto branch = std::make_shared<WrittenGraph>();
  branch->name = "branch";
  branch->initializers = {{"inner", Tensor::of<int64_t>({2}, {-7, 8})}};
  branch->nodes = {{"Identity", "copy", {"inner"}, {"chosen"}, {}}};
  branch->outputs = {{"chosen", i64, {{.size = 2}}}};
  graph.outputs = {{"y", i64, {{.size = 2}}}};
  graph.initializers = {{"p", Tensor::full(boolean, {}, 1)}};
  const std::shared_ptr<const WrittenGraph> body = branch;
  graph.nodes = {{"If", "if", {"p"}, {"y"}, {{"then_branch", body}, {"else_branch", body}}}};
  for (const DType dtype : kDTypes) {
    const std::string name = name_of(dtype);
    graph.nodes.push_back({"Constant", name, {}, {name}, {{"value", Tensor::full(dtype, {3}, 1)}}});
  }
  graph.nodes.push_back(
      {"Constant", "ints", {}, {"ints"}, {{"value_ints", std::vector<int64_t>{1, -2}}}});
  graph.nodes.push_back(
      {"Constant", "floats", {}, {"floats"}, {{"value_floats", std::vector<float>{0.5f}}}});
  graph.nodes.push_back(
      {"ReduceLogSumExp", "r", {"f32"}, {"r"}, {{"axes", std::vector<int64_t>{0}}}});
  graph.nodes.push_back({"Cast", "c", {"r"}, {"c"}, {{"to", int64_t{11}}}});
  graph.nodes.push_back({"Pad", "pad", {"f32", "ints"}, {"pad"}, {{"mode", std::string("edge")}}});
  write_model(model, path);
  CHECK(keel_test::onnx_python(
            path,
            "print([t.data_type for t in [n.attribute[0].t for n in m.graph.node[1:9]]], "
            "[numpy_helper.to_array(n.attribute[0].t).tolist() for n in m.graph.node[1:9] if "
            "n.name != 'bf16'], m.graph.node[9].attribute[0].ints, "
            "m.graph.node[10].attribute[0].floats, m.graph.node[13].attribute[0].s, "
            "numpy_helper.to_array(m.graph.node[0].attribute[0].g.initializer[0]).tolist())") ==
        "[11, 1, 10, 16, 7, 6, 2, 9] [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0], "
        "[1, 1, 1], [1, 1, 1], [1, 1, 1], [True, True, True]] [1, -2] [0.5] b'edge' [-7, 8]\n");
}

TEST_CASE("ONNX weights beyond the limit go to a second file") {
  if (lacks_checker()) return;
  const keel_test::TempFolder folder;
  const std::string path = folder.file("large.onnx");
  WrittenModel model = small_model();
  Tensor large(f32, {2, 300});
  for (int64_t i = 0; i < large.num_elements(); ++i) large.set(i, static_cast<double>(i));
  model.graph.initializers = {{"w", large}, {"one", Tensor::scalar(1.0f)}, {"more", large}};
  model.graph.nodes.push_back({"Gemm", "again", {"x", "more"}, {"unused"}, {}});
  model.graph.outputs[0].shape[1].size = 300;
  write_model(model, path, 2000);
  CHECK(std::filesystem::exists(path + ".data"));
  CHECK(std::filesystem::file_size(path) < 1000);
  CHECK(keel_test::onnx_python(
            path,
            "print([int(numpy_helper.to_array(t).sum()) for t in m.graph.initializer], "
            "m.graph.initializer[1].data_location)") == "[179700, 1, 179700] 0\n");
  CHECK(keel_test::onnx_python(path,
                               "m = onnx.load('" + path +
                                   "', load_external_data=False); print({e.key: e.value for e in "
                                   "m.graph.initializer[2].external_data})") ==
        "{'location': 'large.onnx.data', 'offset': '4096', 'length': '2400'}\n");
}

TEST_CASE("an ONNX file that cannot be written leaves the old one and no other") {
  const keel_test::TempFolder folder;
  const std::string path = folder.write("model.onnx", "old");
  CHECK_THROWS_WITH_AS(write_model(small_model(), folder.file("none/model.onnx")),
                       doctest::Contains("none/model.onnx"), Error);
  // The second file cannot be: a folder is in its place.
  std::filesystem::create_directory(path + ".data");
  CHECK_THROWS_WITH_AS(write_model(small_model(), path, 0), doctest::Contains("model.onnx.data"),
                       Error);
  std::string text;
  std::ifstream(path) >> text;
  CHECK(text == "old");
  size_t entries = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    CAPTURE(entry.path());
    ++entries;
  }
  CHECK(entries == 2);
}

}  // namespace keel::onnx

TEST_SUITE_END();
