// softmax and cross entropy: expected values worked out by hand or from their closed forms.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/graph/autodiff/gradient.h"
#include "keel/graph/ir/emit.h"

#include "ops_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::testing;

void check_relative(const std::vector<double>& got, const std::vector<double>& expected,
                    double tolerance = 1e-12) {
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    CHECK(got[i] == doctest::Approx(expected[i]).epsilon(tolerance));
  }
}

Tensor logits_row(std::initializer_list<double> values) {
  return Tensor::of<double>({1, static_cast<int64_t>(values.size())}, values);
}

// exp(1), exp(2), exp(3) over their sum.
const std::vector<double> kSoftmax123{0.09003057317038046, 0.24472847105479764, 0.6652409557748218};

TEST_CASE("softmax and its logarithm") {
  Graph g;
  const Value x = g.constant(logits_row({1, 2, 3}));
  check_relative(elements(softmax(x)), kSoftmax123);
  check_relative(elements(log_softmax(x)),
                 {-2.4076059644443806, -1.4076059644443804, -0.4076059644443804});
  check_relative(elements(softmax(transpose(x), 0)), kSoftmax123);
  CHECK(softmax(transpose(x), 0).shape() == Shape{3, 1});
  const Value large = g.constant(logits_row({1000, 0, 1000}));
  check_relative(elements(softmax(large)), {0.5, 0, 0.5});
  check_relative(elements(log_softmax(large)),
                 {-std::log(2.0), -1000 - std::log(2.0), -std::log(2.0)});
  CHECK(elements(softmax(g.constant(Tensor(f32, {2, 0})))).empty());
  CHECK(std::isnan(elements(softmax(g.constant(logits_row({1, NAN, 2}))))[0]));
}

TEST_CASE("softmax refuses integers and missing axes") {
  Graph g;
  CHECK(contains(error_of([&] { softmax(g.constant(counting({2}, i32))); }), "a float dtype"));
  CHECK(contains(error_of([&] { softmax(g.constant(counting({2})), 1); }), "an axis of x"));
  CHECK(contains(error_of([&] { softmax(g.constant(counting({}))); }), "softmax"));
}

TEST_CASE("gradients of softmax and its logarithm as ops of their own") {
  Graph g;
  const Value dy = g.constant(logits_row({1, -2, 4})),
              p = g.constant(logits_row({0.25, 0.25, 0.5}));
  // sum(dy * p) = 1.75 and sum(dy) = 3.
  check_relative(elements(emit("softmax_gradient", {p, dy}, CallSite::here())),
                 {-0.1875, -0.9375, 1.125});
  std::vector<double> expected = {1, -2, 4};
  for (size_t i = 0; i < 3; ++i) expected[i] -= 3 * kSoftmax123[i];
  check_relative(elements(emit("log_softmax_gradient", {g.constant(logits_row({1, 2, 3})), dy},
                               CallSite::here())),
                 expected);
  for (const char* op : {"softmax_gradient", "log_softmax_gradient"}) {
    CAPTURE(op);
    const auto refused = [&](const Value& upstream) {
      return error_of([&] { emit(op, {p, upstream}, CallSite::here()); });
    };
    CHECK(contains(refused(g.constant(logits_row({1, 2}))),
                   std::string(op) + ": dy: expected f64[1, 3]"));
    CHECK(contains(refused(g.constant(Tensor(f32, {1, 3}))), "got f32[1, 3]"));
    CHECK(contains(refused(g.constant(logits_row({1}))), "f64[1, 3]"));
  }
}

TEST_CASE("cross entropy of class ids and of weights") {
  Graph g;
  const Value flat = g.constant(Tensor(f64, {2, 4}));
  const Value y = g.constant(Tensor::of<uint8_t>({2}, {0, 3}));
  check_relative(elements(softmax_cross_entropy(flat, y)), {std::log(4.0), std::log(4.0)});
  const Value x = g.constant(logits_row({1, 2, 3}));
  const Value id = g.constant(Tensor::of<int64_t>({1}, {1}));
  check_relative(elements(softmax_cross_entropy(x, id)), {1.4076059644443804});
  const Value weights = g.constant(logits_row({0.25, 0.5, 0.25}));
  // The mean of the logits under the weights is 2: log(sum(exp)) - 2.
  check_relative(elements(softmax_cross_entropy(x, weights)), {1.4076059644443804});
  // 0.7 * 1.4076... + 0.3 * (mean of the three, which is 1.4076... too).
  check_relative(elements(softmax_cross_entropy(x, id, {.label_smoothing = 0.3})),
                 {1.4076059644443804});
  const Value last = g.constant(Tensor::of<int32_t>({1}, {2}));
  check_relative(elements(softmax_cross_entropy(x, last, {.label_smoothing = 0.3})),
                 {0.7 * 0.4076059644443804 + 0.3 * 1.4076059644443804});
  // An impossible class that is not the target costs nothing.
  const Value impossible = g.constant(logits_row({0, 0, -INFINITY}));
  check_relative(elements(softmax_cross_entropy(impossible, id)), {std::log(2.0)});
}

