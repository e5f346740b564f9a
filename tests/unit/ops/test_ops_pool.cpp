// Pooling against loops written here, ties and edges by hand; padding is written out, not computed.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/core/base/random.h"
#include "keel/graph/autodiff/gradient.h"
#include "keel/graph/ir/rewriter.h"
#include "keel/graph/passes/passes.h"

#include "ops_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::testing;

constexpr double kNone = -std::numeric_limits<double>::infinity();

struct PoolingCase {
  const char* what;
  Shape x;  // NHWC
  std::vector<int64_t> window, stride;
  const char* padding;
  std::array<int64_t, 4> pads;  // top, bottom, left, right
};

const std::vector<PoolingCase>& pooling_cases() {
  static const std::vector<PoolingCase> all = {
      {"2x2", {2, 6, 4, 3}, {2, 2}, {2, 2}, "valid", {0, 0, 0, 0}},
      {"what is left over is dropped", {1, 5, 7, 2}, {2, 3}, {2, 3}, "valid", {0, 0, 0, 0}},
      {"overlapping windows", {2, 7, 6, 1}, {3, 2}, {2, 1}, "valid", {0, 0, 0, 0}},
      {"gaps between windows", {1, 8, 7, 2}, {1, 2}, {3, 4}, "valid", {0, 0, 0, 0}},
      {"same, odd padding behind", {2, 6, 7, 2}, {3, 2}, {2, 2}, "same", {0, 1, 0, 1}},
      {"asymmetric pads", {1, 4, 5, 3}, {3, 3}, {2, 1}, "explicit", {2, 1, 0, 2}},
      {"one row", {3, 1, 6, 2}, {1, 3}, {1, 2}, "same", {0, 0, 0, 1}},
      {"1x1", {1, 3, 3, 4}, {1, 1}, {1, 1}, "valid", {0, 0, 0, 0}},
      {"the whole image", {2, 5, 4, 3}, {5, 4}, {5, 4}, "valid", {0, 0, 0, 0}},
      {"even window, same", {1, 5, 5, 1}, {4, 4}, {1, 1}, "same", {1, 2, 1, 2}},
  };
  return all;
}

// Small whole numbers, so that windows have ties.
Tensor random_tensor(const Shape& shape, uint64_t key, DType dtype) {
  Tensor t(dtype, shape);
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    const auto words = random_block(key, static_cast<uint64_t>(i));
    t.set(i, static_cast<double>(words[0] % 7) - 3);
  }
  return t;
}

int64_t at(const Shape& s, int64_t n, int64_t h, int64_t w, int64_t c) {
  return ((n * s[1] + h) * s[2] + w) * s[3] + c;
}

struct PlainPooling {
  Shape results;
  Doubles largest, to_largest, mean, to_mean, padded_mean;
};

// Pools x, and takes `dy` back through it. Every other padded position counts as outside.
PlainPooling plain_pooling(const PoolingCase& c, const Tensor& x, uint64_t key_of_dy, Tensor& dy) {
  const int64_t rows = (c.x[1] + c.pads[0] + c.pads[1] - c.window[0]) / c.stride[0] + 1;
  const int64_t columns = (c.x[2] + c.pads[2] + c.pads[3] - c.window[1]) / c.stride[1] + 1;
  PlainPooling plain;
  plain.results = {c.x[0], rows, columns, c.x[3]};
  plain.to_largest.resize(static_cast<size_t>(x.num_elements()), 0);
  plain.to_mean = plain.to_largest;
  dy = random_tensor(plain.results, key_of_dy, x.dtype());
  int64_t to = 0;
  for (int64_t n = 0; n < c.x[0]; ++n)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        for (int64_t k = 0; k < c.x[3]; ++k) {
          std::vector<int64_t> inside;
          for (int64_t h = i * c.stride[0] - c.pads[0];
               h < i * c.stride[0] - c.pads[0] + c.window[0]; ++h)
            for (int64_t w = j * c.stride[1] - c.pads[2];
                 w < j * c.stride[1] - c.pads[2] + c.window[1]; ++w)
              if (h >= 0 && h < c.x[1] && w >= 0 && w < c.x[2])
                inside.push_back(at(c.x, n, h, w, k));
          double largest = kNone, total = 0;
          int64_t where = -1;
          for (const int64_t from : inside) {
            total += x.at(from);
            if (x.at(from) > largest) {
              largest = x.at(from);
              where = from;
            }
          }
          const auto count = static_cast<double>(inside.size());
          plain.largest.push_back(largest);
          plain.mean.push_back(total / count);
          plain.padded_mean.push_back(total / static_cast<double>(c.window[0] * c.window[1]));
          plain.to_largest[static_cast<size_t>(where)] += dy.at(to);
          for (const int64_t from : inside)
            plain.to_mean[static_cast<size_t>(from)] += dy.at(to) / count;
          ++to;
        }
  return plain;
}

