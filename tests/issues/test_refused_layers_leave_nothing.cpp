// Layers took whatever their initializer functions gave for their weights, of any shape, and layers
// of layers refused their arguments when the inner ones had made states, whose names were then
// taken.
#include <string>

#include <doctest/doctest.h>

#include "keel/ops/nn/nn.h"

#include "support/error_of.h"

TEST_SUITE_BEGIN("nn");

namespace {

using namespace keel;
using keel_test::contains;
using keel_test::error_of;

InitializerFunction zeros_of_shape(const Shape& shape) {
  return [shape](const Shape&, DType dtype) { return zeros(shape, dtype); };
}

// Says what `make`, a layer in the graph, is refused with; the graph stays as it is.
template <class Make>
std::string refused(Graph& g, const Make& make) {
  const size_t before = g.size();
  const std::string error = error_of(make);
  CHECK(g.size() == before);
  CHECK(contains(error, "test_refused_layers_leave_nothing.cpp"));
  return error;
}

}  // namespace

TEST_CASE("initializers of another shape or dtype are refused where the layer is made") {
  Graph g;
  const Scope root(g);
  CHECK(contains(refused(g,
                         [&] {
                           Dense(root / "d", 2, 3, {.weights = zeros_of_shape({2, 1})});
                         }),
                 "dense d: weight: expected an initializer of f32[2, 3], got one of f32[2, 1]"));
  CHECK(contains(refused(g,
                         [&] {
                           Dense(root / "d", 2, 3, {.weights = zeros_of_shape({3, 2})});
                         }),
                 "dense d: weight"));
  CHECK(contains(refused(g,
                         [&] {
                           Dense(root / "d", 2, 3, {.bias = zeros_of_shape({5, 3})});
                         }),
                 "dense d: bias: expected an initializer of f32[3], got one of f32[5, 3]"));
  CHECK(contains(refused(g,
                         [&] {
                           Conv2d(root / "c", 1, 3, {1, 1}, {.bias = zeros_of_shape({7, 1, 1, 1})});
                         }),
                 "conv2d c: bias: expected an initializer of f32[3], got one of f32[7, 1, 1, 1]"));
  CHECK(contains(refused(g,
                         [&] {
                           Conv1d(root / "c", 1, 3, 5, {.weights = zeros_of_shape({5, 3, 1})});
                         }),
                 "conv1d c: weight: expected an initializer of f32[5, 1, 3]"));
  CHECK(contains(
      refused(g, [&] { ConvTranspose2d(root / "c", 1, 3, {2}, {.weights = zeros_of_shape({1})}); }),
      "conv transpose2d c: weight: expected an initializer of f32[2, 2, 3, 1]"));
  const InitializerFunction single = [](const Shape& shape, DType) { return ones(shape, f32); };
  CHECK(contains(refused(g, [&] { Dense(root / "d", 2, 3, {.weights = single, .dtype = f64}); }),
                 "dense d: weight: expected an initializer of f64[2, 3], got one of f32[2, 3]"));
  CHECK(contains(refused(g, [&] { Dense(root / "d", 2, 3, {.bias = nullptr}); }),
                 "dense d: bias: expected a function that gives an initializer, got none"));
  const InitializerFunction backwards = [](const Shape& shape, DType dtype) {
    return uniform(shape, 1, -1, dtype);
  };
  CHECK(contains(refused(g, [&] { Dense(root / "d", 2, 3, {.bias = backwards}); }),
                 "uniform: range"));
  // A bias that is not used may be given by no function.
  CHECK_NOTHROW(Dense(root / "d", 2, 3, {.use_bias = false, .bias = nullptr}));
}

