// One id out of range in step 4 of a sunk loop made all states that the step updates unreadable,
// although it had written none of them.
#include <algorithm>
#include <cstring>

#include <doctest/doctest.h>

#include "keel/graph/runtime/trainer.h"
#include "keel/keel.h"

#include "support/declining_backend.h"
#include "support/temp_folder.h"
#include "unit/runtime_for_tests.h"

namespace keel {
namespace {

using keel_test::DecliningBackend;
using keel_test::TempFolder;
using testing::contains;
using testing::error_of;
using testing::NumberFeeder;

constexpr int64_t kBad = 3;  // the element, from 0, with the id that is out of range

std::shared_ptr<Feeder> ids(const Device& on, int64_t bad) {
  auto feeder = std::make_shared<NumberFeeder>(on, ElementSpec{{{"id", {i64, {2}}}}},
                                               [bad](int64_t i, const std::vector<void*>& fields) {
                                                 auto* id = static_cast<int64_t*>(fields[0]);
                                                 id[0] = i % 3;
                                                 id[1] = i == bad ? 99 : (i + 1) % 3;
                                                 return true;
                                               });
  feeder->open({});
  return feeder;
}

// States written before the ids are looked at, behind that, and by the op that looks.
struct GatheredTable {
  GatheredTable() {
    const Value before = early * 0.5f + 1.0f;
    const Value picked = gather(rows, id);
    const Value behind = late + sum(picked, {0});
    const Value added = scatter_add(rows, id, picked * 0.25f);
    total = sum(picked);
    update = Update{{{early, before}, {late, behind}, {rows, added}}};
  }
  Graph graph;
  Value id = graph.input("id", i64, {2});
  Value early = graph.state("early", from_tensor(Tensor::of<float>({2}, {8, 16})));
  Value late = graph.state("late", from_tensor(Tensor::of<float>({4}, {1, 2, 3, 4})));
  Value rows = graph.state("rows", normal({3, 4}, 0, 1));
  Value total;
  Update update;
};

std::string states_after(const Device& on, int64_t steps) {
  GatheredTable t;
  Session session(t.graph, on);
  Loop loop = session.sink({.update = t.update, .fetches = {t.total}, .source = ids(on, -1)});
  loop.run(steps);
  return session.state_sha256();
}

void check_nothing_is_lost(const Device& on, const std::string& expected, int64_t size) {
  GatheredTable t;
  Session session(t.graph, on);
  Loop loop = session.sink({.update = t.update, .fetches = {t.total}, .source = ids(on, kBad)});
  const std::string error = error_of([&] {
    for (int64_t done = 0; done < 10; done += size) loop.run(size);
  });
  CHECK(contains(error, "step 4"));
  CHECK(contains(error, "99"));
  CHECK(loop.failed_report().steps == kBad % size);
  if (size > kBad) CHECK(loop.failed_report().cursor.position == kBad);
  CHECK(session.step() == kBad);
  CHECK(session.state_sha256() == expected);
  const TempFolder folder;
  session.save(folder.file("states"));
  CHECK(session.load(folder.file("states")).at("step") == "3");
  // The element with the id is used up; the loop goes on behind it.
  CHECK(loop.run(2).cursor.position == kBad + 3);
  CHECK(session.step() == kBad + 2);
}

// A classifier whose labels come as bytes, as in MNIST's files.
struct Classes {
  Classes() {
    const Value hidden = relu(dense(x, 32));
    loss = mean(softmax_cross_entropy(dense(hidden, 10), y));
    update = adam(0.01).minimize(loss);
  }
  Graph graph;
  Value x = graph.input("x", f32, {-1, 20});
  Value y = graph.input("y", u8, {-1});
  Value loss;
  Update update;
};

std::shared_ptr<Feeder> labelled(const Device& on, int64_t bad) {
  const ElementSpec spec{{{"x", {f32, {64, 20}}}, {"y", {u8, {64}}}}};
  auto feeder =
      std::make_shared<NumberFeeder>(on, spec, [bad](int64_t i, const std::vector<void*>& fields) {
        auto* x = static_cast<float*>(fields[0]);
        for (int64_t k = 0; k < 64 * 20; ++k) x[k] = static_cast<float>((i + k * 7) % 13) / 13;
        auto* y = static_cast<uint8_t*>(fields[1]);
        for (int64_t k = 0; k < 64; ++k) y[k] = static_cast<uint8_t>((i + k) % 10);
        if (i == bad) y[37] = 200;
        return true;
      });
  feeder->open({});
  return feeder;
}

}  // namespace

TEST_SUITE_BEGIN("loop");

TEST_CASE("an id out of range leaves every state as the last complete step left it") {
  for (const std::string& name : backend_names()) {
    CAPTURE(name);
    const std::string expected = states_after(device(name), kBad);
    DecliningBackend modest(name, "sunk_loop");
    for (const int64_t size : {int64_t{1}, int64_t{2}, int64_t{10}}) {
      CAPTURE(size);
      check_nothing_is_lost(device(name), expected, size);
      check_nothing_is_lost(modest.device(), expected, size);
    }
    // Step by step by the host.
    GatheredTable t;
    Session session(t.graph, device(name));
    for (int64_t i = 0; i < kBad; ++i)
      session.run(t.update, {}, {{t.id, Tensor::of<int64_t>({2}, {i % 3, (i + 1) % 3})}});
    CHECK(contains(error_of([&] {
                     session.run(t.update, {}, {{t.id, Tensor::of<int64_t>({2}, {0, 99})}});
                   }),
                   "step 4"));
    CHECK(session.state_sha256() == expected);
  }
}

TEST_CASE("states that are written before ids are looked at have a second buffer for that") {
  for (const char* name : {"cpu", "npu"}) {
    CAPTURE(name);
    GatheredTable t;
    Session session(t.graph, device(name));
    const Loop loop =
        session.sink({.update = t.update, .fetches = {t.total}, .source = ids(device(name), -1)});
    for (const StateInfo& state : loop.program().info().states) {
      CAPTURE(state.name);
      if (state.updated) CHECK(state.second_buffer == (state.name == "early"));
    }
  }
}

TEST_CASE("a state that an op scatters into is written in place and not lost") {
  for (const std::string& name : backend_names()) {
    CAPTURE(name);
    Graph g;
    const Value id = g.input("id", i64, {2});
    const Value rows = g.state("rows", ones({3, 4}));
    const Update update{{{rows, scatter_add(rows, id, g.constant(Tensor::full(f32, {2, 4}, 1)))}}};
    Session session(g, device(name));
    Loop loop = session.sink({.update = update, .source = ids(device(name), kBad)});
    CHECK(contains(error_of([&] { loop.run(10); }), "step 4"));
    CHECK(session.step() == kBad);
    double total = 0;
    const Tensor value = session.read(rows);
    for (int64_t i = 0; i < value.num_elements(); ++i) total += value.at(i);
    CHECK(total == 12 + kBad * 8);
    if (name == "ref") continue;
    for (const StateInfo& state : loop.program().info().states) CHECK(!state.second_buffer);
  }
}

TEST_CASE("one bad label leaves a training that can be saved and goes on") {
  for (const std::string& name : backend_names()) {
    CAPTURE(name);
    Classes clean, m;
    Session expected(clean.graph, device(name));
    Trainer complete(
        expected,
        {.update = clean.update, .fetches = {clean.loss}, .source = labelled(device(name), -1)});
    complete.fit({.steps = kBad});

    Session session(m.graph, device(name));
    Trainer trainer(
        session, {.update = m.update, .fetches = {m.loss}, .source = labelled(device(name), kBad)});
    const std::string error = error_of([&] { trainer.fit({.steps = 100, .loop_size = 50}); });
    CHECK(contains(error, "targets"));
    CHECK(contains(error, "200"));
    CHECK(contains(error, "step 4"));
    CHECK(trainer.failed_report().steps == kBad);
    CHECK(trainer.failed_report().updates_applied == kBad);
    CHECK(session.step() == kBad);
    CHECK(session.state_sha256() == expected.state_sha256());
    CHECK(trainer.cursor().position == kBad);
    const TempFolder folder;
    trainer.save(folder.file("states"));
    CHECK(trainer.resume(folder.file("states")).at("cursor_position") == "3");
    CHECK(session.state_sha256() == expected.state_sha256());
    // All updates follow the loss, so none of them pays for this.
    if (name == "ref") continue;
    for (const StateInfo& state : trainer.program().info().states) {
      CAPTURE(state.name);
      CHECK(!state.second_buffer);
    }
  }
}

TEST_SUITE_END();

}  // namespace keel
