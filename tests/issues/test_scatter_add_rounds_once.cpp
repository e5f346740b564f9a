// scatter_add rounded at every addition: sums of f16 and bf16 stopped growing at 2,048 and 256, and
// long ones of f32 left the documented bound.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/core/base/parallel_for.h"
#include "keel/graph/autodiff/gradient.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"

namespace keel {
namespace {

struct Uneven {
  uint32_t state;
  double next() {
    return static_cast<double>((state = state * 1664525 + 1013904223) >> 12) * 0x1p-20;
  }
};

// Every row is named often, in turn with others and not in order.
int64_t row_of(int64_t position, int64_t rows) { return position * position % rows; }

// scatter_add of `count` rows of `width` numbers beside the sums in double, rounded once.
void check_sums(const std::string& where, DType dtype, int64_t rows, int64_t width, int64_t count) {
  CAPTURE(where);
  CAPTURE(std::string(name_of(dtype)));
  CAPTURE(count);
  Uneven numbers{7};
  Tensor x(dtype, {rows, width}), ids(i64, {count}), updates(dtype, {count, width});
  for (int64_t i = 0; i < x.num_elements(); ++i) x.set(i, numbers.next());
  std::vector<double> sums;
  for (int64_t i = 0; i < x.num_elements(); ++i) sums.push_back(x.at(i));
  for (int64_t i = 0; i < count; ++i) {
    ids.data<int64_t>()[static_cast<size_t>(i)] = row_of(i, rows);
    for (int64_t k = 0; k < width; ++k) {
      updates.set(i * width + k, numbers.next());
      sums[static_cast<size_t>(row_of(i, rows) * width + k)] += updates.at(i * width + k);
    }
  }
  Tensor expected(dtype, {rows, width});
  for (int64_t i = 0; i < expected.num_elements(); ++i)
    expected.set(i, sums[static_cast<size_t>(i)]);
  Graph g;
  const Value a = g.input("x", dtype, x.shape()), b = g.input("ids", i64, ids.shape()),
              c = g.input("updates", dtype, updates.shape());
  for (const int threads : {1, 2}) {
    CAPTURE(threads);
    const ComputeThreads some(threads);
    Session session(g, device(where));
    const Tensor got = session.run({scatter_add(a, b, c)}, {{a, x}, {b, ids}, {c, updates}})[0];
    CHECK(bit_equal(got, expected));
  }
}

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("the gradient of gather counts every use of a row in 16 bits") {
  for (const char* where : {"ref", "cpu", "npu"}) {
    for (const DType dtype : {bf16, f16}) {
      CAPTURE(std::string(where));
      CAPTURE(std::string(name_of(dtype)));
      Graph g;
      const Value table = g.input("table", dtype, {3, 1});
      const Value ids = g.input("ids", i32, {5000});
      const Value total = sum(cast(gather(table, ids), f32));
      Session session(g, device(where));
      const Tensor d = session.run({gradients(total, {table})[0]},
                                   {{table, Tensor(dtype, {3, 1})}, {ids, Tensor(i32, {5000})}})[0];
      // 5,000 in f16; the nearest that bf16 has.
      CHECK(d.at(0) == (dtype == f16 ? 5000 : 4992));
      CHECK(d.at(1) == 0);
    }
  }
}

TEST_CASE("scatter_add sums in double and rounds once whatever the number of addends") {
  for (const char* where : {"ref", "cpu", "npu"}) {
    for (const DType dtype : {f32, f16, bf16}) {
      check_sums(where, dtype, 1, 1, 16705);
      check_sums(where, dtype, 5, 3, 3000);
      check_sums(where, dtype, 3, 700, 40);
      check_sums(where, dtype, 100000, 2, 30);
      // Blocks share the columns, of rows that are named once or twice.
      check_sums(where, dtype, 3, 40000, 2);
      check_sums(where, dtype, 2, 40000, 3);
      check_sums(where, dtype, 4, 2, 0);
    }
  }
  check_sums("cpu", f64, 5, 3, 3000);
}

TEST_CASE("adding nothing to a table without rows reads no memory") {
  for (const char* where : {"ref", "cpu", "npu"}) {
    CAPTURE(std::string(where));
    Graph g;
    const Value x = g.input("x", f32, {0, 3}), ids = g.input("ids", i64, {0}),
                updates = g.input("updates", f32, {0, 3});
    Session session(g, device(where));
    const Tensor got = session.run(
        {scatter_add(x, ids, updates)},
        {{x, Tensor(f32, {0, 3})}, {ids, Tensor(i64, {0})}, {updates, Tensor(f32, {0, 3})}})[0];
    CHECK(got.shape() == Shape{0, 3});
  }
}

TEST_SUITE_END();

}  // namespace keel
