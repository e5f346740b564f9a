// Optimizers, schedules and clipping: closed forms, and the textbook formulas in plain doubles.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/graph/autodiff/gradient.h"

#include "ops_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::testing;

// loss = 0.5 * sum(curvature * w^2): the gradient is curvature * w.
struct Bowl {
  Graph graph;
  Value w = graph.state("w", from_tensor(Tensor::of<double>({3}, {1.0, -2.0, 0.5})));
  Value curvature = graph.constant(Tensor::of<double>({3}, {1.0, 0.25, 3.0}));
  Value loss = sum(square(w) * curvature) * 0.5;
};

// w after each of ten steps with the optimizer.
std::vector<Doubles> trajectory(const Optimizer& optimizer) {
  Bowl bowl;
  const Update train = optimizer.minimize(bowl.loss);
  Session session(bowl.graph, device("ref"));
  std::vector<Doubles> result;
  for (int i = 0; i < 10; ++i) {
    session.run(train, {});
    result.push_back(elements(session.read(bowl.w)));
  }
  return result;
}

// The same in plain doubles: rule(w, g, t) gives the next w of one element; t counts from 1.
template <class MakeRule>
void check_trajectory(const Optimizer& optimizer, MakeRule make_rule, double tolerance = 1e-7) {
  const std::vector<Doubles> got = trajectory(optimizer);
  const Doubles start{1.0, -2.0, 0.5};
  const Doubles curvature{1.0, 0.25, 3.0};
  for (size_t i = 0; i < 3; ++i) {
    auto rule = make_rule();
    double w = start[i];
    for (size_t t = 0; t < 10; ++t) {
      w = rule(w, curvature[i] * w, static_cast<double>(t + 1));
      CAPTURE(i);
      CAPTURE(t);
      CHECK(got[t][i] == doctest::Approx(w).epsilon(tolerance));
    }
  }
}

TEST_CASE("sgd steps along the gradient") {
  check_trajectory(
      sgd(0.1), [] { return [](double w, double g, double) { return w - 0.1 * g; }; }, 1e-14);
  check_trajectory(
      sgd(0.1, {.weight_decay = 0.5}),
      [] { return [](double w, double g, double) { return w - 0.1 * (g + 0.5 * w); }; }, 1e-14);
}

TEST_CASE("sgd with momentum and Nesterov's variant") {
  check_trajectory(
      sgd(0.1, {.momentum = 0.9}),
      [] {
        return [v = 0.0](double w, double g, double) mutable {
          v = 0.9 * v + g;
          return w - 0.1 * v;
        };
      },
      1e-14);
  check_trajectory(
      sgd(0.1, {.momentum = 0.9, .nesterov = true, .weight_decay = 0.01}),
      [] {
        return [v = 0.0](double w, double g, double) mutable {
          g += 0.01 * w;
          v = 0.9 * v + g;
          return w - 0.1 * (g + 0.9 * v);
        };
      },
      1e-14);
}

auto textbook_adam(double rate, double decay, double epsilon) {
  return [=] {
    return [=, m = 0.0, v = 0.0](double w, double g, double t) mutable {
      m = 0.9 * m + 0.1 * g;
      v = 0.99 * v + 0.01 * g * g;
      const double mhat = m / (1 - std::pow(0.9, t));
      const double vhat = v / (1 - std::pow(0.99, t));
      return w - rate * decay * w - rate * mhat / (std::sqrt(vhat) + epsilon);
    };
  };
}

TEST_CASE("adam and adamw follow the textbook") {
  check_trajectory(adam(0.01, {.beta2 = 0.99, .epsilon = 1e-3}), textbook_adam(0.01, 0, 1e-3),
                   1e-12);
  check_trajectory(adamw(0.01, {.beta2 = 0.99, .epsilon = 1e-3, .weight_decay = 0.1}),
                   textbook_adam(0.01, 0.1, 1e-3), 1e-12);
}

TEST_CASE("adam's first step is the rate whatever the gradient") {
  const Doubles first = trajectory(adam(0.125))[0];
  CHECK(first[0] == doctest::Approx(1 - 0.125).epsilon(1e-6));
  CHECK(first[1] == doctest::Approx(-2 + 0.125).epsilon(1e-6));
  CHECK(first[2] == doctest::Approx(0.5 - 0.125).epsilon(1e-6));
}

