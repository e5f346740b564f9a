// Launches carried out as planned, core by core and tile by tile: the bits are those of the kernels
// for random ops, shapes, presets and numbers of blocks, and a plan that is wrong is an error that
// says where.
#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "keel/backends/common/kernel.h"
#include "keel/backends/npu/kernels/kernel_entry.h"
#include "keel/backends/npu/npu_library.h"
#include "keel/backends/npu/scheduler/tile_plan.h"
#include "keel/core/tensor/buffer.h"
#include "keel/graph/ir/text.h"
#include "keel/graph/passes/passes.h"
#include "keel/ops/ops.h"

#include "npu_model_for_tests.h"
#include "random_npu_nodes_for_tests.h"
#include "support/scale.h"

namespace {

using namespace keel;
using namespace keel::npu;
using namespace npu_model_test;
using namespace random_npu_nodes;

int launches_to_draw() { return keel_test::long_scale() ? 10000 : 250; }

// A kernel's arguments in memory of their own; the same contents for the same seed.
class Arguments {
 public:
  // Of a kernel's plan: outputs that it has to write over an input begin with what that holds.
  Arguments(const AnchoredNode& anchored, const KernelPlan& plan, uint64_t seed)
      : Arguments(anchored, plan.workspace_bytes, seed) {
    for (const KernelPlan::InPlace& pair : plan.in_place) {
      const std::shared_ptr<Buffer>& input = buffers_[pair.input];
      if (!pair.required || input->size() == 0) continue;
      std::memcpy(addresses_[outputs_at_ + pair.output], input->address(), input->size());
    }
  }
  Arguments(const AnchoredNode& anchored, size_t workspace_bytes, uint64_t seed) : seed_(seed) {
    const Node& node = anchored.node();
    for (size_t i = 0; i < node.inputs().size(); ++i) {
      const Type type = node.input(i).type();
      add(type.shape.num_bytes(type.dtype));
      const bool rows = anchored.is_product() && anchored.row_numbers_of(0) == i;
      fill(type, rows ? anchored.stored(0).shape()[0] : 4);
    }
    for (const Type& type : node.types()) {
      add(type.shape.num_bytes(type.dtype));
      const std::span bytes(static_cast<char*>(buffers_.back()->address()),
                            buffers_.back()->size());
      std::fill(bytes.begin(), bytes.end(), char{0x7f});
    }
    outputs_at_ = node.inputs().size();
    outputs_ = node.types().size();
    if (workspace_bytes != 0) add(workspace_bytes);
    addresses_.push_back(&status);
  }
  void* const* data() const { return addresses_.data(); }
  // The first output that has other bits there; -1: none has.
  int difference(const Arguments& other) const {
    for (size_t i = outputs_at_; i < outputs_at_ + outputs_; ++i) {
      const size_t bytes = buffers_[i]->size();
      if (bytes != 0 && std::memcmp(addresses_[i], other.addresses_[i], bytes) != 0)
        return static_cast<int>(i - outputs_at_);
    }
    return -1;
  }

  uint32_t status = 0;

 private:
  void add(size_t bytes) {
    buffers_.push_back(allocate_host_buffer(bytes));
    addresses_.push_back(buffers_.back()->address());
  }
  // Numbers of both signs, now and then a large one; integers below `most`.
  void fill(const Type& type, int64_t most) {
    Tensor t(type.dtype, type.shape);
    for (int64_t i = 0; i < t.num_elements(); ++i) {
      seed_ = seed_ * 6364136223846793005u + 1442695040888963407u;
      const auto drawn = static_cast<int64_t>(seed_ >> 33);
      if (!is_float(type.dtype))
        t.set(i, static_cast<double>(drawn % (type.dtype == boolean ? 2 : most)));
      else
        t.set(i, static_cast<double>(drawn % 4001 - 2000) * (drawn % 997 == 0 ? 20 : 1e-3));
    }
    if (t.num_bytes() != 0) std::memcpy(buffers_.back()->address(), t.raw(), t.num_bytes());
  }

