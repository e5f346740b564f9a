// Rows that are gathered one at a time are read where they lie: nothing may be written there while
// one of them is still to be read. Expected values by hand.
#include <doctest/doctest.h>

#include "keel/backends/common/task_list.h"
#include "keel/backends/npu/npu_library.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/passes/passes.h"

#include "aligned_row_for_tests.h"
#include "ops_for_tests.h"
#include "support/strict_npu.h"

namespace keel {
namespace {

using testing::contains;
using testing::counting;
using testing::elements;
using testing::error_of;
using testing::kAlignedRow;

Tensor filled_rows(std::initializer_list<double> values) {
  Tensor t(f32, {static_cast<int64_t>(values.size()), kAlignedRow});
  int64_t at = 0;
  for (const double value : values) {
    for (int64_t i = 0; i < kAlignedRow; ++i) t.set(at++, value);
  }
  return t;
}

// The first element of each fetch, the same on every backend, and where the npu checks its kernels.
std::vector<double> firsts(Graph& g, const Values& fetches, const Feeds& feeds = {},
                           const Update& update = {}) {
  const auto strict = keel_test::strict_npu();
  std::vector<Device> devices{Device(strict.get(), 0)};
  for (const std::string& name : backend_names()) devices.push_back(device(name));
  std::vector<double> expected;
  for (const Device& on : devices) {
    CAPTURE(on.name());
    Session session(g, on);
    std::vector<double> got;
    for (const Tensor& t : session.run(update, fetches, feeds)) got.push_back(t.at(0));
    if (expected.empty()) expected = got;
    CHECK(got == expected);
  }
  return expected;
}

Value scalar(Graph& g, int64_t x) { return g.constant(Tensor::scalar<int64_t>(x)); }

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("row views: a row is not copied and neither is what is larger") {
  Graph g;
  const Value table = g.input("table", f32, {1000, kAlignedRow});
  const Value row = g.input("row", i64, {});
  const Value x = gather(table, row) * 2.0f;
  const TaskList list = [&] {
    g.set_outputs({x});
    return lower(g, npu::NpuLibrary(npu::default_preset()));
  }();
  REQUIRE(list.tasks.size() == 2);
  CHECK(list.tasks[0].shows_row());
  CHECK(contains(list.infos[0].name, "gather"));
  CHECK(list.table[list.tasks[0].row].bytes == kAlignedRow * sizeof(float));
  // The scratch holds no more than where the row begins.
  CHECK(list.info.scratch_bytes == Buffer::kAlignment);
}

TEST_CASE("row views: rows whose beginnings are not aligned and whole outputs are copied") {
  Graph g;
  const Value narrow = g.input("narrow", f32, {8, kAlignedRow - 1});
  const Value wide = g.input("wide", f32, {8, kAlignedRow});
  const Value row = g.input("row", i64, {});
  g.set_outputs({gather(narrow, row) * 2.0f, gather(wide, row)});
  for (const Task& task : lower(g, npu::NpuLibrary(npu::default_preset())).tasks)
    CHECK_FALSE(task.shows_row());
}

TEST_CASE("row views: each dtype of an index and the last row") {
  Graph g;
  const Value table = g.constant(filled_rows({1, 2, 3}));
  const Values fetches{gather(table, g.constant(Tensor::scalar<int32_t>(2))) + 0.5f,
                       gather(table, scalar(g, 0)) + 0.5f};
  CHECK(firsts(g, fetches) == std::vector<double>{3.5, 1.5});
}

TEST_CASE("row views: an index out of range is the error of gather") {
  for (const std::string& name : backend_names()) {
    for (const int64_t index : {int64_t{-1}, int64_t{3}}) {
      CAPTURE(name);
      Graph g;
      const Value row = g.input("row", i64, {});
      const Value y = gather(g.constant(filled_rows({1, 2, 3})), row) + 1.0f;
      Session session(g, device(name));
      const std::string error = error_of([&] {
        session.run({y}, {{row, Tensor::scalar<int64_t>(index)}});
      });
      CHECK(contains(error, "gather"));
      CHECK(contains(error, "indices from 0 to 2"));
      CHECK(contains(error, std::to_string(index) + " at position 0"));
      CHECK(contains(error, "test_row_view.cpp"));
    }
  }
}

TEST_CASE("row views: a table is not written over while a row of it is to be read") {
  Graph g;
  const Value table =
      g.input("table", f32, {3, kAlignedRow}) + 0.0f;  // made here, so it may be reused
  const Value old_row = gather(table, scalar(g, 1));
  const Value changed =
      scatter_add(table, g.constant(Tensor::of<int64_t>({1}, {1})), g.constant(filled_rows({100})));
  const Value new_row = gather(changed, scalar(g, 1));
  const Values fetches{old_row * 10.0f + new_row, sum(changed)};
  const Feeds feeds{{g.inputs()[0], filled_rows({1, 2, 3})}};
  CHECK(firsts(g, fetches, feeds) == std::vector<double>{20 + 102, (1 + 102 + 3) * kAlignedRow});
}

TEST_CASE("row views: a state keeps its old rows while they are to be read") {
  Graph g;
  Initializer start;
  start.kind = "value";
  start.value = filled_rows({1, 2, 3});
  start.type = start.value.type();
  const Value s = g.state("s", start);
  const Value row = gather(s, scalar(g, 2));
  const Value next = s + 10.0f;
  const Values fetches{row * 2.0f + gather(next, scalar(g, 2))};
  CHECK(firsts(g, fetches, {}, Update{{{s, next}}}) == std::vector<double>{6 + 13});
}

TEST_CASE("row views: loop variables take rows of each other at once") {
  Graph g;
  // The first variable becomes twice itself, the second the first's old row.
  const Values out = while_loop(
      {g.constant(filled_rows({1, 2})), g.constant(Tensor::full(f32, {kAlignedRow}, 0)),
       g.constant(Tensor::full(f32, {kAlignedRow}, 0))},
      [](const Values& v) { return less(v[0].graph().iteration(), 3); },
      [](const Values& v) {
        const Value row = gather(v[0], v[0].graph().iteration() - v[0].graph().iteration() + 1);
        return Values{v[0] * 2.0f, row, v[1] + row};
      },
      {.trip_count = 3});
  // Rows of turn 0, 1, 2: 2, 4, 8.
  CHECK(firsts(g, {out[0], out[1], out[2]}) == std::vector<double>{8, 8, 4 + 8});
}

TEST_CASE("row views: rows taken before a loop are read in each of its turns") {
  Graph g;
  const Value table = g.input("table", f32, {4, kAlignedRow}) + 1.0f;
  const Value outside = gather(table, scalar(g, 3));
  const Values out = while_loop(
      {g.constant(counting({kAlignedRow})), table},
      [](const Values& v) { return less(v[0].graph().iteration(), 4); },
      [&](const Values& v) {
        return Values{v[0] + outside + gather(v[1], v[0].graph().iteration()), v[1] * 3.0f};
      },
      {.trip_count = 4});
  const Feeds feeds{{g.inputs()[0], filled_rows({0, 1, 2, 3})}};
  // 4 times 4, and row t (t + 1) of the table times 3 to the t.
  CHECK(firsts(g, {out[0]}, feeds) == std::vector<double>{16 + 1 + 2 * 3 + 3 * 9 + 4 * 27});
}

TEST_CASE("row views: rows of rows and rows that both branches read") {
  Graph g;
  const Value table = g.input("table", f32, {2, 3, kAlignedRow});
  const Value inner = gather(gather(table, scalar(g, 1)), scalar(g, 2));
  const Value flag = g.input("flag", boolean, {});
  const Value chosen = cond(
      flag, {inner}, [](const Values& v) { return Values{v[0] + 1.0f}; },
      [](const Values& v) { return Values{v[0] * 2.0f}; })[0];
  Tensor values(f32, {2, 3, kAlignedRow});
  for (int64_t i = 0; i < values.num_elements(); ++i) values.set(i, static_cast<double>(i));
  const double first = 5 * kAlignedRow;
  CHECK(firsts(g, {chosen}, {{table, values}, {flag, Tensor::scalar<bool>(true)}}) ==
        std::vector<double>{first + 1});
  CHECK(firsts(g, {chosen}, {{table, values}, {flag, Tensor::scalar<bool>(false)}}) ==
        std::vector<double>{first * 2});
}

TEST_SUITE_END();

}  // namespace keel
