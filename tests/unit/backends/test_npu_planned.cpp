// Launches carried out as planned, core by core and tile by tile: the bits are those of the kernels
// for random ops, shapes, presets and numbers of blocks, and a plan that is wrong is an error that
// says where.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "keel/backends/common/kernel.h"
#include "keel/backends/npu/kernels/kernel_row.h"
#include "keel/backends/npu/npu_library.h"
#include "keel/backends/npu/scheduler/tile_plan.h"
#include "keel/core/tensor/buffer.h"
#include "keel/graph/ir/text.h"
#include "keel/graph/passes/passes.h"
#include "keel/ops/ops.h"

#include "npu_model_for_tests.h"

using namespace keel;
using namespace keel::npu;
using namespace npu_model_test;

namespace {

int64_t pick(int64_t low, int64_t high) { return *rc::gen::inRange<int64_t>(low, high + 1); }
bool coin() { return pick(0, 1) == 1; }

int launches_to_draw() {
  const char* scale = std::getenv("KEEL_TEST_SCALE");
  return scale != nullptr && std::string(scale) == "long" ? 10000 : 250;
}

// A kernel's arguments in memory of their own; the same contents for the same seed.
class Arguments {
 public:
  Arguments(const AnchoredNode& anchored, size_t workspace_bytes, uint64_t seed) : seed_(seed) {
    const Node& node = anchored.node();
    for (size_t i = 0; i < node.inputs().size(); ++i) {
      const Type type = node.input(i).type();
      add(type.shape.num_bytes(type.dtype));
      const bool rows = anchored.is_product() && anchored.rows_of(0) == i;
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

// Returns what is wrong with a node's launch as planned; empty: nothing. Counts the launches.
std::string compare(const std::shared_ptr<const Preset>& preset, const BlockDimOptions& options,
                    const Node& node, uint64_t seed, int* launches) {
  const AnchoredNode anchored(node);
  const NpuLibrary kinds(preset);
  if (!kinds.supports(node).supported) return "";
  NpuLibrary library(preset, options, true);
  const KernelPlan plan = library.plan(node, {});
  const PlannedRuns runs = library.take_planned_runs();
  const auto it = runs.find(plan.kernel.get());
  if (it == runs.end()) return "";
  ++*launches;
  Arguments kernel(anchored, plan.workspace_bytes, seed),
      planned(anchored, plan.workspace_bytes, seed);
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

// ---- random nodes

DType random_dtype(const Preset& preset) {
  const int64_t n = pick(0, preset.bf16 ? 4 : 3);
  constexpr DType kDrawn[] = {f32, f32, f16, i32, bf16};
  return kDrawn[n];
}

Preset random_preset() {
  Preset preset = load_preset(*rc::gen::elementOf(preset_names()));
  // Smaller buffers than any device's, so that small launches have many tiles.
  if (coin()) preset.ub_bytes = pick(16, 64) * 1024;
  if (coin()) preset.l0c_bytes = pick(4, 64) * 1024;
  if (coin()) preset.l0a_bytes = preset.l0b_bytes = pick(8, 32) * 1024;
  // The deepest step of L0 has to fit.
  if (coin()) preset.l1_bytes = preset.l0a_bytes + preset.l0b_bytes + pick(0, 64) * 1024;
  if (coin()) preset.task_per_block_ns = pick(1, 20);
  return preset;
}

Value random_elementwise(const Value& x, const Value& y) {
  switch (pick(0, 7)) {
    case 0:
      return x * y;
    case 1:
      return x - y;
    case 2:
      return maximum(x, y);
    case 3:
      return select(less(x, y), x, y);
    case 4:
      return square(x) + y;
    case 5:
      return is_float(x.dtype()) ? exp(x) : neg(x);
    case 6:
      return relu(x);
    default:
      return x + y;
  }
}

// Another input that broadcasts to the shape.
Value random_partner(Graph& g, const Shape& shape, DType dtype, const std::string& name) {
  Shape own;
  for (const int64_t dim : shape.dims()) own.push_back(pick(0, 3) == 0 ? 1 : dim);
  if (own.rank() > 0 && pick(0, 4) == 0) own = Shape{own.back()};
  if (pick(0, 5) == 0) own = Shape{};
  return g.input(name, dtype, own);
}

Shape random_shape(int64_t most_elements) {
  Shape shape;
  int64_t left = most_elements;
  const int64_t rank = pick(0, 3);
  for (int64_t i = 0; i < rank && left > 0; ++i) {
    if (pick(0, 40) == 0) left = 0;
    const int64_t dim = left == 0           ? 0
                        : pick(1, 12) == 12 ? pick(1, left)
                                            : pick(1, std::min<int64_t>(left, 40));
    shape.push_back(dim);
    if (dim > 0) left /= dim;
  }
  return shape;
}

void draw_elementwise(Graph& g, const Preset& preset) {
  const DType dtype = random_dtype(preset);
  const Shape shape = random_shape(60000);
  const Value first = g.input("x", dtype, shape);
  Value x = first, other = first;
  const int64_t steps = pick(1, 6);
  for (int64_t i = 0; i < steps; ++i) {
    const Value y = coin() ? random_partner(g, shape, dtype, "y" + std::to_string(i)) : other;
    other = x;
    x = random_elementwise(x, y);
  }
  Values outputs = {pick(0, 3) == 0 ? cast(x, coin() ? f32 : f16) : x};
  if (coin() && other != first) outputs.push_back(other);
  g.set_outputs(outputs);
}

void draw_reduction(Graph& g, const Preset& preset) {
  const DType dtype = random_dtype(preset);
  const Shape shape = pick(0, 2) == 0 ? random_shape(200000) : random_shape(20000);
  std::vector<int64_t> axes;
  for (size_t i = 0; i < shape.rank(); ++i) {
    if (coin()) axes.push_back(static_cast<int64_t>(i));
  }
  Value x = g.input("x", dtype, shape);
  if (coin()) x = random_elementwise(x, random_partner(g, shape, dtype, "y"));
  // Nothing has no extremes.
  const int64_t op = shape.num_elements() == 0 ? 5 : pick(0, 5);
  Value r = op == 0   ? max(x, axes)
            : op == 1 ? min(x, axes)
            : op == 2 ? prod(x, axes)
                      : sum(x, axes);
  if (coin()) r = r * random_partner(g, r.shape(), dtype, "scale") + r;
  g.set_outputs({r});
}

void draw_product(Graph& g, const Preset& preset) {
  constexpr DType kDrawn[] = {f32, f16, bf16};
  const DType dtype = kDrawn[pick(0, preset.bf16 ? 2 : 1)];
  const auto extent = [] { return pick(0, 3) == 0 ? pick(1, 200) : pick(1, 40); };
  const int64_t m = extent(), n = extent(), k = pick(0, 9) == 0 ? pick(1000, 1200) : extent();
  const bool left = coin(), right = coin();
  Shape a = left ? Shape{k, m} : Shape{m, k}, b = right ? Shape{n, k} : Shape{k, n};
  const int64_t form = pick(0, 4);
  if (form == 0) a = left ? Shape{3, k, m} : Shape{3, m, k};
  Value x, y = g.input("b", dtype, b);
  if (form == 1) {
    x = cast(g.input("a", u8, a), f32) / 255.0f;
    y = g.input("w", f32, b);
    if (preset.bf16 && coin()) {
      x = cast(x, bf16);
      y = cast(y, bf16);
    }
  } else if (form == 2 && preset.bf16) {
    x = cast(g.input("a", f32, a), bf16);
    y = cast(g.input("w", f32, b), bf16);
  } else if (form == 3) {
    x = gather(g.input("table", dtype, {50, a[1]}), g.input("rows", i32, {a[0]}), 0);
  } else {
    x = g.input("a", dtype, a);
  }
  Value c = matmul(x, y, {.transpose_a = left, .transpose_b = right});
  if (coin()) c = relu(c + g.input("bias", c.dtype(), {n}));
  if (c.dtype() == f32 && c.shape().rank() == 2 && n >= 4 && coin()) {
    const Value labels = g.input("labels", i32, {c.shape()[0]});
    g.set_outputs({coin() ? softmax(c) : softmax_cross_entropy(c, labels)});
    return;
  }
  if (coin()) c = c * random_partner(g, c.shape(), c.dtype(), "scale");
  g.set_outputs({c});
}

void draw_rows(Graph& g) {
  const Shape shape{pick(1, 300), pick(1, 5) == 5 ? pick(1, 3000) : pick(1, 40)};
  const Value x = g.input("x", f32, shape);
  if (coin()) {
    g.set_outputs({coin() ? softmax(x) : log_softmax(x)});
    return;
  }
  // Labels are below 4.
  const Value wide = g.input("wide", f32, {shape[0], shape[1] + 3});
  const Value labels = g.input("labels", i32, {shape[0]});
  g.set_outputs({softmax_cross_entropy(wide, labels)});
}

// Returns a random slice, some axes of it backwards.
Value random_part(const Value& x) {
  std::vector<int64_t> begin, end, strides;
  for (const int64_t dim : x.shape().dims()) {
    const int64_t first = pick(0, dim / 2), last = pick(std::min(dim, first + 1), dim);
    const bool backwards = dim > 0 && coin();
    begin.push_back(backwards ? last - 1 : first);
    end.push_back(!backwards ? last : first == 0 ? kToStart : first - 1);
    strides.push_back(pick(1, 3) * (backwards ? -1 : 1));
  }
  return slice(x, begin, end, strides);
}

Value random_padding(const Value& x) {
  std::vector<int64_t> low, high, interior;
  for (size_t i = 0; i < x.shape().rank(); ++i) {
    low.push_back(pick(0, 3));
    high.push_back(pick(0, 3));
    interior.push_back(pick(0, 4) == 0 ? pick(1, 2) : 0);
  }
  return pad_interior(x, low, high, interior, 2);
}

Value random_order(const Value& x) {
  std::vector<int64_t> perm(x.shape().rank());
  for (size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<int64_t>(i);
  for (size_t i = perm.size(); i > 1; --i)
    std::swap(perm[i - 1], perm[static_cast<size_t>(pick(0, static_cast<int64_t>(i) - 1))]);
  return transpose(x, perm);
}

void draw_movement(Graph& g, const Preset& preset) {
  const DType dtype = random_dtype(preset);
  Shape shape = random_shape(30000);
  shape.push_back(pick(1, 60));
  const Value x = g.input("x", dtype, shape);
  switch (pick(0, 4)) {
    case 0:
      return g.set_outputs({random_order(x)});
    case 1:
      return g.set_outputs({random_part(x)});
    case 2:
      return g.set_outputs({random_padding(x)});
    case 3:
      return g.set_outputs({concat({x, g.input("y", dtype, shape), x}, pick(0, 1) == 0 ? 0 : -1)});
    default: {
      Shape narrow, wide{pick(1, 5)};
      for (const int64_t dim : shape.dims()) {
        narrow.push_back(dim == 0 || coin() ? dim : 1);
        wide.push_back(dim);
      }
      return g.set_outputs({broadcast_to(g.input("narrow", dtype, narrow), wide)});
    }
  }
}

// Indices are below 4.
void draw_indexed(Graph& g, const Preset& preset) {
  const DType dtype = random_dtype(preset);
  const Value numbers = g.input("numbers", coin() ? i32 : i64, {pick(0, 300)});
  switch (pick(0, 3)) {
    case 0:
      return g.set_outputs({one_hot(numbers, pick(4, 200), dtype)});
    case 1:
      return g.set_outputs({iota(g, dtype, {pick(1, 40), pick(1, 300)}, pick(0, 1))});
    case 2:
      return g.set_outputs(
          {gather(g.input("x", dtype, {pick(1, 9), pick(4, 30), pick(1, 20)}), numbers, 1)});
    default:
      return g.set_outputs({gather(g.input("x", dtype, {pick(4, 50), pick(1, 70)}), numbers)});
  }
}

void draw_ordered(Graph& g, const Preset& preset) {
  const Shape shape{pick(1, 60), pick(1, 3) == 3 ? pick(1, 3000) : pick(1, 60)};
  const Value x = g.input("x", random_dtype(preset), shape);
  switch (pick(0, 3)) {
    case 0:
      return g.set_outputs({sort(x, pick(0, 1), coin()).values});
    case 1:
      return g.set_outputs({top_k(x, pick(1, shape[1])).indices});
    default:
      return g.set_outputs({argmax(x, pick(0, 1))});
  }
}

void draw_random_numbers(Graph& g, const Preset& preset) {
  const Shape shape = random_shape(30000);
  const Value key = g.input("key", i64, {}), like = g.input("like", f32, shape);
  const DType dtype = preset.bf16 && coin() ? bf16 : coin() ? f16 : f32;
  switch (pick(0, 3)) {
    case 0:
      return g.set_outputs({uniform_like(key, like, -1, 70000, dtype)});
    case 1:
      return g.set_outputs({normal_like(key, like, 0, coin() ? 1 : 60000, dtype)});
    case 2:
      return g.set_outputs({bernoulli_like(fold_key(key, g.input("data", i64, {})), like, 0.3)});
    default:
      return g.set_outputs({fold_key(key, g.input("data", i64, {}))});
  }
}

Conv2dAttributes random_windows(int64_t groups) {
  Conv2dAttributes options;
  options.stride = {pick(1, 3), pick(1, 3)};
  options.dilation = {pick(1, 2), pick(1, 2)};
  options.groups = groups;
  constexpr const char* kPaddings[] = {"valid", "same", "explicit"};
  options.padding = kPaddings[pick(0, 2)];
  if (options.padding == "explicit")
    options.pads = {pick(0, 2), pick(0, 3), pick(0, 1), pick(0, 2)};
  options.layout = coin() ? "NHWC" : "NCHW";
  return options;
}

void draw_convolution(Graph& g, const Preset& preset) {
  constexpr DType kDrawn[] = {f32, f16, bf16};
  const DType dtype = kDrawn[pick(0, preset.bf16 ? 2 : 1)];
  const int64_t groups = pick(0, 3) == 0 ? 2 : 1, channels = groups * pick(1, 8);
  const int64_t filters = groups * pick(1, 20), height = pick(6, 14), width = pick(6, 14);
  Conv2dAttributes options = random_windows(groups);
  const bool last = options.layout == "NHWC";
  const Shape images = last ? Shape{pick(1, 4), height, width, channels}
                            : Shape{pick(1, 4), channels, height, width};
  const int64_t down = pick(1, 3), across = pick(1, 3);
  const Shape kernel = last ? Shape{down, across, channels / groups, filters}
                            : Shape{filters, channels / groups, down, across};
  const bool bytes = dtype != f16 && pick(0, 3) == 0, rounds = dtype == bf16 && coin();
  Value x = bytes ? cast(g.input("bytes", u8, images), f32) / 255.0f
                  : g.input("x", rounds ? f32 : dtype, images);
  if (x.dtype() != dtype) x = cast(x, dtype);
  options.wide = dtype != f32 && coin();
  const Value weights = g.input("weights", dtype, kernel);
  const Value y = conv2d(x, weights, options);
  const Value dy = g.input("dy", dtype, y.shape());
  switch (pick(0, 4)) {
    case 4:
      return g.set_outputs({y + random_partner(g, y.shape(), y.dtype(), "bias")});
    case 0:
      return g.set_outputs({conv2d_weight_gradient(x, dy, {down, across}, options)});
    case 1:
      return g.set_outputs({conv2d_input_gradient(dy, weights, options, {height, width})});
    case 2:
      return g.set_outputs({relu(y + cast(dy, y.dtype()))});
    default:
      return g.set_outputs({y});
  }
}

void draw_node(Graph& g, const Preset& preset) {
  switch (pick(0, 13)) {
    case 0:
    case 1:
      return draw_elementwise(g, preset);
    case 2:
    case 3:
      return draw_reduction(g, preset);
    case 4:
      return draw_rows(g);
    case 5:
    case 6:
      return draw_movement(g, preset);
    case 7:
      return draw_indexed(g, preset);
    case 8:
      return draw_ordered(g, preset);
    case 9:
      return draw_random_numbers(g, preset);
    case 10:
    case 11:
      return draw_convolution(g, preset);
    default:
      return draw_product(g, preset);
  }
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
    const PlannedRow& row = *find_row(anchored)->planned;
    TilePlan plan = row.tiles(request);
    change(plan);
    const Arguments args(anchored, 0, 7);
    return error_of([&] { row.run(request, std::move(plan))->run(args.data()); });
  }
};

void unchanged(TilePlan&) {}

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("npu planned: random launches give the bits of their kernels") {
  int launches = 0;
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
  // Of nearly every drawn graph at least one node is carried out as planned.
  CHECK(launches > launches_to_draw() / 2);
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
      {"matmul",
       [](Graph& g) {
         return matmul(input(g), g.input("y", f32, {6, 5}));
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
      {"one_hot", [](Graph& g) { return one_hot(numbers(g), 5); }},
      {"iota",
       [](Graph& g) {
         return iota(g, f32, {7, 9}, 1);
       }},
      {"argmax", [](Graph& g) { return argmax(input(g)); }},
      {"sort", [](Graph& g) { return sort(input(g)).values; }},
      {"top_k", [](Graph& g) { return top_k(input(g), 2).values; }},
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
    int launches = 0;
    for (const Node& node : fused->nodes()) {
      if (!node.has(kSource | kView)) CHECK(compare(preset, {}, node, 3, &launches).empty());
    }
    CHECK(launches == 1);
  }
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
