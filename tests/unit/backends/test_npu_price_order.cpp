// Prices of single launches that grow: a larger shape is never cheaper than a smaller one of the
// same kind, by more than how work is dealt to cores; and reasons that fit the numbers beside them.
#include <cstdint>
#include <string>
#include <vector>

#include "keel/backends/npu/kernels/kernel_entry.h"
#include "keel/backends/npu/scheduler/resident_price.h"
#include "keel/graph/passes/passes.h"
#include "keel/ops/ops.h"

#include "npu_model_for_tests.h"
#include "support/fusing.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::npu;
using namespace npu_model_test;

using GraphOfSize = std::function<void(Graph&, int64_t)>;

Launch launch_at(const std::string& preset, const std::string& op, const GraphOfSize& build,
                 int64_t size) {
  Graph graph;
  build(graph, size);
  return schedule(load_preset(preset), node_of(graph, op));
}

// Checks that the price of the op never falls by more than a hundredth from one size to the next.
void check_rises(const std::string& preset, const std::string& op, const GraphOfSize& build,
                 const std::vector<int64_t>& sizes) {
  CAPTURE(preset);
  int64_t before = 0;
  for (const int64_t size : sizes) {
    CAPTURE(size);
    const int64_t price = launch_at(preset, op, build, size).price.total_ns;
    CHECK(price >= before - before / 100);
    before = std::max(before, price);
  }
}

void sums_of_columns(Graph& g, int64_t columns) {
  g.set_outputs({max(g.input("x", f32, {10000, columns}), {0})});
}

}  // namespace

TEST_CASE("npu prices: attention takes longer for longer sequences") {
  const GraphOfSize attend = [](Graph& g, int64_t keys) {
    const Value x = g.input("x", f16, {8, 8, keys, 64});
    g.set_outputs({attention(x, x, x)});
  };
  for (const char* preset : {"ascend910", "ascend910b1", "ascend910b4"})
    check_rises(preset, "attention", attend, {256, 512, 768, 1024, 1536, 1552, 2048, 4096});
}

TEST_CASE("npu prices: a result more is not cheaper though it begins a unit of its own") {
  for (const char* preset : {"ascend910", "ascend910b1"})
    check_rises(preset, "max", sums_of_columns, {1, 7, 8, 9, 15, 16, 17, 64, 65});
  const GraphOfSize add_rows = [](Graph& g, int64_t columns) {
    g.set_outputs({scatter_add(g.input("x", f32, {100, columns}), g.input("ids", i32, {10000}),
                               g.input("rows", f32, {10000, columns}))});
  };
  check_rises("ascend910b1", "scatter_add", add_rows, {8, 64, 512, 513, 1024});
}

TEST_CASE("npu prices: more rows of a product of integers are not cheaper") {
  const GraphOfSize product = [](Graph& g, int64_t rows) {
    g.set_outputs({matmul(g.input("a", i32, {rows, 4096}), g.input("b", i32, {4096, 64}))});
  };
  Graph one;
  product(one, 1);
  // One core loads all of B, in the time of its own link, however few rows there are.
  const Preset preset = load_preset("ascend910b1");
  const auto least = static_cast<int64_t>(4096 * 64 * 4 / preset.gm_ub_gb_per_s);
  for (const int64_t rows : {1, 8, 48, 96}) {
    CAPTURE(rows);
    CHECK(launch_at("ascend910b1", "matmul", product, rows).price.total_ns >= least);
  }
}

TEST_CASE("npu prices: a slice costs what it keeps") {
  const auto kept = [](int64_t rows) {
    Graph g;
    g.set_outputs({slice(g.input("x", f32, {100000, 1000}), {0}, {rows})});
    return schedule(load_preset("ascend910b1"), node_of(g, "slice")).price;
  };
  CHECK(kept(1).bytes_in == 4000);
  CHECK(kept(1).total_ns < 2000);
  CHECK(kept(1).total_ns <= kept(32).total_ns);
  CHECK(kept(32).total_ns < kept(50000).total_ns);
}

TEST_CASE("npu prices: the gradient of a pooling goes through each window once") {
  const auto price = [](int64_t window, int64_t stride) {
    Graph g;
    const MaxPool2dAttributes options{.window = {window}, .stride = {stride}};
    const Value x = g.input("x", f32, {8, 64, 64, 64});
    const Value y = max_pool2d(x, options);
    g.set_outputs({max_pool2d_gradient(x, g.input("dy", f32, y.shape()), options)});
    return schedule(load_preset("ascend910b1"), node_of(g, "max_pool2d_gradient")).price.total_ns;
  };
  // Windows beside each other meet each element once a line of windows, whatever their size.
  CHECK(price(16, 16) < 10 * price(2, 2));
  CHECK(price(4, 1) > price(4, 4));
}

TEST_CASE("npu prices: rows that do not fit wait in memory at the price of going there") {
  const auto price = [](int64_t columns) {
    Graph g;
    g.set_outputs(
        {softmax(matmul(g.input("x", f16, {2048, 512}), g.input("w", f16, {512, columns})))});
    const auto whole = keel_test::fused(g);
    const Node& node = whole->outputs()[0].node();
    REQUIRE(node.op_name() == "fused");
    const Preset preset = load_preset("ascend910b1");
    const int64_t apart = schedule(preset, node_of(g, "matmul")).price.total_ns +
                          schedule(preset, node_of(g, "softmax")).price.total_ns;
    const Launch launch = schedule(preset, node);
    CHECK(resident_price(preset, launch, Residency::kCold).total_ns == launch.price.total_ns);
    return std::pair(launch.price.total_ns, apart);
  };
  for (const int64_t columns : {512, 1024, 4096}) {
    CAPTURE(columns);
    const auto [together, apart] = price(columns);
    CHECK(together <= apart * 3 / 2);
  }
}

TEST_CASE("npu prices: reasons go with the numbers beside them") {
  const GraphOfSize rows = [](Graph& g, int64_t count) {
    g.set_outputs({softmax(g.input("x", f32, {count, 100096}))});
  };
  const Launch forty = launch_at("ascend910", "softmax", rows, 40);
  CHECK(forty.price.block_dim < 32);
  CHECK(forty.limit == Limit::kRows);
  CHECK(contains(forty.reason, "40 rows"));
  const GraphOfSize add_all = [](Graph& g, int64_t elements) {
    const Value x = g.input("x", f32, {elements});
    g.set_outputs({x + x * 2.0f});
  };
  for (const int64_t shift : {22, 24, 26, 28}) {
    CAPTURE(shift);
    CHECK(launch_at("ascend910b1", "add", add_all, int64_t{1} << shift).limit != Limit::kBytes);
  }
}

TEST_SUITE_END();