TEST_CASE("convolutions with windows that none takes leave no states") {
  Graph g;
  const Scope root(g);
  const auto conv2d_of = [&](const Conv2dOptions& options) {
    return refused(g, [&] { Conv2d(root / "c", 4, 6, {3}, options); });
  };
  for (const char* layout : {"NHWC", "NCHW"}) {
    CAPTURE(layout);
    CHECK(contains(conv2d_of({.stride = {0}, .layout = layout}),
                   "conv2d c: stride: expected 2 numbers (height, width), or one for both, of at "
                   "least 1, got [0, 0]"));
  }
  CHECK(contains(conv2d_of({.dilation = {1, 2, 3}}), "conv2d c: dilation: expected 2 numbers"));
  CHECK(contains(conv2d_of({.padding = "full"}),
                 "conv2d c: padding: expected valid, same or explicit, got \"full\""));
  CHECK(contains(conv2d_of({.pads = {1, 1, 1, 1}}),
                 "conv2d c: pads: expected none with padding \"same\", got 4 numbers"));
  CHECK(contains(conv2d_of({.padding = "explicit", .pads = {1, 1}}),
                 "conv2d c: pads: expected 4 numbers (top, bottom, left, right)"));
  CHECK(contains(conv2d_of({.algorithm = "fast"}), "conv2d c: algorithm"));
  CHECK(Conv2d(root / "c", 4, 6, {3}, {.stride = {2}, .groups = 2}).parameters().size() == 2);

  const auto transposed_of = [&](const ConvTranspose2dOptions& options) {
    return refused(g, [&] { ConvTranspose2d(root / "t", 4, 6, {3}, options); });
  };
  CHECK(contains(transposed_of({.stride = {-1}}), "conv transpose2d t: stride"));
  CHECK(contains(transposed_of({.padding = "none"}), "conv transpose2d t: padding"));
  CHECK(contains(transposed_of({.size = {7}}), "conv transpose2d t: size"));
  CHECK(ConvTranspose2d(root / "t", 4, 6, {3}, {.stride = {2}, .groups = 2, .size = {7, 8}})
            .parameters()
            .size() == 2);

  const auto conv1d_of = [&](const Conv1dLayerOptions& options) {
    return refused(g, [&] { Conv1d(root / "s", 4, 6, 3, options); });
  };
  for (const char* layout : {"NWC", "NCW"}) {
    CAPTURE(layout);
    CHECK(contains(conv1d_of({.stride = 0, .layout = layout}),
                   "conv1d s: stride: expected at least 1, got 0"));
    CHECK(contains(conv1d_of({.padding = "full", .layout = layout}),
                   "conv1d s: padding: expected valid, same or explicit, got \"full\""));
  }
  CHECK(contains(conv1d_of({.dilation = -2}), "conv1d s: dilation: expected at least 1, got -2"));
  CHECK(contains(conv1d_of({.pads = {1, 1}}), "conv1d s: pads: expected none with padding"));
  CHECK(contains(conv1d_of({.padding = "explicit", .pads = {1}}),
                 "conv1d s: pads: expected 2 numbers (in front, behind), got 1"));
  CHECK(contains(conv1d_of({.padding = "explicit", .pads = {1, -1}}),
                 "conv1d s: pads: expected numbers of at least 0, got -1"));
  CHECK(Conv1d(root / "s", 4, 6, 3, {.padding = "explicit", .pads = {1, 0}, .groups = 2})
            .parameters()
            .size() == 2);
}

TEST_CASE("attention and transformer blocks that are refused leave no states") {
  Graph g;
  const Scope root(g);
  CHECK(contains(refused(g, [&] { MultiHeadAttention(root / "a", 4, 3); }),
                 "attention a: heads: expected a number that divides the width 4, got 3"));
  CHECK(contains(refused(g, [&] { MultiHeadAttention(root / "a", 4, 0); }), "attention a: heads"));
  CHECK_NOTHROW(MultiHeadAttention(root / "a", 4, 2));
  CHECK(contains(refused(g, [&] { TransformerBlock(root / "b", 4, 2, {.dropout = 1.0}); }),
                 "dropout b.dropout: rate: expected a number in [0, 1), got 1"));
  CHECK(contains(refused(g, [&] { TransformerBlock(root / "b", 4, 3); }),
                 "attention b.attention: heads"));
  CHECK(contains(refused(g, [&] { TransformerBlock(root / "b", 4, 2, {.hidden = -1}); }),
                 "dense b.hidden: units: expected at least 1, got -1"));
  CHECK(contains(refused(g, [&] { TransformerBlock(root / "b", 0, 2); }),
                 "layer norm b.norm1: features"));
  const TransformerBlock block(root / "b", 4, 2);
  CHECK(block.parameters().size() == 16);
}

TEST_SUITE_END();
