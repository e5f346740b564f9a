// Rows that a loop stacks are made where they are to lie, and a stack that is written throughout is
// not filled before, where adding to what it holds is the same as writing. Expected values by hand.
#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>

#include <doctest/doctest.h>

#include "keel/backends/common/task_list.h"
#include "keel/backends/npu/npu_library.h"
#include "keel/graph/autodiff/gradient.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/passes/passes.h"

#include "aligned_row_for_tests.h"
#include "ops_for_tests.h"
#include "support/strict_npu.h"

namespace keel {
namespace {

using testing::contains;
using testing::error_of;
using testing::kAlignedRow;

// A loop that puts a row into a stack in each turn, and what a case changes of it.
struct Stacking {
  double fill = -0.0;
  int64_t rows = 3, trips = 3, wide = kAlignedRow;
  double first = 1;    // what the row of turn 0 is filled with, and each next twice of it
  bool reads = false;  // a turn reads the stack, too
  int64_t shift = 0;   // of the place where it puts its row
};

// Adds the loop and returns its stack.
Value stack_rows(Graph& g, const Stacking& s) {
  const Value one = g.constant(Tensor::full(f32, {}, s.fill));
  const Value x = g.input("x", f32, {s.wide});
  return while_loop(
      {x, broadcast_to(one, {s.rows, s.wide})},
      [](const Values& v) { return less(v[0].graph().iteration(), 100); },
      [&](const Values& v) {
        const Value count = v[0].graph().iteration();
        const Value place = s.shift == 0 ? count : count + s.shift;
        // A value that lives only before the row is made must not lie over rows of turns before.
        const Value twice = concat({v[0], v[0]}, 0);
        const Value row = slice(twice, {0}, {s.wide}) * 1.0f;
        const Value next = s.reads ? row * 2.0f + sum(v[1]) : row * 2.0f;
        return Values{next, scatter_add(v[1], place, row)};
      },
      {.trip_count = s.trips})[1];
}

// Counts what the tasks of the loop do with its rows.
struct Counted {
  int64_t made_in_place = 0;
  int64_t added = 0;
  int64_t fills = 0;
  bool kept = true;  // the stacks, from the loop's first task to its last
};
Counted count_tasks(const Stacking& s) {
  Graph g;
  g.set_outputs({stack_rows(g, s) * 2.0f});
  const TaskList list = lower(g, npu::NpuLibrary(npu::default_preset()));
  Counted counted;
  const auto find = [&](TaskKind kind) {
    const auto is = [&](const Task& t) { return t.kind == kind; };
    return std::find_if(list.tasks.begin(), list.tasks.end(), is) - list.tasks.begin();
  };
  for (size_t i = 0; i < list.tasks.size(); ++i) {
    if (list.tasks[i].kernel == nullptr) continue;
    if (list.tasks[i].shows_row()) {
      const EntryLife& life = list.lives[list.table[list.tasks[i].row].index];
      counted.kept =
          life.first <= find(TaskKind::kLoopSwitch) && life.last >= find(TaskKind::kLoopActive);
    }
    const bool scatters = contains(list.infos[i].name, "scatter_add");
    counted.made_in_place += scatters && list.tasks[i].shows_row() ? 1 : 0;
    counted.added += scatters && !list.tasks[i].shows_row() ? 1 : 0;
    counted.fills += contains(list.infos[i].name, "broadcast_to") ? 1 : 0;
  }
  return counted;
}

// Calls check(session) for each backend, and where the npu checks its kernels.
template <class Check>
void on_every_device(Graph& g, Check check) {
  const auto strict = keel_test::strict_npu();
  std::vector<Device> devices{Device(strict.get(), 0)};
  for (const std::string& name : backend_names()) devices.push_back(device(name));
  for (const Device& on : devices) {
    CAPTURE(on.name());
    Session session(g, on);
    check(session);
  }
}

// The stack, the same on every backend to the last bit, and where the npu checks its kernels.
Tensor stack_of(const Stacking& s) {
  Graph g;
  const Value stack = stack_rows(g, s);
  Tensor expected;
  on_every_device(g, [&](Session& session) {
    const Tensor x = Tensor::full(f32, {s.wide}, s.first);
    const Tensor got = session.run({}, {stack}, {{g.inputs()[0], x}})[0];
    if (expected.num_elements() == 0) expected = got.clone();
    CHECK(bit_equal(got, expected));
  });
  return expected;
}

// Says how often the program that a session compiles of small stacks makes a row in its place, and
// how often it copies what a loop variable begins with. The count of each loop is always copied.
struct Compiled {
  int64_t made_in_place = 0, added = 0, copied = 0;
};
Compiled compiled(Session& session, const Values& fetches, const Feeds& feeds) {
  Compiled found;
  std::istringstream lines(session.describe({}, fetches, feeds));
  for (std::string line; std::getline(lines, line);) {
    const bool scatters = contains(line, "scatter_add") && !contains(line, "= copy");
    const bool in_place = contains(line, "the row is made where it is to lie");
    found.made_in_place += scatters && in_place ? 1 : 0;
    found.added += scatters && !in_place ? 1 : 0;
    found.copied += contains(line, "loop variable") && !contains(line, "loop variable 0") ? 1 : 0;
  }
  return found;
}

std::vector<double> first_column(const Tensor& stack) {
  std::vector<double> column;
  for (int64_t row = 0; row < stack.shape()[0]; ++row)
    column.push_back(stack.at(row * stack.shape()[1]));
  return column;
}

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("written rows: a stack that a loop writes is neither filled nor added to") {
  const Counted counted = count_tasks({});
  CHECK(counted.made_in_place == 1);
  CHECK(counted.added == 0);
  CHECK(counted.fills == 0);
  CHECK(counted.kept);
  CHECK(first_column(stack_of({})) == std::vector<double>{1, 2, 4});
}

TEST_CASE("written rows: the rows that a loop leaves are those that the stack began with") {
  const Stacking shorter{.trips = 2};
  CHECK(count_tasks(shorter).made_in_place == 1);
  CHECK(count_tasks(shorter).fills == 1);
  const Tensor stack = stack_of(shorter);
  CHECK(first_column(stack) == std::vector<double>{1, 2, 0});
  CHECK(std::signbit(stack.at(2 * kAlignedRow)));
}

TEST_CASE("written rows: a row of minus zeros keeps its sign where the stack keeps it") {
  CHECK(std::signbit(stack_of({.first = -0.0}).at(0)));
  // 0 + -0 is 0, so here the row has to be added.
  const Stacking zeros{.fill = 0.0, .first = -0.0};
  CHECK(count_tasks(zeros).added == 1);
  CHECK(count_tasks(zeros).fills == 1);
  CHECK_FALSE(std::signbit(stack_of(zeros).at(0)));
}

TEST_CASE("written rows: passes leave stacks of any size to be filled where they are to lie") {
  Graph g;
  const Value stack = stack_rows(g, {});
  const Value gradient = gradients(sum(stack * stack), {g.inputs()[0]})[0];
  const Feeds feeds{{g.inputs()[0], Tensor::full(f32, {kAlignedRow}, 1)}};
  on_every_device(g, [&](Session& session) {
    const Compiled forward = compiled(session, {stack}, feeds);
    CHECK(forward.made_in_place == 1);
    CHECK(forward.added == 0);
    CHECK(forward.copied == 1);  // x, which the first row is made of
    // Its loops keep what the way back needs, and begin gradients as 0.
    CHECK(compiled(session, {gradient}, feeds).added == 0);
    // The rows are x, 2 x and 4 x, so the gradient of the sum of their squares is 2 (1 + 4 + 16) x.
    CHECK(session.run({gradient}, feeds)[0].at(0) == 42);
  });
}

TEST_CASE("written rows: outputs of recurrent ops are made where they are to lie") {
  constexpr int64_t kTime = 3, kBatch = 2, kUnits = kAlignedRow;
  for (const int64_t batch : {kBatch, int64_t{-1}}) {
    CAPTURE(batch);
    Graph g;
    const Value x = g.input("x", f32, {kTime, batch, 4});
    const auto weights = [&](const char* name, const Shape& shape) {
      return g.input(name, f32, shape);
    };
    const LstmWeights of_lstm{weights("a", {4, 4 * kUnits}), weights("b", {kUnits, 4 * kUnits}),
                              weights("c", {4 * kUnits})};
    const GruWeights of_gru{weights("d", {4, 3 * kUnits}), weights("e", {kUnits, 3 * kUnits}),
                            weights("f", {3 * kUnits}), weights("g", {3 * kUnits})};
    const Value outputs = lstm(x, of_lstm).outputs, gru_outputs = gru(x, of_gru).outputs;
    const Value gradient = gradients(sum(outputs * outputs), {of_lstm.hidden})[0];
    Feeds feeds{{x, Tensor::full(f32, {kTime, kBatch, 4}, 1)}};
    for (const Value& v : g.inputs()) {
      if (v != x) feeds.emplace_back(v, Tensor::full(f32, v.shape(), 0.125));
    }
    on_every_device(g, [&](Session& session) {
      for (const Value& fetch : {outputs, gru_outputs}) {
        const Compiled forward = compiled(session, {fetch}, feeds);
        CHECK(forward.made_in_place == 1);
        CHECK(forward.added == 0);
        CHECK(forward.copied == 0);
      }
      const Compiled both = compiled(session, {outputs, gradient}, feeds);
      CHECK(both.made_in_place > 1);
      CHECK(both.added == 0);
      CHECK(both.copied == 0);
    });
  }
}

TEST_CASE("written rows: stacks that begin as something else are added to") {
  CHECK(count_tasks({.fill = 7}).added == 1);
  CHECK(first_column(stack_of({.fill = 7})) == std::vector<double>{8, 9, 11});
}

TEST_CASE("written rows: what else reads the stack finds the old rows") {
  const Stacking read{.reads = true};
  CHECK(count_tasks(read).made_in_place == 0);
  // The next row is twice the last one and all elements of the rows before that.
  CHECK(first_column(stack_of(read)) == std::vector<double>{1, 2, 4 + 1 * kAlignedRow});
}

TEST_CASE("written rows: another place than the count and rows that are not aligned are added") {
  CHECK(count_tasks({.rows = 4, .shift = 1}).made_in_place == 0);
  CHECK(first_column(stack_of({.rows = 4, .shift = 1})) == std::vector<double>{0, 1, 2, 4});
  CHECK(count_tasks({.wide = kAlignedRow - 1}).made_in_place == 0);
  CHECK(first_column(stack_of({.wide = kAlignedRow - 1})) == std::vector<double>{1, 2, 4});
}

TEST_CASE("written rows: more turns than rows are the error of scatter_add") {
  Graph g;
  const Value stack = stack_rows(g, {.trips = 4});
  for (const std::string& name : backend_names()) {
    CAPTURE(name);
    Session session(g, device(name));
    const std::string error = error_of([&] {
      session.run({}, {stack}, {{g.inputs()[0], Tensor::full(f32, {kAlignedRow}, 1)}});
    });
    CHECK(contains(error, "scatter_add"));
    CHECK(contains(error, "indices"));
    CHECK(contains(error, "test_written_rows.cpp"));
  }
}

TEST_CASE("written rows: variables and values that two stacks hold are copied to their rows") {
  Graph g;
  const Value x = g.input("x", f32, {kAlignedRow});
  const Value fill = g.constant(Tensor::full(f32, {}, -0.0));
  const auto empty = [&] { return broadcast_to(fill, {3, kAlignedRow}); };
  const Values out = while_loop(
      {x, empty(), empty(), empty()},
      [](const Values& v) { return less(v[0].graph().iteration(), 3); },
      [](const Values& v) {
        const Value count = v[0].graph().iteration();
        const Value made = v[0] + 10.0f;
        return Values{v[0] * 3.0f, scatter_add(v[1], count, v[0]), scatter_add(v[2], count, made),
                      scatter_add(v[3], count, made)};
      },
      {.trip_count = 3});
  on_every_device(g, [&](Session& session) {
    const std::vector<Tensor> got =
        session.run({}, {out[1], out[2], out[3]}, {{x, Tensor::full(f32, {kAlignedRow}, 1)}});
    CHECK(first_column(got[0]) == std::vector<double>{1, 3, 9});
    CHECK(first_column(got[1]) == std::vector<double>{11, 13, 19});
    CHECK(bit_equal(got[1], got[2]));
  });
}

TEST_CASE("written rows: a stack that is made anew in each turn of a loop around its own") {
  Graph g;
  const Value x = g.input("x", f32, {kAlignedRow});
  const Values out = while_loop(
      {x, x * 0.0f}, [](const Values& v) { return less(v[0].graph().iteration(), 2); },
      [](const Values& v) {
        const Value fill = v[0].graph().constant(Tensor::full(f32, {}, -0.0));
        const Values inner = while_loop(
            {v[0], broadcast_to(fill, {2, kAlignedRow})},
            [](const Values& w) { return less(w[0].graph().iteration(), 2); },
            [](const Values& w) {
              const Value row = w[0] + 1.0f;
              return Values{row * 2.0f, scatter_add(w[1], w[0].graph().iteration(), row)};
            },
            {.trip_count = 2});
        return Values{inner[0], v[1] * 100.0f + sum(inner[1], {0})};
      },
      {.trip_count = 2});
  // The rows are 2 and 5, then 11 and 23.
  on_every_device(g, [&](Session& session) {
    const Tensor got = session.run({}, {out[1]}, {{x, Tensor::full(f32, {kAlignedRow}, 1)}})[0];
    CHECK(got.at(0) == 7 * 100 + 34);
  });
}

TEST_SUITE_END();

}  // namespace keel