void check_to_precision(const Tensor& got, const Doubles& expected) {
  REQUIRE(got.num_elements() == static_cast<int64_t>(expected.size()));
  const double bound = got.dtype() == f64 ? 1e-12 : 1e-5;
  for (size_t i = 0; i < expected.size(); ++i)
    CHECK(std::fabs(got.at(static_cast<int64_t>(i)) - expected[i]) < bound);
}

TEST_CASE("max_pool2d and avg_pool2d and their gradients are those of plain loops") {
  for (const PoolingCase& c : pooling_cases()) {
    for (const std::pair<const char*, DType>& on :
         {std::pair{"ref:0", f64}, std::pair{"cpu:0", f32}, std::pair{"npu:0", f32}}) {
      // A structured binding could not be captured by every compiler.
      const char* const where = on.first;
      const DType dtype = on.second;
      CAPTURE(std::string(c.what));
      CAPTURE(std::string(where));
      const Tensor images = random_tensor(c.x, 1, dtype);
      Tensor dy;
      const PlainPooling plain = plain_pooling(c, images, 2, dy);
      const bool padded = std::string(c.padding) == "explicit";
      const std::vector<int64_t> pads =
          padded ? std::vector<int64_t>(c.pads.begin(), c.pads.end()) : std::vector<int64_t>{};
      Graph g;
      const Value x = g.input("x", dtype, c.x);
      const Value largest = max_pool2d(x, {c.window, c.stride, c.padding, pads});
      const Value average = avg_pool2d(x, {c.window, c.stride, c.padding, pads});
      const Value counted =
          avg_pool2d(x, {c.window, c.stride, c.padding, pads, "NHWC", /*count_padding=*/true});
      REQUIRE(largest.shape() == plain.results);
      const Value weights = g.constant(dy);
      const Value to_largest = gradients(sum(largest * weights), {x})[0];
      const Value to_average = gradients(sum(average * weights), {x})[0];
      Session session(g, device(where));
      const auto got =
          session.run({largest, average, counted, to_largest, to_average}, {{x, images}});
      check_to_precision(got[0], plain.largest);
      check_to_precision(got[1], plain.mean);
      check_to_precision(got[2], plain.padded_mean);
      check_to_precision(got[3], plain.to_largest);
      check_to_precision(got[4], plain.to_mean);
    }
  }
}

TEST_CASE("pooling of NCHW is that of NHWC with the axes in another order") {
  Graph g;
  const Tensor images = random_tensor({2, 5, 6, 3}, 5, f32);
  const Value x = g.constant(images);
  const Value swapped = transpose(x, {0, 3, 1, 2});
  const std::vector<int64_t> back{0, 2, 3, 1};
  for (const bool counted : {false, true}) {
    const auto pool = [&](const Value& v, const char* layout) {
      return avg_pool2d(v, {{3, 2}, {2, 1}, "same", {}, layout, counted});
    };
    CHECK(elements(transpose(pool(swapped, "NCHW"), back)) == elements(pool(x, "NHWC")));
  }
  const auto largest = [&](const Value& v, const char* layout) {
    return max_pool2d(v, {{3, 2}, {2, 1}, "same", {}, layout});
  };
  CHECK(elements(transpose(largest(swapped, "NCHW"), back)) == elements(largest(x, "NHWC")));
  CHECK(elements(global_max_pool2d(swapped, "NCHW")) == elements(global_max_pool2d(x)));
}

