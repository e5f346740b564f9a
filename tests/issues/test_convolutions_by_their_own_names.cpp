// Functions that are made of a convolution failed in the name of the op inside: a transposed
// convolution in that of a gradient which nobody had called.
#include <string>

#include <doctest/doctest.h>

#include "keel/graph/ir/graph.h"
#include "keel/ops/composed/convolutions.h"

#include "support/error_of.h"

TEST_SUITE_BEGIN("ops");

TEST_CASE("errors of convolutions name the function that was called and its arguments") {
  using namespace keel;
  using keel_test::contains;
  using keel_test::error_of;
  Graph g;
  const auto input = [&](const Shape& shape, DType dtype = f32) {
    return g.input("x" + std::to_string(g.inputs().size()), dtype, shape);
  };
  const auto check = [](const std::string& error, const std::string& begin) {
    INFO(error);
    CHECK(error.starts_with(begin));
    CHECK(!contains(error, "gradient"));
    CHECK(!contains(error, "dy"));
    CHECK(contains(error, "test_convolutions_by_their_own_names.cpp"));
  };
  const Value images = input({2, 5, 5, 3}), kernels = input({3, 3, 4, 3});
  check(error_of([&] {
          conv_transpose2d(images, input({3, 3, 3, 4}));
        }),
        "conv_transpose2d: weights: expected 3 channels out (HWIO, beside NHWC), as many as x has");
  check(error_of([&] {
          conv_transpose2d(input({2, 5, 5}), kernels);
        }),
        "conv_transpose2d: x: expected rank 4");
  check(error_of([&] {
          conv_transpose2d(images, input({3, 3, 4, 3}, f64));
        }),
        "conv_transpose2d: weights: expected f32 like x");
  check(error_of([&] {
          conv_transpose2d(images, kernels, {}, {100, 100});
        }),
        "conv_transpose2d: size: expected a height");
  check(error_of([&] { conv_transpose2d(images, kernels, {.layout = "NWHC"}); }),
        "conv_transpose2d: layout");
  check(error_of([&] { conv_transpose2d(images, 1); }),
        "conv_transpose2d: weights: expected a Value");
  const Value sequences = input({2, 9, 3});
  check(error_of([&] {
          conv1d(sequences, input({3, 4, 8}));
        }),
        "conv1d, as a conv2d of one row: weights: expected shape [1, 3, 3, 8]");
  check(error_of([&] {
          conv1d(sequences, input({10, 3, 8}));
        }),
        "conv1d, as a conv2d of one row: ");
  check(error_of([&] {
          conv1d(sequences, input({3, 3, 8}), {.stride = 0});
        }),
        "conv1d, as a conv2d of one row: stride");
  // Nothing is added to the graph by what is refused.
  const size_t before = g.size();
  error_of([&] { conv1d(sequences, sequences); });
  CHECK(g.size() == before);
}

TEST_SUITE_END();