  uint64_t seed_;
  std::vector<std::shared_ptr<Buffer>> buffers_;
  std::vector<void*> addresses_;
  size_t outputs_at_ = 0, outputs_ = 0;
};

void run_kernel(const Kernel& kernel, void* const* args) {
  for (int phase = 0; phase < kernel.phases(); ++phase) {
    for (int block = 0; block < kernel.blocks(phase); ++block) kernel.run(args, phase, block);
  }
}

constexpr const char* kNotAsPlanned = "strict runs do not go by the plan: ";

// The only reasons why a launch may have no planned run.
bool is_longer_than_unified_buffer(const std::string& reason) {
  return contains(reason, "is longer than the unified buffer of") ||
         contains(reason, "does not fit in the unified buffer of");
}

struct Launches {
  int planned = 0;
  int too_long = 0;  // a row of them does not fit in unified buffer
};

// Runs a node's kernel and its planned run on the same data, and returns how the results differ, or
// why there is no planned run; empty if they do not differ. Counts this in `launches`.
std::string compare(const std::shared_ptr<const Preset>& preset, const BlockDimOptions& options,
                    const Node& node, uint64_t seed, Launches* launches) {
  const AnchoredNode anchored(node);
  const NpuLibrary kinds(preset);
  if (!kinds.supports(node).supported) return "";
  NpuLibrary library(preset, options, true);
  const KernelPlan plan = library.plan(node, {});
  const PlannedRuns runs = library.take_planned_runs();
  const auto it = runs.find(plan.kernel.get());
  if (it == runs.end()) {
    ++launches->too_long;
    const bool told = contains(plan.reason, kNotAsPlanned);
    return told && is_longer_than_unified_buffer(plan.reason) ? "" : "not planned: " + plan.reason;
  }
  ++launches->planned;
  Arguments kernel(anchored, plan, seed), planned(anchored, plan, seed);
  run_kernel(*plan.kernel, kernel.data());
  const std::string what = node.op_name() + " around " + anchored.anchor().op_name() + " of " +
                           std::to_string(plan.block_dim) + " blocks: ";
  const std::string error = error_of([&] { it->second->run(planned.data()); });
  if (!error.empty()) return what + error;
  if (const int output = kernel.difference(planned); output >= 0)
    return what + "other bits in output " + std::to_string(output);
  if (kernel.status != planned.status) return what + "another float status";
  return "";
}

// ---- planted faults

struct Planned {
  Graph graph;
  const Node* node = nullptr;
  std::shared_ptr<const Preset> preset = std::make_shared<const Preset>(load_preset("ascend910b1"));
  Launch launch;
  StateLayouts layouts;

