// Adam's bias correction, schedules and averages went by the count of all updates: one that was
// always applied stood still beside one that apply_if skipped, two under predicates of their own
// ran too fast, and what began behind other training began in the middle.
#include <cmath>
#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/runtime/safetensors.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/nn/nn.h"
#include "keel/ops/ops.h"

#include "support/temp_folder.h"

TEST_SUITE_BEGIN("nn");

namespace {

using namespace keel;
using doctest::Approx;
using keel_test::TempFolder;

// Under a gradient that is always 1, each step of Adam is its rate, whatever its betas: m / c1 and
// v / c2 are 1, but for epsilon.
Update adam_on(const Value& state, double rate = 0.1) {
  return adam(rate, {.beta2 = 0.99}).minimize(state * 1.0f, Values{state});
}

// Steps in which two sides train: `d` always, `g` in every third one.
struct TwoSides {
  Graph graph;
  Value d = graph.state("d", zeros({}));
  Value g = graph.state("g", zeros({}));
  Update update;

  explicit TwoSides(bool skipped_first) {
    const Value when = equal(mod(graph.step(), 3), 2);
    const Update always = adam_on(d), skipped = apply_if(when, adam_on(g));
    update = skipped_first ? skipped : always;
    update += skipped_first ? always : skipped;
  }
};

}  // namespace

TEST_CASE("an optimizer that is always applied counts its steps beside one that is skipped") {
  for (const char* name : {"ref", "cpu", "npu"}) {
    for (const bool skipped_first : {false, true}) {
      CAPTURE(name);
      CAPTURE(skipped_first);
      TwoSides m(skipped_first);
      Session session(m.graph, device(name));
      for (int i = 1; i <= 10; ++i) {
        CAPTURE(i);
        session.run(m.update, Values{}, {});
        CHECK(session.read(m.d).at(0) == Approx(-0.1 * i).epsilon(1e-5));
        CHECK(session.read(m.g).at(0) == Approx(-0.1 * (i / 3)).epsilon(1e-5));
        CHECK(session.updates_applied() == i);
      }
    }
  }
}

TEST_CASE("optimizers and schedules under predicates of their own count their own updates") {
  for (const char* name : {"ref", "cpu", "npu"}) {
    CAPTURE(name);
    Graph graph;
    const Value a = graph.state("a", zeros({})), b = graph.state("b", zeros({}));
    const Value first = equal(mod(graph.step(), 4), 0);
    // The rate of b halves after two updates of b.
    Update update = apply_if(first, adam_on(a));
    update += apply_if(logical_not(first), sgd(step_decay(1, 2, 0.5)).minimize(b * 1.0f, {b}));
    Session session(graph, device(name));
    double of_b = 0;
    for (int i = 0, updates = 0; i < 12; ++i) {
      CAPTURE(i);
      session.run(update, Values{}, {});
      if (i % 4 != 0) of_b -= std::pow(0.5, updates++ / 2);
      CHECK(session.read(a).at(0) == Approx(-0.1 * (i / 4 + 1)).epsilon(1e-5));
      CHECK(session.read(b).at(0) == Approx(of_b).epsilon(1e-6));
      CHECK(session.updates_applied() == i + 1);
    }
  }
}

TEST_CASE("an optimizer behind other training begins at its own first step") {
  for (const char* name : {"ref", "cpu", "npu"}) {
    for (const bool built_first : {true, false}) {
      CAPTURE(name);
      CAPTURE(built_first);
      Graph graph;
      const Value w = graph.state("w", zeros({})), s = graph.state("s", zeros({}));
      const Value loss = w + s;
      const Update plain = sgd(0.0).minimize(loss);
      Update late;
      const auto build = [&] {
        late = adam_on(w);
        late += sgd(step_decay(1, 2, 0.5)).minimize(s * 1.0f, Values{s});
      };
      if (built_first) build();
      Session session(graph, device(name));
      Loop early = session.sink({.update = plain});
      early.run(20);
      if (!built_first) build();
      session.run(late, Values{}, {});
      CHECK(session.read(w).at(0) == Approx(-0.1).epsilon(1e-5));
      CHECK(session.read(s).at(0) == -1);
      // Steps of the other program, which may have been compiled before there was anything to
      // count, and more of its own.
      early.run(5);
      for (int i = 0; i < 3; ++i) session.run(late, Values{}, {});
      CHECK(session.read(w).at(0) == Approx(-0.4).epsilon(1e-5));
      CHECK(session.read(s).at(0) == -1 - 1 - 0.5 - 0.5);
      CHECK(session.step() == 29);
      CHECK(session.updates_applied() == 29);
    }
  }
}

