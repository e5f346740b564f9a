// Losses, accuracy and minimize failed in the names of functions and ops inside.
#include <functional>
#include <string>

#include <doctest/doctest.h>

#include "keel/graph/ir/scopes.h"
#include "keel/ops/nn/nn.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"

TEST_SUITE_BEGIN("nn");

namespace {

using namespace keel;
using keel_test::contains;
using keel_test::error_of;

void check_failure(int line, const std::string& begin, const std::function<void()>& call) {
  CAPTURE(begin);
  const std::string error = error_of(call);
  CAPTURE(error);
  CHECK(error.starts_with(begin));
  CHECK(contains(error, "test_losses_by_their_own_names.cpp:" + std::to_string(line)));
}

}  // namespace

TEST_CASE("errors of losses name the loss that was called and its arguments") {
  Graph g;
  const Value x = g.input("x", f32, {4, 3}), y = g.input("y", f32, {4, 2});
  const Value n = g.input("n", i32, {4, 3}), ids = g.input("ids", i32, {5});
  check_failure(__LINE__, "cross_entropy: targets: ", [&] { cross_entropy(x, ids); });
  check_failure(__LINE__, "cross_entropy: logits: ", [&] { cross_entropy(n, ids); });
  const Value steps = g.input("steps", f32, {3, 4, 5});
  check_failure(__LINE__ + 1, "cross_entropy: targets: expected a Value",
                [&] { cross_entropy(steps, 2); });
  check_failure(__LINE__, "nll_loss: ids: ", [&] { nll_loss(x, ids); });
  check_failure(__LINE__, "huber_loss: target: ", [&] { huber_loss(x, y); });
  check_failure(__LINE__, "huber_loss: delta: ", [&] { huber_loss(x, x, 0); });
  check_failure(__LINE__, "huber_loss: target: ", [&] { huber_loss(1.5, n); });
  check_failure(__LINE__, "hinge_loss: labels: ", [&] { hinge_loss(x, y); });
  check_failure(__LINE__, "binary_cross_entropy: targets: ", [&] { binary_cross_entropy(x, y); });
  check_failure(__LINE__, "kl_divergence_loss: targets: ", [&] { kl_divergence_loss(x, y); });
  const std::string floats = ": target: expected a float dtype, got i32";
  check_failure(__LINE__, "mean_squared_error" + floats, [&] { mean_squared_error(1.5, n); });
  check_failure(__LINE__, "mean_squared_error" + floats, [&] { mean_squared_error(1, n); });
  check_failure(__LINE__, "mean_absolute_error" + floats, [&] { mean_absolute_error(1.5, n); });
  const Value none;
  check_failure(__LINE__ + 1, "mean_squared_error: target: expected a Value, got an empty Value",
                [&] { mean_squared_error(x, none); });
  // A number stands for a prediction of floats.
  CHECK(mean_squared_error(1.5, x).shape() == Shape{});
}

TEST_CASE("errors of accuracies name them") {
  Graph g;
  const Value ids = g.input("ids", i32, {4}), id = g.input("id", i32, {});
  const Value x = g.input("x", f32, {4, 3}), scalar = g.input("scalar", f32, {});
  const Value nothing = g.input("nothing", f32, {4, 0}), bools = g.input("bools", boolean, {4, 3});
  check_failure(__LINE__, "accuracy: logits: ", [&] { accuracy(scalar, id); });
  check_failure(__LINE__, "accuracy: ids: expected a Value", [&] { accuracy(x, 1); });
  check_failure(__LINE__, "accuracy: logits: ", [&] { accuracy(nothing, ids); });
  check_failure(__LINE__, "accuracy: logits: ", [&] { accuracy(bools, ids); });
  check_failure(__LINE__, "top_k_accuracy: k: ", [&] { top_k_accuracy(x, ids, 4); });
  check_failure(__LINE__, "top_k_accuracy: ids: ", [&] { top_k_accuracy(x, id, 1); });
  check_failure(__LINE__, "top_k_hits: k: ", [&] { top_k_hits(x, ids, 4); });
}

TEST_CASE("errors of minimize name it and the loss and the state") {
  Graph g;
  const Value w = g.state("w", ones({2})), counts = g.state("counts", zeros({2}, i32));
  const Value vector = w * 2.0f;
  check_failure(__LINE__ + 1, "minimize: loss: expected a float scalar",
                [&] { sgd(0.1).minimize(vector); });
  check_failure(__LINE__ + 1, "minimize: loss: expected a float scalar",
                [&] { sgd(0.1).minimize(sum(counts), {w}); });
  check_failure(__LINE__ + 1, "minimize: state 1: expected a float Value, got i32[2]", [&] {
    sgd(0.1).minimize(sum(w), {w, counts});
  });
  check_failure(__LINE__ + 1, "minimize: loss: expected a float scalar", [&] {
    minimize(vector, {{{w}, sgd(0.1)}});
  });
}

TEST_CASE("errors in another name keep the scope that they were found in") {
  Graph g;
  const Value x = g.input("x", f32, {4, 3}), ids = g.input("ids", i32, {5});
  const LabelScope here(g, with_inner_scope(g.label(), "head"));
  CHECK(error_of([&] { cross_entropy(x, ids); }).starts_with("head: cross_entropy: targets: "));
}

TEST_SUITE_END();