// In f32 the plain formula 1 - 0.999^1 would be off by 5e-5.
TEST_CASE("adam's first step is exact in f32 too") {
  Graph g;
  const Value w = g.state("w", constant({1}, 1));
  const Update train = adam(0.125).minimize(sum(w) * 8.0);
  Session session(g, device("ref"));
  session.run(train, {});
  CHECK(session.read(w).item<float>() == doctest::Approx(0.875).epsilon(3e-7));
}

TEST_CASE("rmsprop divides by the running root") {
  check_trajectory(
      rmsprop(0.01, {.epsilon = 1e-3}),
      [] {
        return [v = 0.0](double w, double g, double) mutable {
          v = 0.9 * v + 0.1 * g * g;
          return w - 0.01 * g / (std::sqrt(v) + 1e-3);
        };
      },
      1e-12);
  check_trajectory(
      rmsprop(0.01, {.decay = 0.5, .momentum = 0.9, .epsilon = 1e-3}),
      [] {
        return [v = 0.0, s = 0.0](double w, double g, double) mutable {
          v = 0.5 * v + 0.5 * g * g;
          s = 0.9 * s + g / (std::sqrt(v) + 1e-3);
          return w - 0.01 * s;
        };
      },
      1e-12);
}

TEST_CASE("lion steps by the sign of the blended gradient") {
  for (const double decay : {0.0, 0.3}) {
    check_trajectory(
        lion(0.05, {.beta1 = 0.8, .beta2 = 0.95, .weight_decay = decay}),
        [decay] {
          return [decay, m = 0.0](double w, double g, double) mutable {
            const double c = 0.8 * m + (1 - 0.8) * g;
            m = 0.95 * m + (1 - 0.95) * g;
            return w - 0.05 * ((c > 0) - (c < 0) + decay * w);
          };
        },
        1e-13);
  }
}

TEST_CASE("adagrad divides by the root of all squares so far") {
  for (const double decay : {0.0, 0.3}) {
    check_trajectory(
        adagrad(0.2, {.epsilon = 1e-3, .weight_decay = decay}),
        [decay] {
          return [decay, s = 0.0](double w, double g, double) mutable {
            g += decay * w;
            s += g * g;
            return w - 0.2 * g / (std::sqrt(s) + 1e-3);
          };
        },
        1e-13);
  }
}

double norm_of(const Doubles& x) {
  double squares = 0;
  for (const double element : x) squares += element * element;
  return std::sqrt(squares);
}

TEST_CASE("lamb scales the step of adamw to the norm of the weights") {
  for (const double decay : {0.0, 0.1}) {
    const std::vector<Doubles> got =
        trajectory(lamb(0.05, {.beta2 = 0.99, .epsilon = 1e-3, .weight_decay = decay}));
    const Doubles curvature{1.0, 0.25, 3.0};
    Doubles w{1.0, -2.0, 0.5}, m(3, 0.0), v(3, 0.0), u(3, 0.0);
    for (size_t t = 0; t < 10; ++t) {
      const double c1 = 1 - std::pow(0.9, t + 1), c2 = 1 - std::pow(0.99, t + 1);
      for (size_t i = 0; i < 3; ++i) {
        const double g = curvature[i] * w[i];
        m[i] = 0.9 * m[i] + 0.1 * g;
        v[i] = 0.99 * v[i] + 0.01 * g * g;
        u[i] = m[i] / c1 / (std::sqrt(v[i] / c2) + 1e-3) + decay * w[i];
      }
      const double trust = norm_of(w) / norm_of(u);
      for (size_t i = 0; i < 3; ++i) {
        w[i] -= 0.05 * trust * u[i];
        CHECK(got[t][i] == doctest::Approx(w[i]).epsilon(1e-12));
      }
    }
  }
}

TEST_CASE("lamb trusts weights and steps of norm 0 by 1") {
  Graph g;
  const Value zero = g.state("zero", zeros({2}));
  const Value still = g.state("still", constant({2}, 3));
  // The gradient of `zero` is 1, so its first step is 1 without decay; that of `still` is 0.
  const Value loss = sum(zero) + sum(still * 0.0);
  Session session(g, device("ref"));
  session.run(lamb(0.125, {.epsilon = 1e-12, .weight_decay = 0}).minimize(loss), {});
  CHECK(elements(session.read(zero))[0] == doctest::Approx(-0.125).epsilon(1e-6));
  CHECK(elements(session.read(still)) == Doubles{3, 3});
}