TEST_CASE("averages begun late begin with the weights of that step") {
  for (const char* name : {"ref", "cpu", "npu"}) {
    CAPTURE(name);
    Graph graph;
    const Value w = graph.state("w", ones({})), v = graph.state("v", constant({}, 3));
    const Value sum = w * 2.0f + v;
    const Update plain = sgd(0.0).minimize(sum);
    const Update averaged = average_weights(sgd(0.0).minimize(sum, {w}), 0.999);
    const Update other = average_weights(sgd(1.0).minimize(sum, {v}), 0.999);
    const Value evaluated = with_averaged_weights(sum);
    Session session(graph, device(name));
    session.sink({.update = plain}).run(30);
    CHECK(session.run(evaluated).at(0) == 5);  // nothing is averaged yet
    for (int i = 0; i < 4; ++i) {
      session.run(averaged, Values{}, {});
      CHECK(session.read(graph.find_state("w/average")).at(0) == Approx(1).epsilon(1e-6));
      CHECK(session.run(evaluated).at(0) == Approx(5).epsilon(1e-6));
    }
    session.run(other, Values{}, {});
    CHECK(session.read(graph.find_state("v/average")).at(0) == 2);
    session.run(other, Values{}, {});
    // d = 1 / 10 in its second update.
    CHECK(session.run(evaluated).at(0) == Approx(2 + 0.1 * 2 + 0.9 * 1).epsilon(1e-6));
  }
}

TEST_CASE("counts of one's own updates are saved where steps were skipped and resume bit for bit") {
  const TempFolder folder;
  for (const int stop : {1, 3, 5}) {
    CAPTURE(stop);
    TwoSides whole(false), first(false), second(false);
    Session expected(whole.graph, device("cpu")), begun(first.graph, device("cpu"));
    expected.sink({.update = whole.update}).run(11);
    begun.sink({.update = first.update}).run(stop);
    begun.save(folder.file("states"));
    Session session(second.graph, device("cpu"));
    session.load(folder.file("states"));
    session.sink({.update = second.update}).run(11 - stop);
    CHECK(session.state_sha256() == expected.state_sha256());
    CHECK(session.step() == 11);
  }
  // One that is always applied has nothing to save, so its files are what they were.
  Graph graph;
  const Value w = graph.state("w", zeros({}));
  const Update update = adam_on(w);
  Session session(graph, device("cpu"));
  session.sink({.update = update}).run(3);
  session.save(folder.file("states"));
  CHECK(read_safetensors(folder.file("states")).tensors.size() == 5);  // w, m, v, step, seed
}

TEST_CASE("a count of no skipped steps survives a file in which updates are counted") {
  const TempFolder folder;
  TwoSides m(false);
  Session session(m.graph, device("cpu"));
  for (int i = 0; i < 5; ++i) session.run(m.update, Values{}, {});
  // Fewer updates than steps, though `d` was updated in all of them.
  session.write(m.graph.updates_applied(), Tensor::scalar<int64_t>(2));
  session.save(folder.file("states"));
  Session other(m.graph, device("cpu"));
  other.load(folder.file("states"));
  CHECK(other.state_sha256() == session.state_sha256());
  for (int i = 0; i < 4; ++i) {
    session.run(m.update, Values{}, {});
    other.run(m.update, Values{}, {});
  }
  CHECK(other.state_sha256() == session.state_sha256());
  CHECK(other.read(m.d).at(0) == Approx(-0.9).epsilon(1e-5));
}

TEST_CASE("a step that skips nothing counts in one task") {
  Graph graph;
  const Value w = graph.state("w", zeros({}));
  const Update update = adam_on(w);
  Session session(graph, device("cpu"));
  const std::string tasks = session.describe(update, {});
  const size_t first = tasks.find("keel/add");
  CHECK(first != std::string::npos);
  CHECK(tasks.find("keel/add", first + 1) == std::string::npos);
}

TEST_CASE("files that count updates alone load into optimizers that count their own") {
  const TempFolder folder;
  const auto build = [](Graph& graph) {
    const Value w = graph.state("w", zeros({}));
    const Value p = graph.input("p", boolean, {});
    return apply_if(p, sgd(step_decay(1, 2, 0.5)).minimize(w * 1.0f, Values{w}));
  };
  const auto flag = [](bool value) { return Tensor::full(boolean, {}, value ? 1 : 0); };
  Graph graph;
  const Update update = build(graph);
  const Value w = graph.find_state("w"), p = graph.find_input("p");
  Session session(graph, device("cpu"));
  for (const bool apply : {true, false, false, true})
    session.run(update, Values{}, {{p, flag(apply)}});
  CHECK(session.read(w).at(0) == -2);
  session.save(folder.file("states"));
  Safetensors file = read_safetensors(folder.file("states"));
  CHECK(file.tensors.erase("keel/skipped/w/sgd") == 1);
  CHECK(file.tensors.at("keel/updates").item<int64_t>() == 2);
  write_safetensors(folder.file("older"), file.tensors, {{"step", "4"}});
  session.load(folder.file("older"));
  session.run(update, Values{}, {{p, flag(true)}});
  CHECK(session.read(w).at(0) == -2.5);
  // A step written by hand says that none was skipped.
  session.write(graph.step(), Tensor::scalar<int64_t>(4));
  session.run(update, Values{}, {{p, flag(true)}});
  CHECK(session.read(w).at(0) == -2.75);
}

TEST_SUITE_END();
