// Steps whose update is not applied: executed and counted, with every state as it was.
#include <cmath>
#include <limits>
#include <map>

#include <doctest/doctest.h>

#include "keel/graph/ir/skipped_steps.h"
#include "keel/graph/ir/text.h"
#include "keel/graph/runtime/safetensors.h"
#include "keel/graph/runtime/trainer.h"
#include "keel/keel.h"

#include "runtime_for_tests.h"
#include "support/declining_backend.h"
#include "support/temp_folder.h"
#include "unit/graph/infinity_for_tests.h"

TEST_SUITE_BEGIN("loop");

namespace {

using namespace keel;
using namespace keel::testing;
using keel_test::DecliningBackend;
using keel_test::kInfinity;
using keel_test::TempFolder;

// Elements 2, 3, 7, 12 ... hold what no model survives.
bool is_bad(int64_t i) { return i % 5 == 2 || i == 3; }

// Rows for a regression; with `skip`, the bad ones are left out and the next good ones come
// instead.
std::shared_ptr<NumberFeeder> regression_rows(const Device& on, bool leave_out_bad) {
  auto feeder = std::make_shared<NumberFeeder>(
      on, ElementSpec{{{"x", {f32, {4, 3}}}}},
      [leave_out_bad](int64_t position, const std::vector<void*>& fields) {
        int64_t i = position;
        if (leave_out_bad) {
          i = 0;
          for (int64_t good = -1;; ++i) {
            good += is_bad(i) ? 0 : 1;
            if (good == position) break;
          }
        }
        auto* x = static_cast<float*>(fields[0]);
        for (int64_t k = 0; k < 12; ++k) x[k] = static_cast<float>((i * 5 + k * 3) % 7) / 7;
        if (is_bad(i)) x[5] = i % 2 == 0 ? kInfinity : std::numeric_limits<float>::quiet_NaN();
        return true;
      });
  feeder->open({});
  return feeder;
}

struct Regression {
  explicit Regression(bool guarded, const Optimizer& optimizer) {
    loss = mean(square(matmul(x, w) + b - 1.0f));
    const Values states = trainable_states(loss);
    const Values slopes = gradients(loss, states);
    update = optimizer.apply(states, slopes);
    update.assignments.push_back({seen, seen * 0.9f + mean(x)});
    if (!guarded) return;
    finite = less(abs(loss), kInfinity);
    for (const Value& slope : slopes)
      finite = logical_and(finite, less(sum(abs(slope)), kInfinity));
    update = apply_if(finite, update);
  }
  Graph graph;
  Value x = graph.input("x", f32, {4, 3});
  Value w = graph.state("w", from_tensor(Tensor::of<float>({3, 1}, {0.5f, -1, 2})));
  Value b = graph.state("b", zeros({1}));
  Value seen = graph.state("seen", zeros({}), {.trainable = false});  // a running statistic
  Value loss, finite;
  Update update;
};

const std::vector<Optimizer>& optimizers() {
  static const std::vector<Optimizer> all = {sgd(0.1), sgd(step_decay(0.1, 3, 0.5)),
                                             adam(step_decay(0.05, 4, 0.7))};
  return all;
}

// All states but the counts of steps and of those skipped.
std::map<std::string, Tensor> values_of(Session& session) {
  std::map<std::string, Tensor> values;
  for (const Value& state : session.graph().states()) {
    const std::string& name = name_of(state.node());
    if (name != kStepState && !counts_skipped_steps(name))
      values.emplace(name, session.read(state));
  }
  return values;
}

// Returns how many steps the session's count of skipped steps has counted; `otherwise` if the graph
// has no such count, as with an optimizer that does not ask how many updates it applied.
int64_t skipped(Session& session, int64_t otherwise) {
  for (const Value& state : session.graph().states()) {
    if (counts_skipped_steps(state)) return session.read(state).item<int64_t>();
  }
  return otherwise;
}

void check_states(const std::map<std::string, Tensor>& got,
                  const std::map<std::string, Tensor>& expected) {
  for (const auto& state : expected) {
    CAPTURE(state.first);
    REQUIRE(got.contains(state.first));
    CHECK(bit_equal(got.at(state.first), state.second));
  }
}

// The states, other than keel/step, after that many updates with good rows alone.
std::map<std::string, Tensor> after_good_rows(const Device& on, const Optimizer& optimizer,
                                              int64_t updates) {
  Regression m(false, optimizer);
  Session session(m.graph, on);
  session.sink({.update = m.update, .fetches = {m.loss}, .source = regression_rows(on, true)})
      .run(updates);
  CHECK(session.updates_applied() == updates);
  CHECK(session.step() == updates);
  return values_of(session);
}

TEST_CASE("a skipped update leaves every state and counts as a step but not as an update") {
  constexpr int64_t kSteps = 20;
  int64_t good = 0;
  for (int64_t i = 0; i < kSteps; ++i) good += is_bad(i) ? 0 : 1;
  for (const std::string& name : backend_names()) {
    DecliningBackend modest(name, "sunk_loop");
    for (const Optimizer& optimizer : optimizers()) {
      const auto expected = after_good_rows(device(name), optimizer, good);
      for (const Device& on : {device(name), modest.device()}) {
        for (const int64_t size : {int64_t{1}, int64_t{3}, kSteps}) {
          CAPTURE(on.name());
          CAPTURE(size);
          Regression m(true, optimizer);
          Session session(m.graph, on);
          Trainer trainer(session, {.update = m.update,
                                    .fetches = {m.loss, m.finite},
                                    .source = regression_rows(on, false)});
          std::vector<bool> applied;
          const TrainReport report =
              trainer.fit({.steps = kSteps,
                           .loop_size = size,
                           .on_step = [&](int64_t, std::span<const double> row) {
                             applied.push_back(row[1] != 0);
                           }});
          for (int64_t i = 0; i < kSteps; ++i) CHECK(applied[static_cast<size_t>(i)] == !is_bad(i));
          CHECK(report.steps == kSteps);
          CHECK(report.updates_applied == good);
          CHECK(session.step() == kSteps);
          CHECK(session.updates_applied() == good);
          CHECK(skipped(session, kSteps - good) == kSteps - good);
          CHECK(trainer.cursor().position == kSteps);
          check_states(values_of(session), expected);
        }
      }
    }
  }
}

TEST_CASE("a turn that skips its update changes no bit but the step counter") {
  for (const std::string& name : backend_names()) {
    CAPTURE(name);
    Regression m(true, adam(0.1));
    Session session(m.graph, device(name));
    session.run(m.update, {}, {{m.x, Tensor::full(f32, {4, 3}, 0.25)}});
    const auto before = values_of(session);
    session.run(m.update, {}, {{m.x, Tensor::full(f32, {4, 3}, kInfinity)}});
    check_states(values_of(session), before);
    CHECK(skipped(session, 0) == 1);
    CHECK(session.step() == 2);
    CHECK(session.updates_applied() == 1);
    // Programs with and without the predicate share the counters.
    const Update always{{{m.b, m.b + 1.0f}}};
    session.run(always, {});
    CHECK(session.step() == 3);
    CHECK(session.updates_applied() == 2);
    CHECK(skipped(session, 0) == 2);  // it is another update
  }
}

TEST_CASE("a training that skips updates resumes bit for bit") {
  for (const std::string& name : backend_names()) {
    CAPTURE(name);
    const Device on = device(name);
    const Optimizer& optimizer = optimizers()[2];
    Regression whole(true, optimizer);
    Session expected(whole.graph, on);
    Trainer complete(
        expected,
        {.update = whole.update, .fetches = {whole.loss}, .source = regression_rows(on, false)});
    complete.fit({.steps = 17, .loop_size = 4});
    for (const int64_t stop : {int64_t{2}, int64_t{3}, int64_t{4}, int64_t{9}}) {
      const TempFolder folder;
      Regression first(true, optimizer);
      Session begun(first.graph, on);
      Trainer begin(
          begun,
          {.update = first.update, .fetches = {first.loss}, .source = regression_rows(on, false)});
      begin.fit({.steps = stop, .loop_size = 2});
      begin.save(folder.file("states"));
      Regression second(true, optimizer);
      Session session(second.graph, on);
      Trainer trainer(session, {.update = second.update,
                                .fetches = {second.loss},
                                .source = regression_rows(on, false)});
      trainer.resume(folder.file("states"));
      CHECK(session.updates_applied() == begun.updates_applied());
      trainer.fit({.steps = 17 - stop, .loop_size = 5});
      CHECK(session.state_sha256() == expected.state_sha256());
    }
  }
}

TEST_CASE("the count of updates begins at the steps done before any could be skipped") {
  const TempFolder folder;
  Regression m(false, sgd(0.1));
  Session session(m.graph, device("cpu"));
  Loop early = session.sink(
      {.update = m.update, .fetches = {m.loss}, .source = regression_rows(device("cpu"), true)});
  early.run(4);
  CHECK(session.updates_applied() == 4);
  session.save(folder.file("states"));
  const Update guarded = apply_if(less(m.loss, 0.0f), m.update);
  session.run(guarded, {}, {{m.x, Tensor::full(f32, {4, 3}, 0.25)}});
  CHECK(session.step() == 5);
  CHECK(session.updates_applied() == 4);
  // Files of trainings that skipped none do not have the count.
  session.run(m.update, {}, {{m.x, Tensor::full(f32, {4, 3}, 0.25)}});
  CHECK(session.updates_applied() == 5);
  early.run(3);  // compiled when there was no such count
  CHECK(session.updates_applied() == 8);
  CHECK(session.step() == 9);
  session.load(folder.file("states"));
  CHECK(session.updates_applied() == 4);
}

TEST_CASE("a training that skips nothing saves no count whatever its optimizer") {
  const TempFolder folder;
  const std::string path = folder.file("states");
  Regression scheduled(false, sgd(step_decay(0.1, 3, 0.5)));
  Session session(scheduled.graph, device("cpu"));
  session
      .sink({.update = scheduled.update,
             .fetches = {scheduled.loss},
             .source = regression_rows(device("cpu"), true)})
      .run(4);
  session.save(path);
  CHECK(!read_safetensors(path).tensors.contains(kUpdatesState));
  // So the weights load where the rate is constant, and the hash is that of the same states.
  Regression constant(false, sgd(0.1));
  Session other(constant.graph, device("cpu"));
  other.load(path);
  CHECK(other.updates_applied() == 4);
  CHECK(other.state_sha256() == session.state_sha256());

  Regression guarded(true, sgd(step_decay(0.1, 3, 0.5)));
  Session skipping(guarded.graph, device("cpu"));
  skipping
      .sink({.update = guarded.update,
             .fetches = {guarded.loss},
             .source = regression_rows(device("cpu"), false)})
      .run(9);
  REQUIRE(skipping.updates_applied() < 9);
  skipping.save(path);
  other.load(path);
  CHECK(other.step() == 9);
  CHECK(other.updates_applied() == 9);  // it knows of none that was skipped
  const Safetensors file = read_safetensors(path);
  for (const int64_t wrong : {int64_t{-5}, int64_t{10}, std::numeric_limits<int64_t>::max()}) {
    CAPTURE(wrong);
    for (const char* count : {kUpdatesState, "keel/skipped/w/sgd"}) {
      Safetensors changed = file;
      REQUIRE(changed.tensors.contains(count));
      changed.tensors[count] = Tensor::scalar<int64_t>(wrong);
      write_safetensors(folder.file("wrong"), changed.tensors, {{"step", "9"}});
      const std::string before = skipping.state_sha256();
      const std::string error = error_of([&] { skipping.load(folder.file("wrong")); });
      CHECK(contains(error, count));
      CHECK(contains(error, std::to_string(wrong)));
      CHECK(skipping.state_sha256() == before);
    }
  }
}

TEST_CASE("an update that may be skipped is part of a graph's own step and of its text") {
  Regression m(true, adam(0.1));
  m.graph.prepare_loop(m.update, {m.loss});
  m.graph.freeze();
  const std::string text = print_graph(m.graph);
  CHECK(contains(text, kUpdatesState));
  const std::unique_ptr<Graph> parsed = parse_graph(text);
  std::string hash;
  for (Graph* graph : {&m.graph, parsed.get()}) {
    Session session(*graph, device("cpu"));
    session.sink({.source = regression_rows(device("cpu"), false)}).run(9);
    CHECK(session.step() == 9);
    CHECK(session.updates_applied() == 6);
    if (hash.empty()) hash = session.state_sha256();
    CHECK(session.state_sha256() == hash);
  }
}

TEST_CASE("a predicate that always holds changes no bit of a training") {
  for (const std::string& name : backend_names()) {
    CAPTURE(name);
    std::map<std::string, Tensor> expected;
    for (const bool guarded : {false, true}) {
      Graph g;
      const Value x = g.input("x", f32, {16, 24});
      const Value y = g.input("y", i64, {16});
      const Value loss = mean(softmax_cross_entropy(dense(relu(dense(x, 32)), 10), y));
      Update update = sgd(0.1, {.momentum = 0.9}).minimize(loss);
      if (guarded) update = apply_if(less(loss, kInfinity), update);
      Session session(g, device(name));
      Tensor images(f32, {16, 24}), labels(i64, {16});
      for (int64_t i = 0; i < images.num_elements(); ++i)
        images.set(i, static_cast<double>(i * 7 % 31) / 31);
      for (int64_t i = 0; i < 16; ++i) labels.set(i, static_cast<double>(i % 10));
      for (int i = 0; i < 5; ++i) session.run(update, {loss}, {{x, images}, {y, labels}});
      if (!guarded)
        expected = values_of(session);
      else
        check_states(values_of(session), expected);
    }
  }
}

TEST_CASE("apply_if refuses what is no predicate of the update") {
  Regression m(true, sgd(0.1));
  CHECK(contains(error_of([&] { apply_if(m.loss, m.update); }),
                 "apply_if: predicate: expected bool[], got f32[]"));
  CHECK(contains(error_of([&] { apply_if(m.finite, m.update); }), "logical_and"));
  CHECK(!error_of([&] { apply_if(Value(), m.update); }).empty());
  Regression other(false, sgd(0.1));
  CHECK(!error_of([&] { apply_if(m.finite, other.update); }).empty());
}

}  // namespace

TEST_SUITE_END();