TEST_CASE("cross entropy gradients") {
  Graph g;
  const Value x = g.constant(logits_row({1, 2, 3}));
  const Value id = g.constant(Tensor::of<int64_t>({1}, {1}));
  const Value loss = sum(softmax_cross_entropy(x, id)) * 2.0;
  check_relative(elements(gradients(loss, {x})[0]),
                 {2 * kSoftmax123[0], 2 * (kSoftmax123[1] - 1), 2 * kSoftmax123[2]});
  const Value weights = g.constant(logits_row({0.5, 0.5, 1}));  // they add up to 2
  const Values both = gradients(sum(softmax_cross_entropy(x, weights)), {x, weights});
  check_relative(elements(both[0]),
                 {2 * kSoftmax123[0] - 0.5, 2 * kSoftmax123[1] - 0.5, 2 * kSoftmax123[2] - 1});
  check_relative(elements(both[1]), {2.4076059644443806, 1.4076059644443804, 0.4076059644443804});
  // A row without weight, as in padding, has no gradient.
  const Value none = g.constant(logits_row({0, 0, 0}));
  check_relative(elements(gradients(sum(softmax_cross_entropy(x, none)), {x})[0]), {0, 0, 0});
}

TEST_CASE("a class id out of range is named at run time") {
  Graph g;
  const Value x = g.input("x", f32, {-1, 10});
  const Value y = g.input("y", u8, {-1});
  const Value loss = softmax_cross_entropy(x, y);
  CHECK(loss.shape() == Shape{-1});
  const Feeds feeds{{x, Tensor(f32, {3, 10})}, {y, Tensor::of<uint8_t>({3}, {9, 10, 0})}};
  const std::string text = error_of([&] { evaluate(loss, feeds); });
  CHECK(contains(text, "softmax_cross_entropy: targets"));
  CHECK(contains(text, "class id from 0 to 9 (10 classes)"));
  CHECK(contains(text, "class id 10 at position 1"));
  const Value slope = gradients(sum(loss), {x})[0];
  CHECK(contains(error_of([&] { evaluate(slope, feeds); }), "class id 10 at position 1"));
}

TEST_CASE("cross entropy refuses what does not fit") {
  Graph g;
  const Value x = g.constant(Tensor(f32, {2, 3}));
  const auto refused = [&](const Tensor& targets) {
    return error_of([&] { softmax_cross_entropy(x, g.constant(targets)); });
  };
  CHECK(contains(refused(Tensor(i64, {3})), "class ids of shape [2]"));
  CHECK(contains(refused(Tensor(i64, {2, 3})), "class ids of shape [2]"));
  CHECK(contains(refused(Tensor(f32, {2, 4})), "f32[2, 3] of class weights"));
  CHECK(contains(refused(Tensor(f32, {3})), "f32[2, 3] of class weights"));
  CHECK(contains(refused(Tensor(f64, {2, 3})), "cast"));
  CHECK(contains(refused(Tensor(boolean, {2})), "class ids of an integer dtype"));
  const Value y = g.constant(Tensor(i64, {2}));
  CHECK(contains(error_of([&] { softmax_cross_entropy(g.constant(Tensor(f32, {2})), y); }),
                 "[batch, classes]"));
  CHECK(contains(error_of([&] {
                   softmax_cross_entropy(g.constant(Tensor(f32, {2, 0})), y);
                 }),
                 "at least one class"));
  CHECK(contains(error_of([&] { softmax_cross_entropy(x, y, {.label_smoothing = 1}); }), "[0, 1)"));
  CHECK(
      contains(error_of([&] { softmax_cross_entropy(x, y, {.label_smoothing = NAN}); }), "[0, 1)"));
}

}  // namespace

TEST_SUITE_END();