// The rate in each of the first `steps` steps.
Doubles rates(const Schedule& schedule, int steps) {
  Graph g;
  const Value w = g.state("w", zeros({}));
  Update train{{{w, w + 1.0}}};
  ScheduleStep step(g, {}, train, CallSite::here());
  const Value rate = schedule.at(step, f32);
  Session session(g, device("ref"));
  Doubles result;
  for (int i = 0; i < steps; ++i) result.push_back(session.run(train, {rate})[0].at(0));
  return result;
}

void check_rates(const Schedule& schedule, const Doubles& expected) {
  const Doubles got = rates(schedule, static_cast<int>(expected.size()));
  for (size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(got[i] == doctest::Approx(expected[i]).epsilon(1e-5));
  }
}

TEST_CASE("schedules at given steps") {
  check_rates(0.5, {0.5, 0.5, 0.5});
  check_rates(step_decay(1, 2, 0.5), {1, 1, 0.5, 0.5, 0.25, 0.25, 0.125});
  const double half = 0.70710678118654752;
  check_rates(cosine_decay(2, 4), {2, 1 + half, 1, 1 - half, 0, 0, 0});
  check_rates(cosine_decay(2, 6, {.warmup_steps = 2, .final_rate = 1}),
              {1, 2, 2, 1.5 + half / 2, 1.5, 1.5 - half / 2, 1, 1});
}

TEST_CASE("polynomial decay with and without a warm-up") {
  check_rates(polynomial_decay(1, 4), {1, 0.75, 0.5, 0.25, 0, 0});
  check_rates(polynomial_decay(2, 4, {.final_rate = 1, .power = 2}),
              {2, 1 + 0.5625, 1.25, 1 + 0.0625, 1, 1});
  check_rates(polynomial_decay(4, 6, {.warmup_steps = 2, .final_rate = 2}),
              {2, 4, 4, 3.5, 3, 2.5, 2, 2});
}

// PyTorch's OneCycleLR in doubles.
double one_cycle_rate(double peak, double steps, double warmup, double step) {
  const double first = peak / 25, last = peak / 250000, top = warmup * steps - 1;
  const auto anneal = [](double from, double to, double progress) {
    return to + (from - to) / 2 * (1 + std::cos(3.14159265358979323846 * progress));
  };
  if (step <= top) return anneal(first, peak, step / top);
  return anneal(peak, last, std::min((step - top) / (steps - 1 - top), 1.0));
}

TEST_CASE("one cycle rises and falls along half cosines") {
  Doubles expected;
  for (int i = 0; i < 22; ++i) expected.push_back(one_cycle_rate(0.5, 20, 0.3, i));
  CHECK(expected[0] == doctest::Approx(0.02));
  CHECK(expected[5] == doctest::Approx(0.5));
  CHECK(expected[21] == doctest::Approx(2e-6));
  check_rates(one_cycle(0.5, 20), expected);
}

// What falls by the rate in each step while the loss is what is fed: the rates seen.
Doubles rates_by_losses(const Schedule& schedule, const Doubles& losses) {
  Graph g;
  const Value x = g.input("x", f32, {});
  const Value w = g.state("w", zeros({}));
  const Update train = sgd(schedule).minimize(x + (w - stop_gradient(w)));
  Session session(g, device("ref"));
  Doubles result;
  for (const double loss : losses) {
    const double before = session.read(w).at(0);
    session.run(train, {}, {{x, Tensor::scalar(static_cast<float>(loss))}});
    result.push_back(before - session.read(w).at(0));
  }
  return result;
}

// The same in doubles, as PyTorch's ReduceLROnPlateau does it: the rate of a step is that which
// the losses before it left.
Doubles expected_by_losses(double rate, const PlateauOptions& o, const Doubles& losses) {
  Doubles rates;
  double best = std::numeric_limits<double>::infinity(), sum = 0;
  int64_t bad = 0, seen = 0;
  for (const double loss : losses) {
    rates.push_back(rate);
    sum += loss;
    if (++seen < o.every) continue;
    const double mean = sum / static_cast<double>(o.every);
    sum = 0;
    seen = 0;
    if (std::isinf(best) ? mean < best : mean < best - o.threshold * std::abs(best)) {
      best = mean;
      bad = 0;
    } else if (++bad > o.patience) {
      rate = std::max(rate * o.factor, o.final_rate);
      bad = 0;
    }
  }
  return rates;
}

