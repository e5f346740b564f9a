// A model that computes shapes from dimensions which its file leaves open is imported with a few
// sizes in their place. What came to the same for all of these was built for every size: padding
// that depends on whether a size is even, and branches that compare a size with a number. Results
// of other sizes were wrong, or of another shape, without a word.
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/exchange/graphdef/file/read_graph_def.h"
#include "keel/ops/exchange/graphdef/import.h"
#include "keel/ops/exchange/onnx/import.h"

#include "support/count_up.h"
#include "support/error_of.h"
#include "support/graph_def_text.h"
#include "support/imported_models.h"
#include "support/onnx_bytes.h"

namespace keel {
namespace {

using namespace keel_test;

const std::string kShape = "1 x Shape (opset 17): the dimensions of its input are not known";

std::string import_refusal(const OnnxGraph& graph) {
  return error_of([&] { imported_onnx(graph); });
}

Tensor run_model_for_y(const onnx::ImportedModel& model, const Tensor& x) {
  Session session(*model.graph, device("ref"));
  return session.run(model.output("y"), {{model.input("x"), x}});
}

// A graph of x [dims] whose nodes may use the open dimension `axis` as "n" [1], and numbers.
OnnxGraph with_size(const std::vector<int64_t>& dims, int64_t axis, std::vector<std::string> nodes,
                    std::vector<std::string> initializers) {
  nodes.insert(nodes.begin(),
               {onnx_node("Shape", {"x"}, {"dims"}), onnx_node("Gather", {"dims", "axis"}, {"n"})});
  initializers.push_back(onnx_integers("axis", {1}, {axis}));
  return {.nodes = std::move(nodes),
          .initializers = std::move(initializers),
          .inputs = {onnx_value("x", 1, dims)},
          .outputs = {bytes_field(1, "y")}};
}

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("padding that follows from an open size is refused whatever sizes are tried") {
  const std::string same = onnx_text("auto_pad", "SAME_UPPER");
  const std::string steps = onnx_ints("strides", {2, 2});
  const std::string window = onnx_ints("kernel_shape", {3, 3});
  const auto of = [](const std::string& node) {
    return OnnxGraph{.nodes = {node},
                     .initializers = {onnx_floats("w", {1, 1, 3, 3}, std::vector<float>(9, 1))},
                     .inputs = {onnx_value("x", 1, {-1, 1, -1, -1})},
                     .outputs = {bytes_field(1, "y")}};
  };
  const std::string conv = import_refusal(of(onnx_node("Conv", {"x", "w"}, {"y"}, {same, steps})));
  CHECK_MESSAGE(contains(conv, "its padding follows from dimensions that are not known"), conv);
  for (const char* op : {"MaxPool", "AveragePool", "LpPool"}) {
    const std::string pool = import_refusal(of(onnx_node(op, {"x"}, {"y"}, {window, steps, same})));
    CHECK_MESSAGE(contains(pool, "its padding follows from dimensions that are not known"), pool);
    const std::string ceil =
        import_refusal(of(onnx_node(op, {"x"}, {"y"}, {window, steps, onnx_int("ceil_mode", 1)})));
    CHECK_MESSAGE(contains(ceil, "its windows follow from dimensions that are not known"), ceil);
  }
}

TEST_CASE("windows whose padding is that of any size are padded beside open ones") {
  const std::string same = onnx_text("auto_pad", "SAME_UPPER");
  const auto of = [](const std::string& node) {
    return imported_onnx({.nodes = {node},
                          .initializers = {onnx_floats("w", {1, 1, 1, 1}, {2})},
                          .inputs = {onnx_value("x", 1, {1, 1, -1, -1})},
                          .outputs = {bytes_field(1, "y")}});
  };
  const std::string window = onnx_ints("kernel_shape", {1, 3});
  const auto pool = of(onnx_node("MaxPool", {"x"}, {"y"}, {window, same}));
  CHECK(bit_equal(run_model_for_y(pool, count_up({1, 1, 1, 4})),
                  Tensor::of<float>({1, 1, 1, 4}, {1, 2, 3, 3})));
  const auto ceil = of(onnx_node("MaxPool", {"x"}, {"y"}, {window, onnx_int("ceil_mode", 1)}));
  CHECK(bit_equal(run_model_for_y(ceil, count_up({1, 1, 1, 4})),
                  Tensor::of<float>({1, 1, 1, 2}, {2, 3})));
  const std::string steps = onnx_ints("strides", {2, 2});
  const auto one = of(onnx_node("Conv", {"x", "w"}, {"y"}, {same, steps}));
  CHECK(bit_equal(run_model_for_y(one, count_up({1, 1, 2, 3})),
                  Tensor::of<float>({1, 1, 1, 2}, {0, 4})));
}

TEST_CASE("windows of fixed sizes are padded beside an open batch") {
  // 4 x 4 elements in windows of 3 with a stride of 2: one element of padding behind each axis.
  const OnnxGraph graph =
      with_size({-1, 1, 4, 4}, 0,
                {onnx_node("MaxPool", {"x"}, {"m"},
                           {onnx_ints("kernel_shape", {3, 3}), onnx_ints("strides", {2, 2}),
                            onnx_text("auto_pad", "SAME_UPPER")}),
                 onnx_node("Concat", {"n", "rest"}, {"to"}, {onnx_int("axis", 0)}),
                 onnx_node("Reshape", {"m", "to"}, {"y"})},
                {onnx_integers("rest", {1}, {-1})});
  const Tensor y = run_model_for_y(imported_onnx(graph), count_up({2, 1, 4, 4}));
  CHECK(bit_equal(y, Tensor::of<float>({2, 4}, {10, 11, 14, 15, 26, 27, 30, 31})));
}

TEST_CASE("bounds computed from an open size are refused where the sizes tried agree on them") {
  // Padding behind the axis of x by n % 2, by n / 1000000, and as much as n is above 1000000.
  const auto padded = [](std::vector<std::string> nodes) {
    nodes.push_back(onnx_node("Concat", {"front", "p"}, {"pads"}, {onnx_int("axis", 0)}));
    nodes.push_back(onnx_node("Pad", {"x", "pads"}, {"y"}));
    return import_refusal(
        with_size({1, -1}, 1, nodes,
                  {onnx_integers("front", {3}, {0, 0, 0}), onnx_integers("two", {1}, {2}),
                   onnx_integers("none", {1}, {0}), onnx_integers("many", {1}, {1000000})}));
  };
  const std::string even = padded({onnx_node("Mod", {"n", "two"}, {"p"})});
  CHECK_MESSAGE(contains(even, kShape), even);
  const std::string steps = padded({onnx_node("Div", {"n", "many"}, {"p"})});
  CHECK_MESSAGE(contains(steps, kShape), steps);
  const std::string above =
      padded({onnx_node("Sub", {"n", "many"}, {"d"}), onnx_node("Max", {"d", "none"}, {"p"})});
  CHECK_MESSAGE(contains(above, kShape), above);
  const std::string back = import_refusal(
      with_size({-1, 2}, 0,
                {onnx_node("Concat", {"n", "two"}, {"to"}, {onnx_int("axis", 0)}),
                 onnx_node("Reshape", {"x", "to"}, {"same"}),
                 onnx_node("Slice", {"same", "start", "end", "zero", "step"}, {"y"})},
                {onnx_integers("two", {1}, {2}), onnx_integers("start", {1}, {-1000}),
                 onnx_integers("end", {1}, {-2000}), onnx_integers("zero", {1}, {0}),
                 onnx_integers("step", {1}, {-1})}));
  CHECK_MESSAGE(contains(back, kShape), back);
}

TEST_CASE("a branch on an open size is refused where the sizes tried agree on it") {
  const OnnxGraph neg{.nodes = {onnx_node("Neg", {"x"}, {"a"})}, .outputs = {bytes_field(1, "a")}};
  const OnnxGraph same{.nodes = {onnx_node("Identity", {"x"}, {"b"})},
                       .outputs = {bytes_field(1, "b")}};
  const auto branched = [&](const char* op, int64_t number) {
    return import_refusal(
        with_size({-1, 2}, 0,
                  {onnx_node("Squeeze", {"n"}, {"s"}), onnx_node(op, {"s", "number"}, {"c"}),
                   onnx_node("If", {"c"}, {"y"},
                             {onnx_graph("then_branch", neg), onnx_graph("else_branch", same)})},
                  {onnx_integers("number", {}, {number})}));
  };
  for (const char* op : {"Equal", "Greater"})
    for (const int64_t number : {int64_t{224}, int64_t{1000000}})
      CHECK_MESSAGE(contains(branched(op, number), kShape), branched(op, number));
}

TEST_CASE("a number that an open size decides is no operand and no result") {
  const std::vector<std::string> large{onnx_node("Greater", {"n", "many"}, {"c"}),
                                       onnx_node("Cast", {"c"}, {"f"}, {onnx_int("to", 1)})};
  const std::vector<std::string> many{onnx_integers("many", {1}, {1000000})};
  std::vector<std::string> scaled = large, given = large;
  scaled.push_back(onnx_node("Mul", {"x", "f"}, {"y"}));
  given.push_back(onnx_node("Identity", {"f"}, {"y"}));
  for (const auto& nodes : {scaled, given}) {
    const std::string text = import_refusal(with_size({-1, 2}, 0, nodes, many));
    CHECK_MESSAGE(contains(text, kShape), text);
  }
}

TEST_CASE("a dimension of a target that open sizes decide in any way is inferred") {
  // n * 4 / 2 rows of 2, which are the only ones that hold 4 * n elements; n > 10^6 ? 2 : 1 is a
  // dimension that all sizes tried agree on.
  const std::vector<std::string> numbers{
      onnx_integers("four", {1}, {4}), onnx_integers("two", {1}, {2}),
      onnx_integers("one", {1}, {1}), onnx_integers("rest", {1}, {-1}),
      onnx_integers("many", {1}, {1000000})};
  const std::vector<std::string> half{onnx_node("Mul", {"n", "four"}, {"all"}),
                                      onnx_node("Div", {"all", "two"}, {"rows"})};
  std::vector<std::string> nodes = half;
  nodes.push_back(onnx_node("Concat", {"rows", "two"}, {"to"}, {onnx_int("axis", 0)}));
  nodes.push_back(onnx_node("Reshape", {"x", "to"}, {"y"}));
  const onnx::ImportedModel model = imported_onnx(with_size({-1, 4}, 0, nodes, numbers));
  for (const int64_t batch : {1, 3, 6})
    CHECK(bit_equal(run_model_for_y(model, count_up({batch, 4})), count_up({2 * batch, 2})));

  const std::vector<std::string> one_or_two{
      onnx_node("Greater", {"n", "many"}, {"c"}),
      onnx_node("Where", {"c", "two", "one"}, {"parts"}),
      onnx_node("Concat", {"parts", "rest"}, {"to"}, {onnx_int("axis", 0)}),
      onnx_node("Reshape", {"x", "to"}, {"y"})};
  const std::string text = import_refusal(with_size({-1, 4}, 0, one_or_two, numbers));
  CHECK_MESSAGE(contains(text, kShape), text);
}

// All n * 2 rows of x [?, 2, 3], and what is left: 3 columns.
TEST_CASE("beside a product of open sizes another dimension of a target is inferred") {
  const onnx::ImportedModel model = imported_onnx(
      with_size({-1, 2, 3}, 0,
                {onnx_node("Concat", {"n", "two"}, {"both"}, {onnx_int("axis", 0)}),
                 onnx_node("ReduceProd", {"both"}, {"rows"}, {onnx_int("keepdims", 1)}),
                 onnx_node("Concat", {"rows", "rest"}, {"to"}, {onnx_int("axis", 0)}),
                 onnx_node("Reshape", {"x", "to"}, {"y"})},
                {onnx_integers("two", {1}, {2}), onnx_integers("rest", {1}, {-1})}));
  CHECK(model.output("y").shape() == Shape{-1, 3});
  for (const int64_t batch : {1, 5})
    CHECK(bit_equal(run_model_for_y(model, count_up({batch, 2, 3})), count_up({2 * batch, 3})));
}

TEST_CASE("beside an even share of an open size another dimension of a target is inferred") {
  // Windows of [4 n, 2] put back together, as n images of 4 windows.
  const auto shares = [](int64_t windows) {
    return with_size(
        {-1, 2}, 0,
        {onnx_node("Concat", {"x", "x", "x", "x"}, {"all"}, {onnx_int("axis", 0)}),
         onnx_node("Shape", {"all"}, {"of all"}), onnx_node("Gather", {"of all", "axis"}, {"rows"}),
         onnx_node("Div", {"rows", "windows"}, {"images"}),
         onnx_node("Concat", {"images", "rest"}, {"to"}, {onnx_int("axis", 0)}),
         onnx_node("Reshape", {"all", "to"}, {"y"})},
        {onnx_integers("rest", {1}, {-1}), onnx_integers("windows", {1}, {windows})});
  };
  for (const int64_t rows : {2, 5})
    CHECK(run_model_for_y(imported_onnx(shares(4)), count_up({rows, 2})).shape() == Shape{rows, 8});
  CHECK(contains(import_refusal(shares(3)), "the dimensions of its input are not known"));
}

TEST_CASE("what a shape says of fixed dimensions is a number like any other beside an open one") {
  // x [?, 3] gets 3 % 2 columns more.
  const onnx::ImportedModel model = imported_onnx(
      with_size({-1, 3}, 1,
                {onnx_node("Mod", {"n", "two"}, {"p"}),
                 onnx_node("Concat", {"front", "p"}, {"pads"}, {onnx_int("axis", 0)}),
                 onnx_node("Pad", {"x", "pads"}, {"y"})},
                {onnx_integers("front", {3}, {0, 0, 0}), onnx_integers("two", {1}, {2})}));
  CHECK(bit_equal(run_model_for_y(model, count_up({2, 3})),
                  Tensor::of<float>({2, 4}, {0, 1, 2, 0, 3, 4, 5, 0})));
}

TEST_CASE("an image is resized to sizes whose batch is the open one of the file") {
  const OnnxGraph graph =
      with_size({-1, 1, 1, 2}, 0,
                {onnx_node("Concat", {"n", "sizes"}, {"to"}, {onnx_int("axis", 0)}),
                 onnx_node("Resize", {"x", "", "", "to"}, {"y"})},
                {onnx_integers("sizes", {3}, {1, 1, 4})});
  const onnx::ImportedModel model = imported_onnx(graph);
  for (const int64_t batch : {1, 3}) {
    const Tensor y = run_model_for_y(model, count_up({batch, 1, 1, 2}));
    REQUIRE(y.shape() == Shape{batch, 1, 1, 4});
    // Elements of the last image: its first one twice, then its second one twice.
    const auto first = static_cast<double>(2 * batch - 2);
    for (int64_t i = 0; i < 4; ++i) CHECK(y.at(4 * batch - 4 + i) == first + (i < 2 ? 0 : 1));
  }
}

TEST_CASE("a TensorFlow graph is not padded by the remainder of an open size") {
  const auto number = [](const char* name, int32_t value) {
    return const_text(name, Tensor::scalar<int32_t>(value));
  };
  const auto list = [](const char* name, int32_t value) {
    return const_text(name, Tensor::of<int32_t>({1}, {value}));
  };
  const auto graph = [&](const Shape& shape) {
    return placeholder_text("x", f32, shape) + node_text("shape", "Shape", {"x"}) + list("one", 1) +
           list("two", 2) +
           node_text("n", "StridedSlice", {"shape", "one", "two", "one"},
                     {{"shrink_axis_mask", "i: 1"}}) +
           number("divisor", 2) + number("zero", 0) + node_text("r", "FloorMod", {"n", "divisor"}) +
           node_text("rows", "Pack", {"zero", "zero"}) +
           node_text("columns", "Pack", {"zero", "r"}) +
           node_text("pads", "Pack", {"rows", "columns"}) + node_text("y", "Pad", {"x", "pads"});
  };
  const std::string text = error_of([&] { imported_graph_def(graph({2, -1})); });
  CHECK_MESSAGE(contains(text, "1 x Shape: the dimensions of its input are not known"), text);
  // Beside an open batch the columns are known.
  CHECK(bit_equal(run_model_for_y(imported_graph_def(graph({-1, 3})), count_up({1, 3})),
                  Tensor::of<float>({1, 4}, {0, 1, 2, 0})));
}

TEST_SUITE_END();

}  // namespace keel
