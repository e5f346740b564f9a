// cross_entropy refused logits [batch, time, classes] with ids [batch, time], which accuracy takes.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/keel.h"

#include "support/error_of.h"

TEST_SUITE_BEGIN("nn");

namespace {

using namespace keel;
using keel_test::contains;
using keel_test::error_of;

constexpr int64_t kBatch = 2, kTime = 3, kClasses = 4, kRows = kBatch * kTime;
const std::vector<int32_t> kIds = {0, 1, 2, 3, 3, 1};

// The logarithms of 1, 2, 3, 4, moved by another number in each row: the classes have the
// probabilities 0.1, 0.2, 0.3, 0.4 everywhere.
Tensor logits_of_rows() {
  Tensor logits(f32, {kBatch, kTime, kClasses});
  for (int64_t i = 0; i < kRows * kClasses; ++i) {
    const double by = static_cast<double>(i / kClasses) - 2.5;
    logits.set(i, std::log(static_cast<double>(i % kClasses) + 1) + by);
  }
  return logits;
}

Tensor ids() { return Tensor::of<int32_t>({kBatch, kTime}, kIds); }

// The weight of a class in a row's target.
double target(int64_t row, int64_t c, double smoothing) {
  const bool right = kIds[static_cast<size_t>(row)] == c;
  return (right ? 1 - smoothing : 0) + smoothing / static_cast<double>(kClasses);
}

double expected_loss(double smoothing) {
  double total = 0;
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t c = 0; c < kClasses; ++c)
      total -= target(row, c, smoothing) * std::log(0.1 * (static_cast<double>(c) + 1));
  }
  return total / static_cast<double>(kRows);
}

void check_gradient(const Tensor& gradient, double smoothing) {
  REQUIRE(gradient.shape() == Shape{kBatch, kTime, kClasses});
  for (int64_t i = 0; i < kRows * kClasses; ++i) {
    const int64_t row = i / kClasses, c = i % kClasses;
    const double slope = 0.1 * (static_cast<double>(c) + 1) - target(row, c, smoothing);
    CHECK(gradient.at(i) == doctest::Approx(slope / static_cast<double>(kRows)).epsilon(1e-4));
  }
}

Tensor weights(double smoothing) {
  Tensor all(f32, {kBatch, kTime, kClasses});
  for (int64_t i = 0; i < kRows * kClasses; ++i)
    all.set(i, target(i / kClasses, i % kClasses, smoothing));
  return all;
}

}  // namespace

TEST_CASE("cross entropy of sequences is the mean over all their steps") {
  for (const char* backend : {"ref", "cpu", "npu"}) {
    for (const double smoothing : {0.0, 0.2}) {
      CAPTURE(backend);
      CAPTURE(smoothing);
      Graph g;
      const Value x = g.input("x", f32, {kBatch, kTime, kClasses});
      const Value id = g.input("id", i32, {kBatch, kTime});
      const Value weight = g.input("weight", f32, {kBatch, kTime, kClasses});
      const Value by_ids = cross_entropy(x, id, {.label_smoothing = smoothing});
      const Value by_weights = cross_entropy(x, weight);
      Session session(g, device(backend));
      const auto results = session.run(
          {by_ids, by_weights, gradients(by_ids, {x})[0], gradients(by_weights, {x})[0]},
          {{x, logits_of_rows()}, {id, ids()}, {weight, weights(smoothing)}});
      const double loss = expected_loss(smoothing);
      CHECK(static_cast<double>(results[0].item<float>()) == doctest::Approx(loss).epsilon(1e-5));
      CHECK(static_cast<double>(results[1].item<float>()) == doctest::Approx(loss).epsilon(1e-5));
      check_gradient(results[2], smoothing);
      check_gradient(results[3], smoothing);
    }
  }
}

TEST_CASE("cross entropy takes sequences whose sizes are open") {
  const std::vector<Shape> shapes = {{-1, -1, kClasses}, {-1, kTime, kClasses}, {2, 3, -1}};
  for (const Shape& shape : shapes) {
    CAPTURE(to_string(shape));
    Graph g;
    const Value x = g.input("x", f32, shape);
    const Value id = g.input("id", i32, {shape[0], -1});
    const Value loss = cross_entropy(x, id);
    CHECK(loss.shape() == Shape{});
    Session session(g, device("npu"));
    const auto result = session.run(loss, {{x, logits_of_rows()}, {id, ids()}});
    CHECK(static_cast<double>(result.item<float>()) ==
          doctest::Approx(expected_loss(0)).epsilon(1e-5));
    const Tensor turned = Tensor::of<int32_t>({kTime, kBatch}, kIds);
    const auto wrong = error_of([&] { session.run(loss, {{x, logits_of_rows()}, {id, turned}}); });
    CHECK(wrong != "");
  }
  Graph g;
  const Value x = g.input("x", f32, {-1, kTime, -1}), id = g.input("id", i32, {-1, kTime});
  CHECK(contains(error_of([&] { cross_entropy(x, id); }),
                 "cross_entropy: logits: expected a known number of classes"));
}

TEST_CASE("cross entropy of sequences refuses targets of other sizes") {
  Graph g;
  const Value x = g.input("x", f32, {2, 3, 4});
  const Value turned = g.input("turned", i32, {3, 2}), flat = g.input("flat", i32, {6});
  const Value weights = g.input("weights", f32, {2, 4, 3}), wide = g.input("wide", f64, {2, 3, 4});
  const Value flags = g.input("flags", boolean, {2, 3});
  for (const Value& ids : {turned, flat}) {
    CHECK(contains(error_of([&] { cross_entropy(x, ids); }),
                   "cross_entropy: targets: expected class ids of shape [2, 3], got i32"));
  }
  CHECK(contains(error_of([&] { cross_entropy(x, weights); }), "cross_entropy: targets: "));
  for (const Value& other : {wide, flags}) {
    CHECK(
        contains(error_of([&] { cross_entropy(x, other); }),
                 "cross_entropy: targets: expected class ids of an integer dtype, or f32[2, 3, 4] "
                 "of class weights, got " +
                     to_string(other.type())));
  }
}

TEST_SUITE_END();
