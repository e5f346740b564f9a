// Imported models failed, or had another rank than in the run, where several dimensions were not
// known before it; and slices and resizes at an edge differed from what ONNX says of them.
#include <cmath>
#include <cstdint>
#include <limits>
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

// All outputs of a model of one input.
std::vector<Tensor> run_model(const onnx::ImportedModel& model, const Tensor& x,
                              const char* backend) {
  Session session(*model.graph, device(backend));
  Values fetches;
  for (const auto& output : model.outputs) fetches.push_back(output.second);
  return session.run(fetches, {{model.inputs.at(0).second, x}});
}

// Returns a graph of one slice with these bounds along its only axis.
OnnxGraph backward_slice(int64_t dim, int64_t start, int64_t end, int64_t step) {
  return {.nodes = {onnx_node("Slice", {"x", "start", "end", "axis", "step"}, {"y"})},
          .initializers = {onnx_integers("start", {1}, {start}), onnx_integers("end", {1}, {end}),
                           onnx_integers("axis", {1}, {0}), onnx_integers("step", {1}, {step})},
          .inputs = {onnx_value("x", 1, {dim})},
          .outputs = {onnx_value("y", 1, {-1})}};
}

OnnxGraph resized(const std::string& position, const std::vector<int64_t>& dims,
                  const std::vector<float>& scales) {
  const auto text = [](const std::string& name, const std::string& value) {
    return bytes_field(1, name) + bytes_field(4, value) + number_field(20, 3);
  };
  return {.nodes = {onnx_node(
              "Resize", {"x", "", "scales"}, {"y"},
              {text("mode", "linear"), text("coordinate_transformation_mode", position)})},
          .initializers = {onnx_floats("scales", {static_cast<int64_t>(scales.size())}, scales)},
          .inputs = {onnx_value("x", 1, dims)},
          .outputs = {onnx_value("y", 1, std::vector<int64_t>(dims.size(), -1))}};
}

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("an output of an imported model may be an input of several unknown dimensions") {
  const OnnxGraph copied{.nodes = {onnx_node("Identity", {"x"}, {"y"})},
                         .inputs = {onnx_value("x", 1, {-1, -1})},
                         .outputs = {onnx_value("y", 1, {-1, -1}), onnx_value("x", 1, {-1, -1})}};
  const OnnxGraph kept{.nodes = {onnx_node("Dropout", {"x"}, {"y"})},
                       .inputs = {onnx_value("x", 1, {-1, 4, -1})},
                       .outputs = {onnx_value("y", 1, {-1, 4, -1})}};
  const std::string graph =
      placeholder_text("x", f32, {-1, -1}) + node_text("y", "Identity", {"x"});
  for (const char* backend : {"ref", "cpu", "npu"}) {
    CAPTURE(backend);
    for (const Tensor& y : run_model(imported_onnx(copied), count_up({3, 4}), backend))
      CHECK(bit_equal(y, count_up({3, 4})));
    CHECK(bit_equal(run_model(imported_onnx(kept), count_up({2, 4, 1}), backend)[0],
                    count_up({2, 4, 1})));
    CHECK(bit_equal(run_model(imported_graph_def(graph), count_up({1, 5}), backend)[0],
                    count_up({1, 5})));
  }
  const onnx::ImportedModel model = imported_onnx(copied);
  CHECK(model.graph->find("y") == model.output("y"));
  CHECK(model.output("y").shape() == Shape{-1, -1});
}

// The shape that y is reshaped to depends on a size that is known only in the run, so that the
// import joins what it makes of several sizes: x, too, is to be the same in all of them.
TEST_CASE("an output that is an input stands beside shapes that follow from open sizes") {
  const OnnxGraph graph{
      .nodes = {onnx_node("Shape", {"x"}, {"s"}), onnx_node("Gather", {"s", "zero"}, {"n"}),
                onnx_node("Concat", {"n", "rest"}, {"t"}, {onnx_int("axis", 0)}),
                onnx_node("Reshape", {"x", "t"}, {"y"})},
      .initializers = {onnx_integers("zero", {1}, {0}), onnx_integers("rest", {1}, {-1})},
      .inputs = {onnx_value("x", 1, {-1, 2, 3})},
      .outputs = {onnx_value("y", 1, {-1, 6}), onnx_value("x", 1, {-1, 2, 3})}};
  const std::vector<Tensor> both = run_model(imported_onnx(graph), count_up({4, 2, 3}), "ref");
  CHECK(bit_equal(both[0], count_up({4, 6})));
  CHECK(bit_equal(both[1], count_up({4, 2, 3})));
}