  void schedule_output(const BlockDimOptions& options = {}) {
    node = &graph.outputs()[0].node();
    launch = schedule(*preset, *node, options);
  }
  // What the run of a plan says that is not the scheduler's.
  std::string error_with(const std::function<void(TilePlan&)>& change) const {
    const AnchoredNode anchored(*node);
    const PlannedRequest request{preset, anchored, launch, layouts};
    const PlannedEntry& entry = *find_entry(anchored)->planned;
    TilePlan plan = entry.tiles(request);
    change(plan);
    const Arguments args(anchored, 0, 7);
    return error_of([&] { entry.run(request, std::move(plan)).run->run(args.data()); });
  }
};

void unchanged(TilePlan&) {}

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("npu planned: random launches give the bits of their kernels") {
  Launches launches;
  CHECK(holds("launches as planned", launches_to_draw(), [&] {
    const auto preset = std::make_shared<const Preset>(random_preset());
    BlockDimOptions options;
    if (pick(0, 2) == 0) options.cap = pick(1, 48);
    Graph graph;
    draw_node(graph, *preset);
    const uint64_t seed = static_cast<uint64_t>(pick(0, 1 << 20));
    const NpuLibrary library(preset);
    const auto supports = [&](const Node& node) { return supports_in_task_list(library, node); };
    const std::unique_ptr<Graph> fused = fuse(*decompose(graph, supports), supports);
    for (const Node& node : fused->nodes()) {
      if (node.has(kSource | kView)) continue;
      const std::string wrong = compare(preset, options, node, seed, &launches);
      if (!wrong.empty())
        RC_FAIL(std::string(preset->name + ": " + wrong + "\n" + print_graph(*fused)));
    }
  }));
  // Of nearly every drawn graph at least one node is carried out as planned; few have rows that are
  // too long for the small buffers that are drawn.
  CHECK(launches.planned > launches_to_draw() / 2);
  CHECK(launches.too_long < launches.planned / 20);
}

TEST_CASE("npu planned: which ops are carried out") {
  struct Case {
    const char* name;
    Value (*make)(Graph&);
  };
  static constexpr auto input = [](Graph& g) { return g.input("x", f32, {20, 6}); };
  static constexpr auto key = [](Graph& g) { return g.input("key", i64, {}); };
  static constexpr auto numbers = [](Graph& g) { return g.input("numbers", i32, {9}); };
  static constexpr auto images = [](Graph& g) { return g.input("images", f32, {2, 6, 6, 3}); };
  static constexpr auto weights = [](Graph& g) { return g.input("weights", f32, {3, 3, 3, 4}); };
  static constexpr auto results = [](Graph& g) { return g.input("dy", f32, {2, 4, 4, 4}); };
  const Case cases[] = {
      {"add", [](Graph& g) { return input(g) + 1.0f; }},
      {"sum", [](Graph& g) { return sum(input(g), {0}); }},
      {"softmax", [](Graph& g) { return softmax(input(g)); }},
      {"softmax in f16",
       [](Graph& g) {
         return softmax(g.input("x", f16, {20, 6}));
       }},
      {"softmax_cross_entropy in f16",
       [](Graph& g) {
         return softmax_cross_entropy(g.input("x", f16, {9, 6}), numbers(g));
       }},
      {"softmax_cross_entropy_grad in bf16",
       [](Graph& g) {
         return softmax_cross_entropy_grad(g.input("x", bf16, {9, 6}), numbers(g),
                                           g.input("dy", bf16, {9}));
       }},
      {"softmax_gradient in f16",
       [](Graph& g) {
         const Value y = g.input("y", f16, {9, 6}), dy = g.input("dy", f16, {9, 6});
         return emit("softmax_gradient", {y, dy}, CallSite::here());
       }},
      {"log_softmax_gradient in bf16",
       [](Graph& g) {
         const Value x = g.input("x", bf16, {9, 6}), dy = g.input("dy", bf16, {9, 6});
         return emit("log_softmax_gradient", {x, dy}, CallSite::here());
       }},
      {"log_softmax in bf16",
       [](Graph& g) {
         return log_softmax(g.input("x", bf16, {20, 6}));
       }},
      {"matmul",
       [](Graph& g) {
         return matmul(input(g), g.input("y", f32, {6, 5}));
       }},
      {"softmax behind a product without rows",
       [](Graph& g) {
         return softmax(matmul(g.input("x", f32, {0, 6}), g.input("y", f32, {6, 5})));
       }},
      {"matmul of integers",
       [](Graph& g) {
         return matmul(g.input("x", i64, {20, 6}), g.input("y", i64, {6, 5}));
       }},
      {"transpose", [](Graph& g) { return transpose(input(g)); }},
      {"slice",
       [](Graph& g) {
         return slice(input(g), {1, 1}, {9, 5});
       }},
      {"pad",
       [](Graph& g) {
         return pad(input(g), {1, 0}, {0, 2});
       }},
      {"concat",
       [](Graph& g) {
         return concat({input(g), g.input("y", f32, {20, 6})});
       }},
      {"broadcast_to",
       [](Graph& g) {
         return broadcast_to(input(g), {3, 20, 6});
       }},
      {"gather", [](Graph& g) { return gather(input(g), numbers(g)); }},
      {"scatter_add",
       [](Graph& g) {
         return scatter_add(input(g), numbers(g), g.input("rows", f32, {9, 6}));
       }},
      {"one_hot", [](Graph& g) { return one_hot(numbers(g), 5); }},
      {"iota",
       [](Graph& g) {
         return iota(g, f32, {7, 9}, 1);
       }},
      {"argmax", [](Graph& g) { return argmax(input(g)); }},
      {"argmax of columns", [](Graph& g) { return argmax(input(g), 0); }},
      {"sort of columns", [](Graph& g) { return sort(input(g), 0).values; }},
      {"top_k of columns", [](Graph& g) { return top_k(input(g), 3, 0).indices; }},
      {"sort", [](Graph& g) { return sort(input(g)).values; }},
      {"top_k", [](Graph& g) { return top_k(input(g), 2).values; }},
      {"max_pool2d",
       [](Graph& g) {
         return max_pool2d(images(g), {.window = {2, 2}});
       }},
      {"max_pool2d_gradient",
       [](Graph& g) {
         return max_pool2d_gradient(images(g), g.input("dy", f32, {2, 3, 3, 3}),
                                    {.window = {2, 2}});
       }},
      {"fold_key", [](Graph& g) { return fold_key(key(g), g.input("data", i64, {})); }},
      {"uniform", [](Graph& g) { return uniform_like(key(g), input(g), 0, 1, f32); }},
      {"normal", [](Graph& g) { return normal_like(key(g), input(g), 0, 1, f32); }},
      {"bernoulli", [](Graph& g) { return bernoulli_like(key(g), input(g), 0.5); }},
      {"conv2d", [](Graph& g) { return conv2d(images(g), weights(g)); }},
      {"conv2d_input_gradient",
       [](Graph& g) { return conv2d_input_gradient(results(g), weights(g)); }},
      {"conv2d_weight_gradient",
       [](Graph& g) {
         return conv2d_weight_gradient(images(g), results(g), {3, 3});
       }},
  };
  const auto preset = std::make_shared<const Preset>(load_preset("ascend910b1"));
  const NpuLibrary library(preset);
  for (const Case& each : cases) {
    CAPTURE(each.name);
    Graph graph;
    graph.set_outputs({each.make(graph)});
    const auto supports = [&](const Node& node) { return supports_in_task_list(library, node); };
    const std::unique_ptr<Graph> fused = fuse(*decompose(graph, supports), supports);
    Launches launches;
    for (const Node& node : fused->nodes()) {
      if (!node.has(kSource | kView)) CHECK(compare(preset, {}, node, 3, &launches).empty());
    }
    CHECK(launches.planned == 1);
    CHECK(launches.too_long == 0);
  }
}

TEST_CASE("npu planned: reductions that are siblings are carried out together") {
  struct Case {
    Shape shape;
    std::vector<int64_t> axes;
  };
  const Case cases[] = {{{1, 1}, {0}},
                        {{100, 10}, {0}},
                        {{100, 10}, {1}},
                        {{64, 513}, {1}},
                        {{3, 40000}, {1}},
                        {{400000}, {0}},
                        {{5000, 3}, {0}},
                        {{20, 28, 28, 16}, {0, 1, 2}},
                        {{4, 300, 5, 60}, {1, 3}},
                        {{2, 9001}, {0}}};
  const auto preset = std::make_shared<const Preset>(load_preset("ascend910b1"));
  const NpuLibrary library(preset);
  Launches launches;
  int joined = 0, merged = 0;
  for (const Case& each : cases) {
    for (const DType dtype : {f32, f16, bf16, i32}) {
      CAPTURE(to_string(each.shape));
      CAPTURE(std::string(name_of(dtype)));
      Graph graph;
      const Value x = graph.input("x", dtype, each.shape);
      const Value y = graph.input("y", dtype, each.shape);
      graph.set_outputs({sum(x, each.axes), sum(x * y, each.axes), sum(square(x - y), each.axes)});
      const auto supports = [&](const Node& node) { return library.supports(node); };
      const std::unique_ptr<Graph> fused = fuse(graph, supports);
      for (const Node& node : fused->nodes()) {
        if (node.has(kSource | kView) || AnchoredNode(node).reductions() == 1) continue;
        ++joined;
        merged += schedule(*preset, AnchoredNode(node), {}).split.merges ? 1 : 0;
        CHECK(compare(preset, {}, node, 3, &launches).empty());
        CHECK(compare(preset, {.cap = 1}, node, 4, &launches).empty());
      }
    }
  }
  CHECK(joined > 20);
  CHECK(merged > 0);
  CHECK(launches.planned == 2 * joined);
}

TEST_CASE("npu planned: a tile that is too large for its buffer is found") {
  Planned add;
  const Value x = add.graph.input("x", f32, {100000});
  add.graph.set_outputs({x + add.graph.input("y", f32, {100000})});
  add.schedule_output();
  CHECK(add.error_with(unchanged).empty());
  add.launch.split.work.tile_elements *= 20;
  const std::string text = add.error_with(unchanged);
  CHECK(contains(text, "add"));
  CHECK(contains(text, "unified buffer"));
  CHECK(contains(text, "core 0, tile 0"));
  CHECK(contains(text, "does not fit"));

  Planned product;
  product.graph.set_outputs({matmul(product.graph.input("a", f16, {512, 512}),
                                    product.graph.input("b", f16, {512, 512}))});
  product.schedule_output();
  CHECK(product.error_with(unchanged).empty());
  const CubeTiling planned = product.launch.tiling;
  const auto error_of_tiling = [&](const CubeTiling& tiling) {
    product.launch.tiling = tiling;
    return product.error_with(unchanged);
  };
  const auto with = [&](int64_t bm, int64_t bn, int64_t bk, int64_t step_k) {
    CubeTiling t = planned;
    t.bm = bm, t.bn = bn, t.bk = bk, t.step_k = step_k;
    return t;
  };
  CHECK(contains(error_of_tiling(with(256, 256, 16, 1)), "L0C: core 0, tile 0: the planned tile"));
  CHECK(contains(error_of_tiling(with(256, 16, 256, 1)), "L0A: core 0, tile 0: the planned tile"));
  CHECK(contains(error_of_tiling(with(16, 256, 256, 1)), "L0B: core 0, tile 0: the planned tile"));
  CHECK(contains(error_of_tiling(with(128, 128, 128, 16)), "L1: core 0, tile 0: the planned tile"));
}

TEST_CASE("npu planned: rows of 16 bits count the f32 rows that they are computed in") {
  const auto preset = std::make_shared<const Preset>(load_preset("ascend910b1"));
  // An element takes 8 bytes of one buffer each: operand and result in f32, or in 16 bits with an
  // f32 between them.
  const int64_t fit = preset->ub_bytes / 8;
  for (const DType dtype : {f32, f16, bf16}) {
    for (const bool too_long : {false, true}) {
      for (Value (*const make)(Operand, int64_t, CallSite) : {softmax, log_softmax}) {
        CAPTURE(name_of(dtype));
        CAPTURE(too_long);
        Graph graph;
        const Value x = graph.input("x", dtype, {3, too_long ? fit + 1 : fit});
        const Node& node = make(x, -1, {}).node();
        Launches launches;
        CHECK(compare(preset, {}, node, 3, &launches).empty());
        CHECK(launches.planned == (too_long ? 0 : 1));
        CHECK(launches.too_long == (too_long ? 1 : 0));
        const int64_t bytes = 3 * x.shape()[1] * static_cast<int64_t>(size_of(dtype));
        const Launch launch = schedule(*preset, node);
        CHECK(launch.split.work.bytes_in == (too_long ? 2 * bytes : bytes));
        CHECK(launch.price.bytes_in == bytes);  // each once
      }
    }
  }
  // Operand and result of these rows fit in one buffer each, but not beside them in f32.
  Planned rows;
  rows.graph.set_outputs({softmax(rows.graph.input("x", f16, {500, 64}))});
  rows.schedule_output();
  CHECK(rows.error_with(unchanged).empty());
  const std::string text =
      rows.error_with([](TilePlan& plan) { plan.cores = {{{.row = 0, .rows = 500}}}; });
  CHECK(contains(text, "unified buffer"));
  CHECK(contains(text, "core 0, tile 0"));
  CHECK(contains(text, "does not fit"));
}

TEST_CASE("npu planned: tiles that overlap or leave a gap are found") {
  Planned add;
  const Value x = add.graph.input("x", f32, {100000});
  add.graph.set_outputs({x + add.graph.input("y", f32, {100000})});
  BlockDimOptions options;
  options.cap = 4;
  add.schedule_output(options);
  REQUIRE(add.launch.price.block_dim == 4);
  const std::string overlap = add.error_with([](TilePlan& plan) { plan.cores[2][0].row -= 5; });
  CHECK(contains(overlap, "add: output 0: core 2, tile 0: tiles of the plan overlap"));
  CHECK(contains(overlap, "is written by core 1, tile"));
  const std::string gap = add.error_with([](TilePlan& plan) { plan.cores[1].pop_back(); });
  CHECK(contains(gap, "add: output 0"));
  CHECK(contains(gap, "a gap between the tiles of the plan"));
  CHECK(contains(gap, "behind what core"));

  Planned moved;
  moved.graph.set_outputs({transpose(moved.graph.input("x", f32, {300, 400}))});
  moved.schedule_output();
  CHECK(moved.error_with(unchanged).empty());
  CHECK(contains(moved.error_with([](TilePlan& plan) { plan.cores[1][0].row -= 3; }), "overlap"));
  CHECK(contains(moved.error_with([](TilePlan& plan) { plan.cores[1].pop_back(); }), "a gap"));

  Planned product;
  product.graph.set_outputs(
      {matmul(product.graph.input("a", f32, {300, 40}), product.graph.input("b", f32, {40, 200}))});
  product.schedule_output();
  CHECK(product.error_with(unchanged).empty());
  CHECK(contains(product.error_with([](TilePlan& plan) {
    plan.cores.back().push_back(plan.cores.front().front());
  }),
                 "overlap"));
  CHECK(contains(product.error_with([](TilePlan& plan) { plan.cores.pop_back(); }), "a gap"));
}

TEST_CASE("npu planned: wrong plans of integer products and of added rows are found") {
  Planned product;
  product.graph.set_outputs(
      {matmul(product.graph.input("a", i32, {300, 40}), product.graph.input("b", i32, {40, 200}))});
  product.schedule_output();
  CHECK(product.error_with(unchanged).empty());
  CHECK(contains(product.error_with([](TilePlan& plan) { plan.cores[1][0].column += 3; }),
                 "tiles of the plan overlap"));
  CHECK(
      contains(product.error_with([](TilePlan& plan) { plan.cores.back().pop_back(); }), "a gap"));
  CHECK(contains(product.error_with([](TilePlan& plan) { plan.cores[0][0].rows = 300000; }),
                 "does not fit"));

  Planned added;
  added.graph.set_outputs(
      {scatter_add(added.graph.input("x", f32, {20, 70000}), added.graph.input("rows", i32, {9}),
                   added.graph.input("updates", f32, {9, 70000}))});
  BlockDimOptions options;
  options.cap = 2;
  added.schedule_output(options);
  REQUIRE(added.launch.price.block_dim == 2);
  CHECK(added.error_with(unchanged).empty());
  CHECK(contains(added.error_with([](TilePlan& plan) { plan.cores[0].pop_back(); }),
                 "a gap between the tiles of the plan: none writes element"));
  CHECK(contains(added.error_with([](TilePlan& plan) { plan.cores[0][1].row -= 1; }), "overlap"));
  CHECK(contains(added.error_with([](TilePlan& plan) { plan.cores[0][0].rows = 70000; }),
                 "does not fit"));
}

TEST_CASE("npu planned: copies within the device go by their plan") {
  const auto preset = std::make_shared<const Preset>(load_preset("ascend910b1"));
  NpuLibrary library(preset, {}, true);
  const size_t bytes = 3000001;
  const KernelPlan plan = library.plan_copy(bytes);
  CHECK(plan.block_dim > 1);
  const PlannedRuns runs = library.take_planned_runs();
  REQUIRE(runs.contains(plan.kernel.get()));
  const auto from = allocate_host_buffer(bytes), to = allocate_host_buffer(bytes);
  const std::span source(static_cast<uint8_t*>(from->address()), bytes);
  for (size_t i = 0; i < bytes; ++i) source[i] = static_cast<uint8_t>(i * 7 + i / 251);
  void* const args[] = {from->address(), to->address()};
  runs.at(plan.kernel.get())->run(args);
  CHECK(std::memcmp(from->address(), to->address(), bytes) == 0);
}

TEST_CASE("npu planned: what is not carried out says why") {
  const auto preset = std::make_shared<const Preset>(load_preset("ascend910b1"));
  NpuLibrary library(preset, {}, true);
  Graph g;
  const Value long_rows = softmax(g.input("x", f32, {2, 60000}));
  g.set_outputs({long_rows});
  CHECK(contains(library.plan(long_rows.node(), {}).reason,
                 std::string(kNotAsPlanned) +
                     "a row of 480000 bytes is longer than the unified buffer of ascend910b1"));
}

TEST_CASE("npu planned: a missed merge is found") {
  Planned total;
  total.graph.set_outputs({sum(total.graph.input("x", f32, {400000}))});
  total.schedule_output();
  REQUIRE(total.launch.price.block_dim > 1);
  REQUIRE(total.launch.split.merges);
  CHECK(total.error_with(unchanged).empty());
  const std::string missed =
      total.error_with([](TilePlan& plan) { plan.merges.erase(plan.merges.begin() + 3); });
  CHECK(contains(missed, "sum: output 0"));
  CHECK(contains(missed, "a missed merge: the partial result 0 of chunk 3, which core "));
  CHECK(contains(missed, "is never added"));
  CHECK(
      contains(total.error_with([](TilePlan& plan) { plan.merges.push_back(plan.merges.back()); }),
               "overlap"));
  // A chunk that no core reduces leaves nothing to merge.
  CHECK(contains(total.error_with([](TilePlan& plan) { plan.cores[1].clear(); }),
                 "partial results of chunk"));
}

TEST_SUITE_END();