TEST_CASE("a plateau of the loss reduces the rate") {
  const Doubles losses{8, 4,  4,  4,  4,  2,  NAN, 2,  2,  1.999, 1,  3,  3,
                       3, -1, -1, -1, -1, -2, -2,  -2, -2, -2,    -2, -2, -2};
  for (const PlateauOptions& o :
       {PlateauOptions{.factor = 0.5, .patience = 1, .threshold = 0.01},
        PlateauOptions{.factor = 0.25, .patience = 0, .threshold = 0},
        PlateauOptions{.factor = 0.5, .patience = 0, .threshold = 0, .final_rate = 0.125},
        PlateauOptions{.factor = 0.5, .patience = 2}}) {
    const Doubles got = rates_by_losses(reduce_on_plateau(1, o), losses);
    const Doubles expected = expected_by_losses(1, o, losses);
    REQUIRE(expected.back() < 1);
    for (size_t i = 0; i < expected.size(); ++i) {
      CAPTURE(i);
      CHECK(got[i] == doctest::Approx(expected[i]).epsilon(1e-5));
    }
  }
  const Doubles noisy{4, 6, 5, 5, 3, 7, 1, 3, 1, 3, 2, 2, 9, 9, 9, 9};
  const PlateauOptions pairs{.factor = 0.5, .patience = 1, .every = 2};
  const Doubles got = rates_by_losses(reduce_on_plateau(1, pairs), noisy);
  CHECK(got == expected_by_losses(1, pairs, noisy));
  CHECK(got[6] == 0.5);
}

TEST_CASE("schedules that go by the loss say where they lack it and take a name each") {
  Graph g;
  const Value a = g.state("a", ones({})), b = g.state("b", ones({}));
  const Schedule plateau = reduce_on_plateau(0.1);
  const std::string none = error_of([&] { sgd(plateau).apply({a}, {a}); });
  CHECK(contains(none, "the loss, by which the schedule goes"));
  CHECK(contains(none, "test_optimizers.cpp:" + std::to_string(__LINE__ - 2)));
  const Value loss = square(a) + square(b);
  const Optimizer other = sgd(reduce_on_plateau(0.1, {.name = "other"}));
  const Update train = minimize(loss, {{{a}, sgd(plateau)}, {{b}, other}});
  CHECK(g.find_state("plateau/scale").valid());
  CHECK(g.find_state("other/best").valid());
  CHECK(train.assignments.size() == 8);
}

// f32 and f64 states of one optimizer share the schedule's states.
TEST_CASE("a plateau serves states of several dtypes") {
  Graph g;
  const Value a = g.state("a", ones({})), b = g.state("b", ones({}, f64));
  const Value loss = a + cast(b, f32);
  const Update train =
      sgd(reduce_on_plateau(0.5, {.factor = 0.5, .patience = 0, .threshold = 0.9})).minimize(loss);
  Session session(g, device("ref"));
  for (int i = 0; i < 3; ++i) session.run(train, {});
  // The losses are 2 and 1, which is no improvement by nine tenths.
  CHECK(session.read(a).at(0) == 1 - 0.5 - 0.5 - 0.25);
  CHECK(session.read(b).at(0) == 1 - 0.5 - 0.5 - 0.25);
}

TEST_CASE("sgd follows its schedule on the device") {
  Graph g;
  const Value w = g.state("w", zeros({}));
  const Update train = sgd(step_decay(1, 1, 0.5)).minimize(w * 1.0);
  Session session(g, device("ref"));
  for (int i = 0; i < 3; ++i) session.run(train, {});
  CHECK(session.read(w).item<float>() == -1.75);
}

