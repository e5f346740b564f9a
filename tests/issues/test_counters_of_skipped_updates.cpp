// keel/updates beside keel/step: joined updates assigned it twice, a step written by hand made
// files that load() refused, and so did a model that skips no updates for states of one that does.
// Two losses behind one batch norm could not be minimized in one step.
#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/autodiff/gradient.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/nn/nn.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"
#include "support/temp_folder.h"

TEST_SUITE_BEGIN("nn");

namespace {

using namespace keel;
using keel_test::contains;
using keel_test::error_of;
using keel_test::TempFolder;

Tensor flag(bool value) { return Tensor::full(boolean, {}, value ? 1 : 0); }

}  // namespace

TEST_CASE("joined updates that apply_if made count a step once") {
  for (const char* name : {"ref", "cpu", "npu"}) {
    CAPTURE(name);
    Graph g;
    const Value a = g.state("a", zeros({})), b = g.state("b", zeros({}));
    const Value p = g.input("p", boolean, {}), q = g.input("q", boolean, {});
    Update update = apply_if(p, {{{a, a + 1.0f}}});
    update += apply_if(q, {{{b, b + 1.0f}}});
    Session session(g, device(name));
    int64_t applied = 0;
    for (const bool first : {false, true, true}) {
      for (const bool second : {false, true}) {
        session.run(update, Values{}, {{p, flag(first)}, {q, flag(second)}});
        applied += first || second ? 1 : 0;
        CHECK(session.updates_applied() == applied);
      }
    }
    CHECK(session.step() == 6);
    CHECK(session.read(a).item<float>() == 4);
    CHECK(session.read(b).item<float>() == 3);
  }
}

TEST_CASE("joined updates still assign every other state once") {
  Graph g;
  const Value a = g.state("a", zeros({}));
  const Value p = g.input("p", boolean, {});
  Update update = apply_if(p, {{{a, a + 1.0f}}});
  update += apply_if(logical_not(p), {{{a, a - 1.0f}}});
  Session session(g, device("ref"));
  CHECK(contains(error_of([&] {
                   session.run(update, Values{}, {{p, flag(true)}});
                 }),
                 "a: the state is assigned twice"));
}

TEST_CASE("joined updates count equal assignments once") {
  Graph g;
  const Value a = g.state("a", zeros({})), b = g.state("b", zeros({}));
  const Value next = a + 1.0f;
  Update twice{{{a, next}}};
  twice += twice;
  CHECK(twice.assignments.size() == 1);
  twice += {{{b, b + 1.0f}, {a, next}}};
  REQUIRE(twice.assignments.size() == 2);
  CHECK(twice.assignments[1].state == b);
  twice += {{{a, a + 1.0f}}};
  CHECK(twice.assignments.size() == 3);  // refused when compiled
}

TEST_CASE("two losses behind one batch norm are minimized in one step") {
  for (const char* name : {"ref", "cpu", "npu"}) {
    CAPTURE(name);
    Graph g;
    const Value x = g.input("x", f32, {-1, 2});
    const Dense first(Scope(g) / "first", 2, 1), second(Scope(g) / "second", 2, 1);
    const BatchNorm norm(Scope(g) / "norm", 2, {.decay = 0.5});
    const Value seen = norm(x, Mode::kTraining);
    Update update = adam(0.1).minimize(sum(square(first(seen))), first.parameters());
    update += adam(0.1).minimize(sum(square(second(seen) - 1.0f)), second.parameters());
    Session session(g, device(name));
    const Tensor before = session.read(first.weight()), other = session.read(second.weight());
    session.run(update, Values{}, {{x, Tensor::of<float>({2, 2}, {1, 2, 3, 6})}});
    const Tensor moved = session.read(g.find_state("norm.running_mean"));
    CHECK(moved.at(0) == 1);
    CHECK(moved.at(1) == 2);
    CHECK_FALSE(bit_equal(session.read(first.weight()), before));
    CHECK_FALSE(bit_equal(session.read(second.weight()), other));
  }
}

