// Imported ops took counts that do not fit for others without a word: TopK of the smallest gave
// fewer columns than it was asked for, Scan left out the rest of a longer input, OneHot took two of
// three values and made any float a depth, and numbers of several axes were read as a list. A
// Gather that counts from the end of an axis whose size only a run knows ended in the run.
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "keel/core/base/printable.h"

#include "support/built_in_backends.h"
#include "support/error_of.h"
#include "support/onnx_op.h"

namespace keel_test {
namespace {

OnnxOp smallest(const keel::Tensor& x, int64_t k, const std::vector<int64_t>& declared) {
  return {.op = "TopK",
          .operands = {{"x", x, false, declared}, {"k", onnx_int64({1}, {k}), true}},
          .attributes = {onnx_int("largest", 0)},
          .outputs = {"y", "i"}};
}

// Elements [n, t, 2] at those places of t, which only a run knows.
OnnxOp gather_along_open(const keel::Shape& shape, const keel::Tensor& indices) {
  return {.op = "Gather",
          .operands = {{"x", onnx_counting(shape), false, {-1, -1, 2}}, {"i", indices, true}},
          .attributes = {onnx_int("axis", 1)}};
}

// Sums of a and b, element by element, as a Scan of both.
OnnxOp sums(const keel::Tensor& a, const keel::Tensor& b, const std::vector<int64_t>& declared) {
  const OnnxGraph body{.nodes = {onnx_node("Add", {"p", "q"}, {"r"})},
                       .inputs = {onnx_value("p", 1, {}), onnx_value("q", 1, {})},
                       .outputs = {onnx_value("r", 1, {})}};
  return {.op = "Scan",
          .operands = {{"a", a}, {"b", b, false, declared}},
          .attributes = {onnx_graph("body", body), onnx_int("num_scan_inputs", 2)}};
}

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("TopK of the smallest refuses more than there are") {
  const keel::Tensor x = keel::Tensor::of<float>({2, 4}, {3, 1, 2, 4, 8, 7, 6, 5});
  CHECK(elements_of(smallest(x, 2, {}).run()) == std::vector<double>{1, 2, 5, 6});
  CHECK(smallest(x, 4, {}).run().shape() == keel::Shape{2, 4});
  CHECK(smallest(x, 0, {}).run().shape() == keel::Shape{2, 0});
  for (const int64_t k : {int64_t{5}, int64_t{-1}, std::numeric_limits<int64_t>::min()}) {
    const std::string error = error_of([&] { smallest(x, k, {}).import(); });
    INFO(error);
    CHECK(contains(error, "its k is " + std::to_string(k) + ", and its axis has the size 4"));
  }
  // Where only a run knows the size it is told then.
  CHECK(contains(error_of([&] { smallest(x, -1, {2, -1}).import(); }), "its k is -1"));
  CHECK(elements_of(smallest(x, 2, {2, -1}).run()) == std::vector<double>{1, 2, 5, 6});
  for (const std::string& backend : kBuiltInBackends) {
    const std::string error = error_of([&] { smallest(x, 5, {2, -1}).run(backend); });
    CHECK_MESSAGE(contains(error, "TopK: k 5, for 5 or more along axis 1: expected size 5"), error);
  }
}

TEST_CASE("Gather takes constants from the end of an axis whose size only a run knows") {
  // Element [b, t, c] of [2, 3, 2] is 6 b + 2 t + c.
  const keel::Shape shape{2, 3, 2};
  using Row = std::vector<double>;
  for (const std::string& backend : kBuiltInBackends) {
    CAPTURE(backend);
    const auto taken = [&](const keel::Tensor& indices) {
      return gather_along_open(shape, indices).run(backend);
    };
    const keel::Tensor last = taken(onnx_int64({}, {-1}));
    CHECK(last.shape() == keel::Shape{2, 2});
    CHECK(elements_of(last) == Row{4, 5, 10, 11});
    const keel::Tensor first = taken(onnx_int64({1}, {-3}));
    CHECK(first.shape() == keel::Shape{2, 1, 2});
    CHECK(elements_of(first) == Row{0, 1, 6, 7});
    CHECK(elements_of(taken(onnx_int64({2}, {-2, -3}))) == Row{2, 3, 0, 1, 8, 9, 6, 7});
    const keel::Tensor both = taken(onnx_int64({1, 3}, {1, -1, 0}));
    CHECK(both.shape() == keel::Shape{2, 1, 3, 2});
    CHECK(elements_of(both) == Row{2, 3, 4, 5, 0, 1, 8, 9, 10, 11, 6, 7});
  }
}

TEST_CASE("Gather from the end of an axis that is too short names the index") {
  for (const std::string& backend : kBuiltInBackends) {
    CAPTURE(backend);
    for (const auto& indices : {onnx_int64({}, {-3}), onnx_int64({3}, {0, -1, -3})}) {
      const std::string error = error_of([&] {
        gather_along_open({2, 2, 2}, indices).run(backend);
      });
      CHECK_MESSAGE(
          contains(error, "Gather: index -3, for 3 or more along axis 1: expected size 3"), error);
    }
    const std::string error = error_of([&] {
      gather_along_open({2, 2, 2}, onnx_int64({2}, {2, -1})).run(backend);
    });
    CHECK_MESSAGE(contains(error, "Gather: index 2, for 3 or more along axis 1: expected size 3"),
                  error);
  }
  for (const int64_t far :
       {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()}) {
    const std::string error = error_of([&] {
      gather_along_open({2, 2, 2}, onnx_int64({2}, {far, -1})).import();
    });
    CHECK_MESSAGE(contains(error, "no axis has an index " + std::to_string(far)), error);
  }
}

TEST_CASE("Scan refuses inputs of different lengths") {
  const keel::Tensor three = onnx_counting({3}), five = onnx_counting({5});
  CHECK(elements_of(sums(three, three, {}).run()) == std::vector<double>{0, 2, 4});
  CHECK(elements_of(sums(three, three, {-1}).run()) == std::vector<double>{0, 2, 4});
  for (const auto& pair : {std::pair{three, five}, std::pair{five, three}}) {
    const keel::Tensor &a = pair.first, &b = pair.second;
    const std::string early = error_of([&] { sums(a, b, {}).import(); });
    CHECK_MESSAGE(contains(early, "it scans " + std::to_string(a.num_elements()) +
                                      " elements of its input 0 and " +
                                      std::to_string(b.num_elements()) + " of its input 1"),
                  early);
    for (const std::string& backend : kBuiltInBackends) {
      const std::string late = error_of([&] { sums(a, b, {-1}).run(backend); });
      CHECK_MESSAGE(
          contains(late, "Scan: input 1: expected size " + std::to_string(a.num_elements())), late);
    }
  }
}

TEST_CASE("OneHot takes two values and no others") {
  const auto hot = [](const keel::Tensor& values) {
    return OnnxOp{.op = "OneHot",
                  .operands = {{"ids", onnx_int64({2}, {1, 0})},
                               {"depth", onnx_int64({}, {2}), true},
                               {"values", values, true}}};
  };
  CHECK(elements_of(hot(onnx_counting({2})).run()) == std::vector<double>{0, 1, 1, 0});
  for (const keel::Shape& shape : std::vector<keel::Shape>{{3}, {2, 2}, {1}, {}}) {
    const std::string error = error_of([&] { hot(onnx_counting(shape)).import(); });
    CHECK_MESSAGE(contains(error, "its values " + to_string(shape) + ", where it takes [2]"),
                  error);
  }
}

TEST_CASE("OneHot takes a depth that is a number of classes") {
  const auto hot = [](const keel::Tensor& depth) {
    return OnnxOp{.op = "OneHot",
                  .operands = {{"ids", onnx_int64({2}, {1, 0})},
                               {"depth", depth, true},
                               {"values", onnx_counting({2}), true}}};
  };
  const auto scalar = [](float depth) { return keel::Tensor::of<float>({}, {depth}); };
  // ONNX converts a depth that is no integer.
  for (const float depth : {2.0f, 2.5f})
    CHECK(elements_of(hot(scalar(depth)).run()) == std::vector<double>{0, 1, 1, 0});
  for (const float depth : {1e30f, -1.0f, std::numeric_limits<float>::quiet_NaN(),
                            std::numeric_limits<float>::infinity()}) {
    const std::string error = error_of([&] { hot(scalar(depth)).import(); });
    CHECK_MESSAGE(contains(error, "its depth is " + keel::printable(depth)), error);
  }
}

TEST_CASE("what an op takes as a list has one axis") {
  const keel::Tensor x = onnx_counting({2, 3});
  const auto of = [&](const char* op, std::vector<OnnxOperand> lists) {
    lists.insert(lists.begin(), {"x", x});
    return OnnxOp{.op = op, .operands = std::move(lists)};
  };
  const auto two = [](int64_t a, int64_t b, bool column) {
    return onnx_int64(column ? keel::Shape{2, 1} : keel::Shape{2}, {a, b});
  };
  const auto four = [](bool column) {
    return onnx_int64(column ? keel::Shape{2, 2} : keel::Shape{4}, {0, 1, 0, 1});
  };
  const auto ops = [&](bool column) {
    return std::vector<OnnxOp>{
        of("Slice", {{"s", two(0, 1, column), true}, {"e", two(1, 2, column), true}}),
        of("Tile", {{"r", two(2, 1, column), true}}),
        of("Pad", {{"p", four(column), true}}),
        of("Reshape", {{"s", two(3, 2, column), true}}),
        of("Unsqueeze", {{"a", two(0, 1, column), true}}),
        of("Expand", {{"s", two(2, 3, column), true}}),
        of("ReduceSum", {{"a", two(0, 1, column), true}}),
        of("Compress", {{"c", two(0, 1, column).cast(keel::boolean), true}}),
        of("Resize", {{}, {"s", two(1, 2, column).cast(keel::f32), true}})};
  };
  for (const OnnxOp& op : ops(false)) op.run();
  for (const OnnxOp& op : ops(true)) {
    CAPTURE(op.op);
    const std::string error = error_of([&] { op.import(); });
    CHECK_MESSAGE(contains(error, " of 2 dimensions, where it takes a list"), error);
  }
}

TEST_CASE("a window that is too large is told by its size") {
  for (const int64_t taps : {int64_t{1} << 31, (int64_t{1} << 16) + 1}) {
    const OnnxOp pool{.op = "MaxPool",
                      .operands = {{"x", onnx_counting({1, 1, 4})}},
                      .attributes = {onnx_ints("kernel_shape", {taps})}};
    const std::string error = error_of([&] { pool.import(); });
    CHECK_MESSAGE(contains(error, "its window of " + std::to_string(taps) + " is too large"),
                  error);
  }
}

TEST_SUITE_END();

}  // namespace keel_test