TEST_CASE("the gradient of max_pool2d goes to the first of those that tie") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto gradient_of = [](const Doubles& x, const char* where) {
    Graph g;
    Tensor t(f32, {1, 1, static_cast<int64_t>(x.size()), 1});
    for (size_t i = 0; i < x.size(); ++i) t.set(static_cast<int64_t>(i), x[i]);
    const Value v = g.input("x", f32, t.shape());
    const Value y = max_pool2d(v, {{1, 3}, {1, 1}, "explicit", {0, 0, 1, 1}});
    Session session(g, device(where));
    return elements(session.run({gradients(sum(y), {v})[0]}, {{v, t}}).at(0));
  };
  for (const char* where : {"ref:0", "cpu:0", "npu:0"}) {
    CAPTURE(std::string(where));
    // Windows {2, 2}, {2, 2, 1}, {2, 1, 2}, {1, 2}.
    CHECK(gradient_of({2, 2, 1, 2}, where) == Doubles{2, 1, 0, 1});
    // Zeros of both signs tie.
    CHECK(gradient_of({-0.0, 0.0, -1}, where) == Doubles{2, 1, 0});
    // Padding never wins, not even against -infinity.
    CHECK(gradient_of({kNone, kNone}, where) == Doubles{2, 0});
    // NaN counts as the largest.
    CHECK(gradient_of({5, nan, nan, 1}, where) == Doubles{0, 3, 1, 0});
  }
}

namespace {

Tensor row_of(const Doubles& values, DType dtype = f32) {
  Tensor t(dtype, {1, 1, static_cast<int64_t>(values.size()), 1});
  for (size_t i = 0; i < values.size(); ++i) t.set(static_cast<int64_t>(i), values[i]);
  return t;
}

// What comes back to v through a relu, the addition of `shift`, and a pool.
struct PooledRelu {
  MaxPool2dAttributes pool;
  Doubles x, dy, shift, dx;

  Value gradient(Graph& g, const Value& v) const {
    const Value y = relu(v);
    const Value shifted = shift.empty() ? y : y + g.constant(row_of(shift, v.dtype()));
    return gradients(sum(max_pool2d(shifted, pool) * g.constant(row_of(dy, v.dtype()))), {v})[0];
  }
};

// Returns the numbers of elements of the masks that the gradient is made with.
std::vector<int64_t> sizes_of_masks(const PooledRelu& c) {
  Graph g;
  const Tensor x = row_of(c.x);
  const Value dx = c.gradient(g, g.input("x", f32, x.shape()));
  const auto made = specialise({.graph = &g, .fetches = {dx}, .input_types = {{"x", x.type()}}});
  const std::vector<bool> live = live_nodes(*made);
  std::vector<int64_t> sizes;
  for (const Node& node : made->nodes()) {
    if (live[node.id()] && node.op_name() == "select")
      sizes.push_back(node.type().shape.num_elements());
  }
  return sizes;
}

}  // namespace

TEST_CASE("the gradient of a relu that is pooled is masked at the size of the pool") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const MaxPool2dAttributes apart{{1, 2}, {1, 2}}, overlapping{{1, 3}, {1, 2}, "same"};
  const std::vector<PooledRelu> cases = {
      {apart, {-1, -2, 3, 1, 0, -0.0, 2, 2}, {10, 20, 30, 40}, {}, {0, 0, 20, 0, 0, 0, 40, 0}},
      {apart, {nan, 1, -1, nan}, {1, nan}, {}, {0, 0, 0, 0}},
      {apart, {-1, -1, 4, 4}, {nan, 2}, {}, {0, 0, 2, 0}},
      {overlapping, {2, -1, 5, 5, 7}, {1, 10, 100}, {}, {1, 0, 10, 0, 100}},
      {overlapping, {-2, -1, 5, 4, -5}, {1, 10, 100}, {}, {0, 0, 10, 100, 0}},
      {overlapping, {-2, -1, -5, -5, -1}, {1, 10, 100}, {}, {0, 0, 0, 0, 0}}};
  for (const PooledRelu& c : cases) {
    CAPTURE(c.x);
    for (const DType dtype : {f32, f16, bf16}) {
      Graph g;
      const Value v = g.input("x", dtype, row_of(c.x).shape());
      const Value dx = c.gradient(g, v);
      // With 0 added the pool does not read the relu, which is masked element by element.
      PooledRelu apart_from_relu = c;
      apart_from_relu.shift.assign(c.x.size(), 0);
      const Value expected = apart_from_relu.gradient(g, v);
      for (const char* where : {"ref:0", "cpu:0", "npu:0"}) {
        CAPTURE(std::string(where));
        Session session(g, device(where));
        const auto got = session.run({dx, expected}, {{v, row_of(c.x, dtype)}});
        CHECK(elements(got[0]) == c.dx);
        CHECK(bit_equal(got[0], got[1]));
      }
    }
    CHECK(sizes_of_masks(c) == std::vector<int64_t>{static_cast<int64_t>(c.dy.size())});
  }
}

