// Updates that optimizers could not make were refused later or by others: a loss that is no number
// by a state that nobody made, a rule that gave nothing by cast, and a parameter that stands twice
// in one group as one of another group.
#include <string>

#include <doctest/doctest.h>

#include "keel/ops/nn/nn.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"

namespace keel {

using keel_test::contains, keel_test::error_of;

TEST_SUITE_BEGIN("issues");

TEST_CASE("a schedule refuses a loss that is no float scalar") {
  Graph g;
  const Value w = g.state("w", ones({3}));
  const Optimizer optimizer = sgd(reduce_on_plateau(0.1));
  const std::string rows = error_of([&] { optimizer.apply({w}, {w}, square(w)); });
  CAPTURE(rows);
  CHECK(contains(rows, "loss: expected a float scalar, as the schedule goes by one number"));
  CHECK(contains(rows, "got f32[3]"));
  CHECK(contains(rows, "test_updates_refused_in_other_words.cpp"));
  const std::string whole = error_of([&] { optimizer.apply({w}, {w}, g.step()); });
  CHECK(contains(whole, "got i64[]"));
  CHECK_FALSE(optimizer.apply({w}, {w}, mean(square(w))).empty());
  // A rate that does not go by the loss takes any.
  CHECK_FALSE(sgd(0.1).apply({w}, {w}, square(w)).empty());
  CHECK_FALSE(sgd(cosine_decay(0.1, 5)).apply({w}, {w}, reshape(w, {1, 3})).empty());
}

TEST_CASE("a rule that gives no value is named with its optimizer") {
  Graph g;
  const Value w = g.state("w", ones({3}));
  const Optimizer mine("mine", 0.1, [](ParameterStep&) { return Value(); });
  const std::string refused = error_of([&] { mine.minimize(mean(square(w))); });
  CAPTURE(refused);
  CHECK(contains(refused, "mine: rule: expected the next value of state 'w', got an empty Value"));
}

TEST_CASE("a parameter that stands twice in a group is said to") {
  Graph g;
  const Value v = g.state("v", ones({3})), w = g.state("w", ones({3}));
  const Value loss = mean(square(v * w));
  const std::string twice = error_of([&] {
    minimize(loss, {{{v}, sgd(0.1)}, {{w, w}, sgd(0.1)}});
  });
  CAPTURE(twice);
  CHECK(contains(twice, "minimize: group 1: expected each parameter once, got state 'w' twice"));
  const std::string both = error_of([&] { minimize(loss, {{{v, w}, sgd(0.1)}, {{w}, sgd(0.1)}}); });
  CAPTURE(both);
  CHECK(contains(both, "that no other group has, got state 'w', which is in group 0"));
}

TEST_SUITE_END();

}  // namespace keel
