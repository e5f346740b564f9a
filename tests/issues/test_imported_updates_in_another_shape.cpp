// Updates of ScatterElements, Scatter and ScatterND, and the places of a MaxUnpool, of another
// shape than their op takes were put into the shape that it does take, without a word: the numbers
// came to other places than ONNX's runtimes, which refuse them, would have put them.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "support/error_of.h"
#include "support/onnx_op.h"

namespace keel_test {
namespace {

using Dims = std::vector<int64_t>;

// Rows 0 and 2 of x [3, 2].
OnnxOp rows_put(const keel::Shape& updates, const Dims& declared) {
  return {.op = "ScatterND",
          .operands = {{"x", onnx_counting({3, 2})},
                       {"i", onnx_int64({2, 1}, {2, 0}), true},
                       {"u", onnx_counting(updates), false, declared}}};
}

// Two elements of each of the rows of x [2, 3].
OnnxOp elements_put(const keel::Shape& updates, const Dims& declared,
                    const std::string& op = "ScatterElements") {
  return {.op = op,
          .operands = {{"x", onnx_counting({2, 3})},
                       {"i", onnx_int64({2, 2}, {2, 0, 0, 1}), true},
                       {"u", onnx_counting(updates), false, declared}},
          .attributes = {onnx_int("axis", 1)},
          .opset = op == "Scatter" ? 10 : 17};
}

OnnxOp unpooled(const keel::Shape& places) {
  return {.op = "MaxUnpool",
          .operands = {{"x", onnx_counting({1, 1, 2, 2})},
                       {"i", onnx_counting(places).cast(keel::i64)}},
          .attributes = {onnx_ints("kernel_shape", {1, 1})}};
}

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("updates of a scatter that have another shape than it takes are refused") {
  using Elements = std::vector<double>;
  CHECK(elements_of(rows_put({2, 2}, {}).run()) == Elements{2, 3, 2, 3, 0, 1});
  for (const keel::Shape& shape :
       std::vector<keel::Shape>{{4}, {1, 4}, {4, 1}, {2, 2, 1}, {2, 1}, {1, 2}}) {
    const std::string error = error_of([&] { rows_put(shape, {}).import(); });
    CHECK_MESSAGE(contains(error, "its updates " + to_string(shape) + ", where it takes [2, 2]"),
                  error);
  }
  for (const std::string op : {"ScatterElements", "Scatter"}) {
    CAPTURE(op);
    CHECK(elements_of(elements_put({2, 2}, {}, op).run()) == Elements{1, 1, 0, 2, 3, 5});
    for (const keel::Shape& shape : std::vector<keel::Shape>{{4}, {1, 4}, {4, 1}, {2, 2, 1}}) {
      const std::string error = error_of([&] { elements_put(shape, {}, op).import(); });
      CHECK_MESSAGE(contains(error, "its updates " + to_string(shape) + ", where it takes [2, 2]"),
                    error);
    }
  }
}

TEST_CASE("updates of a scatter whose sizes are open are refused in the run") {
  using Elements = std::vector<double>;
  for (const std::string backend : {"ref", "cpu", "npu"}) {
    CAPTURE(backend);
    CHECK(elements_of(rows_put({2, 2}, {-1, -1}).run(backend)) == Elements{2, 3, 2, 3, 0, 1});
    CHECK(elements_of(elements_put({2, 2}, {-1, 2}).run(backend)) == Elements{1, 1, 0, 2, 3, 5});
    for (const keel::Shape& shape : std::vector<keel::Shape>{{1, 4}, {4, 1}}) {
      const std::string rows = error_of([&] { rows_put(shape, {-1, -1}).run(backend); });
      CHECK_MESSAGE(contains(rows, "ScatterND: updates: expected size 2 along axis 0"), rows);
      const std::string elements = error_of([&] { elements_put(shape, {-1, -1}).run(backend); });
      CHECK_MESSAGE(contains(elements, "ScatterElements: updates: expected size 2 along axis 0"),
                    elements);
    }
  }
}

TEST_CASE("places of an unpooling that have another shape than its elements are refused") {
  CHECK(elements_of(unpooled({1, 1, 2, 2}).run()) == std::vector<double>{0, 1, 2, 3});
  const std::string error = error_of([&] { unpooled({4}).import(); });
  CHECK_MESSAGE(contains(error, "its indices [4], where it takes [1, 1, 2, 2]"), error);
}

TEST_SUITE_END();

}  // namespace keel_test