TEST_CASE("outputs of an imported model may be pieces of several unknown dimensions") {
  const OnnxGraph graph{
      .nodes = {onnx_node("Split", {"x", "sizes"}, {"y", "z"}, {onnx_int("axis", 0)})},
      .initializers = {onnx_integers("sizes", {2}, {1, 2})},
      .inputs = {onnx_value("x", 1, {3, -1, -1})},
      .outputs = {onnx_value("y", 1, {1, -1, -1}), onnx_value("z", 1, {2, -1, -1})}};
  for (const char* backend : {"ref", "cpu", "npu"}) {
    CAPTURE(backend);
    const std::vector<Tensor> pieces =
        run_model(imported_onnx(graph), count_up({3, 2, 1}), backend);
    CHECK(bit_equal(pieces[0], Tensor::of<float>({1, 2, 1}, {0, 1})));
    CHECK(bit_equal(pieces[1], Tensor::of<float>({2, 2, 1}, {2, 3, 4, 5})));
  }
}

TEST_CASE("a squeeze of no axes is refused where dimensions are not known") {
  const auto squeezed = [](const std::vector<int64_t>& dims) {
    return OnnxGraph{.nodes = {onnx_node("Squeeze", {"x"}, {"y"})},
                     .inputs = {onnx_value("x", 1, dims)},
                     .outputs = {onnx_value("y", 1, {-1})}};
  };
  const auto squeezed_node = [](const Shape& shape, const NodeAttributes& attributes) {
    return placeholder_text("x", f32, shape) + node_text("y", "Squeeze", {"x"}, attributes);
  };
  const std::string why = "of which it drops each 1 as it names no axes";
  const std::string error = error_of([&] { imported_onnx(squeezed({-1, 4})); });
  CHECK_MESSAGE(contains(error, why), error);
  CHECK_MESSAGE(contains(error, "not known before the run: [?, 4]"), error);
  const std::string same = error_of([&] { imported_graph_def(squeezed_node({-1, 4}, {})); });
  CHECK_MESSAGE(contains(same, why), same);
  CHECK(run_model(imported_onnx(squeezed({1, 4, 1})), count_up({1, 4, 1}), "ref")[0].shape() ==
        Shape{4});
  const auto named =
      imported_graph_def(squeezed_node({-1, 1, 4}, {{"squeeze_dims", "list { i: 1 }"}}));
  CHECK(run_model(named, count_up({1, 1, 4}), "ref")[0].shape() == Shape{1, 4});
}

// ONNX clamps the start of a backward slice to the first element, where numpy goes past it.
TEST_CASE("a backward slice of ONNX from before the first element has this element") {
  constexpr int64_t kFirst = std::numeric_limits<int64_t>::min();
  const auto slice_of = [](int64_t dim, int64_t start, int64_t end, int64_t step) {
    return run_model(imported_onnx(backward_slice(dim, start, end, step)), count_up({5}), "ref")[0];
  };
  CHECK(bit_equal(slice_of(5, -8, kFirst, -1), count_up({1})));
  CHECK(bit_equal(slice_of(5, kFirst, kFirst, -2), count_up({1})));
  CHECK(bit_equal(slice_of(5, -4, kFirst, -1), Tensor::of<float>({2}, {1, 0})));
  CHECK(slice_of(5, -8, 0, -1).shape() == Shape{0});
  CHECK(slice_of(5, -8, 5, 1).shape() == Shape{5});
  // The last element is there, whatever the size.
  CHECK(slice_of(-1, -1, kFirst, -2).shape() == Shape{3});
  const std::string error = error_of([&] { slice_of(-1, -8, kFirst, -1); });
  CHECK_MESSAGE(contains(error, "it goes backwards from -8"), error);
}

// ONNX says that the length is that of the result, a whole number: 1 here, which takes element 0.
TEST_CASE("a resize by half pixels to one element takes the first one as PyTorch does") {
  const Tensor x = Tensor::of<float>({1, 1, 1, 3}, {1, 2, 3});
  const auto y = run_model(
      imported_onnx(resized("pytorch_half_pixel", {1, 1, 1, 3}, {1, 1, 1, 0.5f})), x, "ref")[0];
  CHECK(bit_equal(y, Tensor::of<float>({1, 1, 1, 1}, {1})));
}

// ONNX's own tests divide by the length before it is rounded: 4 * 0.6 - 1, so that element 1 lies
// at 3 / 1.4.
TEST_CASE("a resize by a fractional length aligns corners as ONNX tests do") {
  const Tensor x = Tensor::of<float>({1, 1, 1, 4}, {1, 2, 3, 4});
  const auto y = run_model(imported_onnx(resized("align_corners", {1, 1, 1, 4}, {1, 1, 1, 0.6f})),
                           x, "ref")[0];
  REQUIRE(y.shape() == Shape{1, 1, 1, 2});
  CHECK(y.at(0) == 1);
  CHECK(y.at(1) == doctest::Approx(1 + 3 / 1.4));
}