TEST_CASE("clipping scales all gradients by one factor") {
  Graph g;
  const Value a = g.constant(Tensor::of<float>({2}, {3, 0}));
  const Value b = g.constant(Tensor::of<float>({1}, {4}));
  CHECK(elements(global_norm({a, b})) == Doubles{5});
  const Values small = clip_by_global_norm({a, b}, 2.5);
  CHECK(elements(small[0]) == Doubles{1.5, 0});
  CHECK(elements(small[1]) == Doubles{2});
  CHECK(elements(clip_by_global_norm({a, b}, 5)[1]) == Doubles{4});
  CHECK(elements(clip_by_global_norm({a * 0.0}, 1)[0]) == Doubles{0, 0});
  const Value halves = cast(g.constant(Tensor::of<float>({2}, {300, 400})), f16);
  CHECK(elements(global_norm({halves})) == Doubles{500});  // its square does not fit f16
  CHECK(clip_by_global_norm({halves}, 1)[0].dtype() == f16);
  CHECK(contains(error_of([&] { clip_by_global_norm({a}, 0); }), "max_norm"));
  CHECK(contains(error_of([&] { global_norm({}); }), "at least one gradient"));
}

TEST_CASE("clipping by value moves each element into the range") {
  Graph g;
  const Value a = g.constant(Tensor::of<float>({5}, {-3, -0.5, 0, 0.75, 9}));
  const Value b = g.constant(Tensor::of<double>({2}, {INFINITY, NAN}));
  const Values clipped = clip_by_value({a, b}, 0.75);
  CHECK(elements(clipped[0]) == Doubles{-0.75, -0.5, 0, 0.75, 0.75});
  CHECK(clipped[1].dtype() == f64);
  CHECK(elements(clipped[1])[0] == 0.75);
  CHECK(std::isnan(elements(clipped[1])[1]));
  CHECK(contains(error_of([&] { clip_by_value({a}, 0); }), "limit"));
  CHECK(contains(error_of([&] { clip_by_value({a}, NAN); }), "limit"));
}

TEST_CASE("minimize takes the trainable states under the loss and what layers attached") {
  Graph g;
  const Value w = g.state("w", ones({2}));
  const Value other = g.state("other", ones({2}));
  const Value fixed = g.state("fixed", ones({2}), {.trainable = false});
  const Value count = g.state("count", zeros({}, i64));
  const Value product = w * fixed;
  g.attach_update(product, fixed, fixed * 0.5);
  g.attach_update(other + 1.0, other, other);
  const Value loss = sum(product) + cast(count, f32);
  CHECK(trainable_states(loss) == Values{w});
  const Update train = sgd(0.5, {.momentum = 0.5}).minimize(loss);
  REQUIRE(train.assignments.size() == 3);
  CHECK(train.assignments[0].state == g.find_state("w/momentum"));
  CHECK(train.assignments[1].state == w);
  CHECK(train.assignments[2].state == fixed);
  CHECK_FALSE(g.find_state("w/momentum").node().as<StateAttributes>().trainable);
  Session session(g, device("ref"));
  session.run(train, {});
  CHECK(elements(session.read(w)) == Doubles{0.5, 0.5});
  CHECK(elements(session.read(fixed)) == Doubles{0.5, 0.5});
  const Update one = sgd(1).minimize(loss, {w});
  CHECK(one.assignments.size() == 2);
}

TEST_CASE("of what is attached twice the second goes on from the first under the same loss only") {
  Graph g;
  const Value w = g.state("w", ones({}));
  const Value running = g.state("running", constant({}, 8), {.trainable = false});
  const Value first = w * 2.0, second = w * 3.0;
  const auto attach = [&](Value output, double observed) {
    const Value seen = w * observed;
    attach_running_mean(output, running, seen, 0.5);
  };
  attach(first, 4);
  attach(second, 16);
  const auto after = [&](Value loss) {
    Session session(g, device("ref"));
    session.run(sgd(0.0).minimize(loss), {});
    return session.read(running).item<float>();
  };
  CHECK(after(first) == 0.5f * 8 + 0.5f * 4);
  CHECK(after(second) == 0.5f * 8 + 0.5f * 16);
  CHECK(after(first + second) == 0.5f * (0.5f * 8 + 0.5f * 4) + 0.5f * 16);
}

TEST_CASE("apply takes gradients of the user's making") {
  Graph g;
  const Value w = g.state("w", ones({2}));
  const Value loss = sum(w * 30.0);
  const Update train =
      sgd(1).apply({w}, clip_by_global_norm(gradients(loss, {w}), 5 * std::sqrt(2.0)));
  Session session(g, device("ref"));
  session.run(train, {});
  CHECK(elements(session.read(w))[0] == doctest::Approx(-4).epsilon(1e-6));
  CHECK(contains(error_of([&] { sgd(1).apply({w}, {}); }), "1, one for each state"));
  CHECK(contains(error_of([&] { sgd(1).apply({w}, {loss}); }), "gradient of w"));
  CHECK(contains(error_of([&] { sgd(1).apply({loss}, {loss}); }), "the result of sum"));
}