TEST_CASE("a pool that reads more than the relu leaves its mask where it is") {
  const PooledRelu c{{{1, 2}, {1, 2}}, {3, 1, -1, 2}, {10, 20}, {0, 5, 9, 0}, {0, 10, 0, 0}};
  Graph g;
  const Value v = g.input("x", f32, row_of(c.x).shape());
  const Value dx = c.gradient(g, v);
  for (const char* where : {"ref:0", "cpu:0", "npu:0"}) {
    Session session(g, device(where));
    CHECK(elements(session.run({dx}, {{v, row_of(c.x)}}).at(0)) == c.dx);
  }
  CHECK(sizes_of_masks(c) == std::vector<int64_t>{4});
}

TEST_CASE("max_pool2d takes every number and carries NaN on") {
  Graph g;
  const auto pool = [&](const Tensor& t) {
    return elements(max_pool2d(g.constant(t), {{1, 2}, {1, 1}, "explicit", {0, 0, 1, 0}}));
  };
  CHECK(pool(Tensor::of<uint8_t>({1, 1, 3, 1}, {0, 0, 7})) == Doubles{0, 0, 7});
  CHECK(pool(Tensor::of<int32_t>({1, 1, 2, 1}, {-2147483647 - 1, -5})) ==
        Doubles{-2147483648.0, -5});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Doubles got = pool(Tensor::of<float>({1, 1, 3, 1}, {1, nan, 2}));
  CHECK(got[0] == 1);
  CHECK(std::isnan(got[1]));
  CHECK(std::isnan(got[2]));
}

TEST_CASE("global pooling gives one number for each channel") {
  Graph g;
  const Value x = g.constant(counting({2, 2, 2, 2}));
  CHECK(elements(global_avg_pool2d(x)) == Doubles{3, 4, 11, 12});
  CHECK(elements(global_max_pool2d(x)) == Doubles{6, 7, 14, 15});
  CHECK(global_avg_pool2d(x, "NHWC", true).shape() == Shape{2, 1, 1, 2});
  CHECK(global_avg_pool2d(x, "NCHW").shape() == Shape{2, 2});
  CHECK(contains(error_of([&] { global_avg_pool2d(x, "HWC"); }), "NHWC or NCHW"));
  CHECK(contains(error_of([&] { global_max_pool2d(g.constant(counting({2, 2}))); }), "rank 4"));
}

TEST_CASE("pooling keeps dimensions that are not known and refuses what does not fit") {
  Graph g;
  const Value x = g.input("x", f32, {-1, 9, -1, 4});
  CHECK(max_pool2d(x, {.window = {2}}).shape() == Shape{-1, 4, -1, 4});
  CHECK(avg_pool2d(x, {.window = {3}, .stride = {2}, .padding = "same"}).shape() ==
        Shape{-1, 5, -1, 4});
  const auto refused = [&](MaxPool2dAttributes options) {
    return error_of([&] { max_pool2d(x, std::move(options)); });
  };
  CHECK(contains(refused({.window = {10}}), "x: expected height of at least 10"));
  CHECK(contains(refused({.window = {10}}), "test_ops_pool.cpp:"));
  CHECK(contains(refused({}), "window: expected 2 numbers"));
  CHECK(contains(refused({.window = {0, 2}}), "of at least 1"));
  CHECK(contains(refused({.window = {2}, .padding = "explicit", .pads = {2, 0, 0, 0}}),
                 "pads smaller than the window"));
  CHECK(contains(refused({.window = {2}, .layout = "CHWN"}), "NHWC or NCHW"));
  const Value whole = g.input("i", i32, {1, 4, 4, 1});
  CHECK(contains(error_of([&] { avg_pool2d(whole, {.window = {2}}); }), "a float dtype"));
  const Value empty = g.input("e", f32, {1, 0, 4, 1});
  CHECK(contains(error_of([&] {
                   max_pool2d(empty, {.window = {2}, .padding = "explicit", .pads = {1, 1, 1, 1}});
                 }),
                 "an image with elements"));
  CHECK(contains(error_of([&] {
                   avg_pool2d_gradient(empty, {8, 8}, {.window = {2}});
                 }),
                 "dy: expected shape [1, 4, 4, 1]"));
}

}  // namespace

TEST_SUITE_END();
