// Two sums of gradients in one graph, one schedule in two groups, and an optimizer applied twice
// met each other's states, in an error that named neither; apply_if took a predicate of a body; a
// state of the user's was taken for an average.
#include <string>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/nn/nn.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"

TEST_SUITE_BEGIN("nn");

namespace {

using namespace keel;
using doctest::Approx;
using keel_test::contains;
using keel_test::error_of;

}  // namespace

TEST_CASE("two accumulations in one graph have names of their own") {
  Graph g;
  const Value a = g.state("a", zeros({})), b = g.state("b", zeros({}));
  const Value one = g.constant(Tensor::scalar(1.0f)), two = g.constant(Tensor::scalar(2.0f));
  const auto side = [](const Value& state, const Value& slope, int64_t batches,
                       const std::string& name) {
    const Accumulated gathered =
        accumulate_gradients({state}, {slope}, Operand(slope), batches, {.name = name});
    Update update = apply_if(gathered.complete, adam(0.5).apply({state}, gathered.means));
    update += gathered.update;
    return update;
  };
  Update update = side(a, one, 2, "");
  const std::string error = error_of([&] { side(b, two, 3, ""); });
  CHECK(contains(error, "accumulate_gradients: state 'accumulated/micro_batches'"));
  CHECK(contains(error, "AccumulateOptions::name"));
  CHECK(contains(error, "test_names_of_what_is_remembered.cpp"));
  update += side(b, two, 3, "critic");
  // The same weights twice, too.
  accumulate_gradients({a}, {one}, 5, {.name = "third"});
  for (const char* name :
       {"critic/accumulated/micro_batches", "critic/accumulated/loss", "b/critic/gradient_sum",
        "a/gradient_sum", "a/third/gradient_sum", "accumulated/micro_batches", "accumulated/loss"})
    CHECK(g.find_state(name).valid());
  Session session(g, device("ref"));
  for (int i = 1; i <= 12; ++i) {
    session.run(update, Values{}, {});
    CHECK(session.read(a).at(0) == Approx(-0.5 * (i / 2)).epsilon(1e-5));
    CHECK(session.read(b).at(0) == Approx(-0.5 * (i / 3)).epsilon(1e-5));
  }
  CHECK(session.updates_applied() == 8);  // of 12: multiples of 2 or of 3
}

TEST_CASE("groups of one minimize share a schedule that remembers") {
  Graph g;
  const Value a = g.state("a", zeros({})), b = g.state("b", zeros({})), c = g.state("c", zeros({}));
  const Value offset = g.input("offset", f32, {});
  const Value loss = a + b + c + offset;
  const Schedule rate = reduce_on_plateau(0.5, {.factor = 0.5, .patience = 0});
  const Update update =
      minimize(loss, {{{a}, sgd(rate)}, {{b}, adam(rate)}, {{c}, sgd(step_decay(1, 2, 0.5))}});
  Session session(g, device("ref"));
  // The loss only grows, so from the second step on each step halves the rate of the next one.
  const double shared[] = {-0.5, -1, -1.25, -1.375}, own[] = {-1, -2, -2.5, -3};
  for (int i = 0; i < 4; ++i) {
    session.run(update, Values{}, {{offset, Tensor::scalar(100.0f * static_cast<float>(i))}});
    CHECK(session.read(a).at(0) == Approx(shared[i]).epsilon(1e-6));
    CHECK(session.read(b).at(0) == Approx(shared[i]).epsilon(1e-5));
    CHECK(session.read(c).at(0) == Approx(own[i]).epsilon(1e-6));
  }
  const std::string error = error_of([&] { sgd(rate).minimize(loss); });
  CHECK(contains(error, "reduce_on_plateau: state 'plateau/best'"));
  CHECK(contains(error, "PlateauOptions"));
}

TEST_CASE("what is remembered twice is refused in the name of who asks") {
  Graph g;
  const Value w = g.state("w", zeros({2}));
  const Value loss = sum(w);
  const Update update = average_weights(adam(0.1).minimize(loss), 0.9);
  const std::string error = error_of([&] { adamw(0.1).minimize(loss); });
  CHECK(contains(error, "adamw: state 'w/adam_m'"));
  CHECK(contains(error, "test_names_of_what_is_remembered.cpp"));
  CHECK(contains(error_of([&] { average_weights(sgd(0.1).minimize(loss), 0.9); }),
                 "average_weights: state 'w/average'"));
}

TEST_CASE("a state that is called like an average is none") {
  Graph g;
  const Value v = g.state("v", ones({})), w = g.state("w", ones({})), u = g.state("u", ones({}));
  const Value loss = v * w;
  // Adam counts its updates, and the state of that name comes behind the count.
  Update update = adam(0.5).minimize(loss);
  const Value own = g.state("w/average", constant({}, 7), {.trainable = false});
  CHECK(contains(error_of([&] { with_averaged_weights(loss); }), "one that depends on none"));
  // Nor do the counts of averages stand for it, which others have.
  update += apply_if(less(g.step(), 0), average_weights(sgd(0.5).minimize(u * 1.0f), 0.5));
  const Update averaged = average_weights(rmsprop(0.5).apply({v}, {v * 0.0f + 1.0f}), 0.5);
  const Value evaluated = with_averaged_weights(v * w + u);
  Session session(g, device("ref"));
  CHECK(session.run(evaluated).item<float>() == 2);
  session.run(update, Values{});
  session.run(averaged, Values{});
  const auto read = [&](const Value& state) { return session.read(state).item<float>(); };
  const float average = read(g.find_state("v/average"));
  CHECK(average == read(v));
  // Nothing has averaged u so far.
  CHECK(session.run(evaluated).item<float>() == average * read(w) + 1);
  CHECK(read(own) == 7);
}

TEST_CASE("apply_if refuses a predicate of a body where it is given") {
  Graph g;
  const Value a = g.state("a", ones({}));
  const Update update = sgd(0.1).minimize(a * 1.0f);
  std::string error;
  while_loop(
      {a}, [](const Values& v) { return less(v[0], 3.0f); },
      [&](const Values& v) {
        error = error_of([&] { apply_if(greater(v[0], 0.0f), update); });
        return Values{v[0] * 2.0f};
      },
      {.trip_count = 2});
  CHECK(contains(error, "apply_if: predicate: expected a value of the root graph"));
  CHECK(contains(error, "test_names_of_what_is_remembered.cpp"));
  CHECK_FALSE(g.find_state("keel/updates").valid());
}

TEST_SUITE_END();