TEST_CASE("two losses that call one batch norm apart have a way that the error names") {
  Graph g;
  const Value x = g.input("x", f32, {-1, 2}), y = g.input("y", f32, {-1, 2});
  const Dense first(Scope(g) / "first", 2, 1), second(Scope(g) / "second", 2, 1);
  const BatchNorm norm(Scope(g) / "norm", 2, {.decay = 0.5});
  const Value seen = norm(x, Mode::kTraining);
  const Value a = sum(square(first(seen)));
  const Value b = sum(square(second(seen))) + sum(square(second(norm(y, Mode::kTraining)) - 1.0f));
  const Optimizer descent = sgd(0.1);
  const Feeds feeds{{x, Tensor::of<float>({2, 2}, {1, 2, 3, 6})},
                    {y, Tensor::of<float>({2, 2}, {0, 1, 2, 1})}};
  Update refused = descent.minimize(a, first.parameters());
  refused += descent.minimize(b, second.parameters());
  Session session(g, device("cpu"));
  const std::string message = error_of([&] { session.run(refused, Values{}, feeds); });
  CAPTURE(message);
  CHECK(contains(message, "norm.running_mean: the state is assigned twice"));
  CHECK(contains(message, "attached_updates"));
  Update update = descent.apply(first.parameters(), gradients(a, first.parameters()));
  update += descent.apply(second.parameters(), gradients(b, second.parameters()));
  update += attached_updates(a + b);
  session.run(update, Values{}, feeds);
  const Tensor moved = session.read(g.find_state("norm.running_mean"));
  CHECK(moved.at(0) == 1);  // (0 + 2) / 2, then (1 + 1) / 2
  CHECK(moved.at(1) == 1.5);
}

TEST_CASE("a step written by hand counts updates from there so that what is saved loads") {
  const TempFolder folder;
  const std::string path = folder.path() + "/states.safetensors";
  Graph g;
  const Value w = g.state("w", ones({2}));
  const Update train = adam(0.1).minimize(sum(square(w)));
  Session session(g, device("cpu"));
  Loop loop = session.sink({.update = train});
  loop.run(5);
  session.write(g.step(), Tensor::scalar<int64_t>(0));
  CHECK(session.updates_applied() == 0);
  loop.run(3);
  CHECK(session.step() == 3);
  CHECK(session.updates_applied() == 3);
  session.save(path);
  session.write(g.step(), Tensor::scalar<int64_t>(100));
  session.load(path);
  CHECK(session.step() == 3);
  CHECK(session.updates_applied() == 3);

  session.write(g.updates_applied(), Tensor::scalar<int64_t>(2));
  session.save(path);
  session.load(path);
  CHECK(session.updates_applied() == 2);
  for (const int64_t wrong : {int64_t{-1}, int64_t{4}}) {
    const std::string error =
        error_of([&] { session.write(g.updates_applied(), Tensor::scalar<int64_t>(wrong)); });
    CHECK(contains(error, "0 to the 3 of keel/step"));
    CHECK(contains(error, "test_counters_of_skipped_updates.cpp"));
  }
  CHECK(contains(error_of([&] { session.write(g.step(), Tensor::scalar<int64_t>(-1)); }),
                 "at least 0"));
  CHECK(session.step() == 3);
  CHECK(session.updates_applied() == 2);
}

TEST_CASE("states of a training that skipped updates load where none is skipped") {
  const TempFolder folder;
  const std::string path = folder.path() + "/states.safetensors";
  const auto model = [](Graph& g) { return g.state("w", ones({2})); };
  Graph skipping, plain;
  const Value w = model(skipping);
  const Value p = skipping.input("p", boolean, {});
  const Update update = apply_if(p, sgd(0.1).minimize(sum(square(w))));
  Session trained(skipping, device("cpu"));
  for (const bool apply : {true, false, true}) trained.run(update, Values{}, {{p, flag(apply)}});
  trained.save(path);
  const Value same = model(plain);
  Session loaded(plain, device("cpu"));
  loaded.load(path);
  CHECK(loaded.step() == 3);
  CHECK(loaded.updates_applied() == 3);  // of which it knows nothing
  CHECK(bit_equal(loaded.read(same), trained.read(w)));
  trained.load(path);
  CHECK(trained.updates_applied() == 2);
}

TEST_SUITE_END();