TEST_CASE("optimizers name the user's line") {
  Graph g;
  const Value x = g.input("x", f32, {});
  const std::string none = error_of([&] { sgd(0.1).minimize(x); });
  CHECK(contains(none, "depends on trainable states"));
  CHECK(contains(none, "test_optimizers.cpp:" + std::to_string(__LINE__ - 2)));
  const Value w = g.state("w", ones({2}));
  const std::string vector = error_of([&] { sgd(0.1).minimize(w * 2.0); });
  CHECK(contains(vector, "a float scalar"));
  CHECK(contains(vector, "test_optimizers.cpp:" + std::to_string(__LINE__ - 2)));
  const Update train = adam(0.1).minimize(sum(w));
  CHECK(train.assignments[0].next.node().site().line == __LINE__ - 1);
  const std::string twice = error_of([&] { adam(0.1).minimize(sum(w)); });
  CHECK(contains(twice, "'w/adam_m'"));
  CHECK(contains(twice, "test_optimizers.cpp:" + std::to_string(__LINE__ - 2)));
}

TEST_CASE("optimizers refuse bad settings") {
  const auto kind = [](const std::function<void()>& act) {
    try {
      act();
    } catch (const Error& error) {
      return error.info().kind;
    }
    return ErrorKind::kFailed;
  };
  CHECK(kind([] { sgd(-1); }) == ErrorKind::kInvalidArgument);
  CHECK(contains(error_of([] { sgd(NAN); }), "a finite number >= 0"));
  CHECK(contains(error_of([] { sgd(0.1, {.momentum = 1}); }),
                 "momentum: expected a number in [0, 1)"));
  CHECK(contains(error_of([] { sgd(0.1, {.nesterov = true}); }), "nesterov"));
  CHECK(contains(error_of([] { adam(0.1, {.beta1 = -0.1}); }), "beta1"));
  CHECK(contains(error_of([] { adam(0.1, {.epsilon = 0}); }), "epsilon"));
  CHECK(contains(error_of([] { adamw(0.1, {.weight_decay = INFINITY}); }), "weight_decay"));
  CHECK(contains(error_of([] { rmsprop(0.1, {.decay = 2}); }), "decay"));
  CHECK(contains(error_of([] { step_decay(0.1, 0, 0.5); }), "every"));
  CHECK(contains(error_of([] { cosine_decay(0.1, 5, {.warmup_steps = 5}); }),
                 "more than warmup_steps"));
  CHECK(contains(error_of([] { lion(0.1, {.beta2 = 1}); }), "beta2"));
  CHECK(contains(error_of([] { lion(0.1, {.weight_decay = -1}); }), "weight_decay"));
  CHECK(contains(error_of([] { adagrad(0.1, {.epsilon = 0}); }), "epsilon"));
  CHECK(contains(error_of([] { lamb(0.1, {.beta1 = 1}); }), "beta1"));
  CHECK(contains(error_of([] { polynomial_decay(0.1, 0); }), "more than warmup_steps"));
  CHECK(contains(error_of([] { polynomial_decay(0.1, 9, {.power = 0}); }), "power"));
  CHECK(contains(error_of([] { one_cycle(0.1, 3); }), "more than 1 / warmup"));
  CHECK(contains(error_of([] { one_cycle(0.1, 9, {.warmup = 1}); }), "a number in (0, 1)"));
  CHECK(contains(error_of([] { reduce_on_plateau(0.1, {.factor = 1}); }), "factor"));
  CHECK(contains(error_of([] { reduce_on_plateau(0.1, {.patience = -1}); }), "patience"));
  CHECK(contains(error_of([] { reduce_on_plateau(0.1, {.every = 0}); }), "every"));
  CHECK(contains(error_of([] { reduce_on_plateau(0.1, {.final_rate = 1}); }), "final_rate"));
  Graph g;
  const Value w = g.state("w", ones({2}));
  CHECK(contains(error_of([&] { adam(0.1, {.epsilon = 1e-50}).minimize(sum(w)); }),
                 "a number that is not 0 in f32"));
}

}  // namespace

TEST_SUITE_END();