TEST_CASE("a reshape that keeps an open dimension beside an open one says so") {
  const auto reshaped = [](const std::vector<int64_t>& dims, const std::vector<int64_t>& to) {
    return OnnxGraph{.nodes = {onnx_node("Reshape", {"x", "to"}, {"y"})},
                     .initializers = {onnx_integers("to", {static_cast<int64_t>(to.size())}, to)},
                     .inputs = {onnx_value("x", 1, dims)},
                     .outputs = {onnx_value("y", 1, std::vector<int64_t>(to.size(), -1))}};
  };
  const std::string error = error_of([&] { imported_onnx(reshaped({-1, -1}, {0, -1, 2})); });
  CHECK_MESSAGE(contains(error, "keeps dimension 0 of [?, ?], which is not known"), error);
  const Tensor y =
      run_model(imported_onnx(reshaped({-1, 3, 4}, {0, -1})), count_up({2, 3, 4}), "ref")[0];
  CHECK(bit_equal(y, count_up({2, 12})));
}

// Both functions of 89 are e^89 / 2 to f32's precision, half of what f32 cannot hold.
TEST_CASE("hyperbolic functions of an import overflow no sooner than their results") {
  const std::vector<float> numbers = {-89, 89, 1e-6f, -1e-6f, 0.5f, 3};
  const auto of = [&](const char* op) {
    const OnnxGraph graph{.nodes = {onnx_node(op, {"x"}, {"y"})},
                          .inputs = {onnx_value("x", 1, {6})},
                          .outputs = {onnx_value("y", 1, {6})}};
    return run_model(imported_onnx(graph), Tensor::of<float>({6}, numbers), "ref")[0];
  };
  const Tensor sine = of("Sinh"), cosine = of("Cosh");
  for (int64_t i = 0; i < 6; ++i) {
    const double x = static_cast<double>(numbers[static_cast<size_t>(i)]);
    CAPTURE(x);
    CHECK(sine.at(i) == doctest::Approx(std::sinh(x)).epsilon(1e-6).scale(0));
    CHECK(cosine.at(i) == doctest::Approx(std::cosh(x)).epsilon(1e-6).scale(0));
  }
}

TEST_CASE("a value of a TensorFlow placeholder that it has not is refused by its name") {
  const std::string graph = placeholder_text("x", f32, {2}) + node_text("y", "Relu", {"x:3"});
  const std::string error = error_of([&] { imported_graph_def(graph); });
  CHECK_MESSAGE(contains(error, "node 'y': there is no output 3 of 'x', which has 1 output"),
                error);
  const std::string wanted = error_of([&] { imported_graph_def(graph, {"x:1"}); });
  CHECK_MESSAGE(contains(wanted, "there is no output 1 of 'x'"), wanted);
}

TEST_CASE("a TensorFlow cast without its dtype is refused") {
  const std::string x = placeholder_text("x", f32, {2});
  const std::string error =
      error_of([&] { imported_graph_def(x + node_text("y", "Cast", {"x"})); });
  CHECK_MESSAGE(contains(error, "its attribute DstT is missing"), error);
  const auto y =
      run_model(imported_graph_def(x + node_text("y", "Cast", {"x"}, {{"DstT", "type: DT_INT32"}})),
                count_up({2}), "ref")[0];
  CHECK(y.dtype() == i32);
}

// ONNX calls such an initializer the default of the input.
TEST_CASE("an initializer that is an input of the file may be replaced by a bound value") {
  const OnnxGraph graph{.nodes = {onnx_node("Add", {"x", "w"}, {"y"})},
                        .initializers = {onnx_floats("w", {1}, {1})},
                        .inputs = {onnx_value("x", 1, {3}), onnx_value("w", 1, {1})},
                        .outputs = {onnx_value("y", 1, {3})}};
  const auto sum = [&](const onnx::ImportOptions& options) {
    return run_model(imported_onnx(graph, options), count_up({3}), "ref")[0];
  };
  CHECK(bit_equal(sum({}), Tensor::of<float>({3}, {1, 2, 3})));
  const Tensor five = Tensor::of<float>({1}, {5});
  CHECK(bit_equal(sum({.bind = {{"w", five}}}), Tensor::of<float>({3}, {5, 6, 7})));
  const std::string wrong = error_of([&] { sum({.bind = {{"w", count_up({2})}}}); });
  CHECK_MESSAGE(contains(wrong, "bind 'w'"), wrong);
  // One that is no input is the model's own.
  OnnxGraph own = graph;
  own.inputs.pop_back();
  CHECK(contains(error_of([&] {
                   imported_onnx(own, {.bind = {{"w", five}}});
                 }),
                 "the name of an input"));
}

}  // namespace keel
