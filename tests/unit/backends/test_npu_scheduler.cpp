#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "keel/backends/common/vector/instructions.h"
#include "keel/backends/npu/device/float_status.h"
#include "keel/backends/npu/npu_program.h"
#include "keel/backends/npu/options.h"
#include "keel/backends/registry.h"
#include "keel/graph/ir/sample.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"

#include "npu_model_for_tests.h"
#include "support/fusing.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::npu;
using namespace npu_model_test;

Launch schedule_sum(const std::string& preset, DType dtype, const Shape& shape,
                    const std::vector<int64_t>& axes = {}, const BlockDimOptions& options = {}) {
  Graph graph;
  graph.set_outputs({sum(graph.input("x", dtype, shape), axes)});
  return schedule(load_preset(preset), node_of(graph, "sum"), options);
}

Launch schedule_product(const std::string& preset, DType dtype, int64_t m, int64_t k, int64_t n,
                        const BlockDimOptions& options = {}) {
  Graph graph;
  const Value a = graph.input("a", dtype, {m, k});
  graph.set_outputs({matmul(a, graph.input("b", dtype, {k, n}))});
  return schedule(load_preset(preset), node_of(graph, "matmul"), options);
}

// How much of the larger of cube and vector the copies into the core are busy.
double memory_bound(const TaskPrice& price) {
  return static_cast<double>(price.busy(Unit::kMte2)) /
         static_cast<double>(std::max(price.busy(Unit::kCube), price.busy(Unit::kVector)));
}

const Shape kPublishedSum{1, 256, 256, 3};
const Shape kLargeSum{2048, 2048};  // more chunks of the numeric plan than cores

}  // namespace

TEST_CASE("npu scheduler: packed copies save bytes where they are read and cost where written") {
  Graph graph;
  const Value x = graph.input("x", f32, {128, 512}), w = graph.input("w", f32, {512, 512});
  graph.set_outputs({relu(matmul(cast(x, bf16), cast(w, bf16), {.wide = true}))});
  const auto fused = fuse(graph, keel_test::everything);
  const Preset preset = load_preset("ascend910b1");
  const Node& node = keel_test::only_anchored(*fused, kProduct);
  const Launch plain = schedule(preset, node), reads = schedule(preset, node, {}, {.right = 2});
  CHECK(plain.price.bytes_in - reads.price.bytes_in == 512 * 512 * 2);
  CHECK(reads.price.total_ns <= plain.price.total_ns);
  const Launch keeps = schedule(preset, node, {}, {.copies = 4, .roundings = 2});
  const int64_t elements = node.type().shape.num_elements();
  CHECK(keeps.price.bytes_out - plain.price.bytes_out == 4 * elements);
  CHECK(keeps.price.total_ns > plain.price.total_ns);
  LaunchCache cache;
  CHECK(cache.launch(preset, node, {})->price.bytes_in == plain.price.bytes_in);
  CHECK(cache.launch(preset, node, {}, {.right = 2})->price.bytes_in == reads.price.bytes_in);
  CHECK(cache.scheduled() == 2);
}

TEST_CASE("npu scheduler: an fp16 sum without kept axes runs on one core of the 910 only") {
  const Launch half = schedule_sum("ascend910", f16, kPublishedSum);
  CHECK(half.price.block_dim == 1);
  CHECK(half.limit == Limit::kAtomicAdd);
  CHECK(contains(half.reason, "no atomic add for f16"));
  CHECK(contains(half.fix, "cast to f32 first"));
  CHECK(half.gain_ns > 0);
  CHECK(half.gain_ns < half.price.total_ns);

  const Launch full = schedule_sum("ascend910", f32, kPublishedSum);
  CHECK(full.price.block_dim > 1);
  CHECK(full.price.total_ns < half.price.total_ns);
  CHECK(schedule_sum("ascend910b1", f16, kPublishedSum).price.block_dim > 1);
  CHECK(schedule_sum("ascend910b1", f32, kPublishedSum).price.block_dim > 1);
  // With a kept axis to split, the 910 uses more cores in fp16 as well.
  CHECK(schedule_sum("ascend910", f16, {4096, 4096}, {1}).price.block_dim > 1);
}

TEST_CASE("npu scheduler: cores share a sum by the chunks that its bits are made of") {
  BlockDimOptions options;
  options.force["sum"] = 48;
  const Launch launch = schedule_sum("ascend910b1", f32, kPublishedSum, {}, options);
  CHECK(launch.split.merges);
  CHECK(launch.price.block_dim == 196608 / 32768);
  CHECK(contains(schedule_sum("ascend910b1", f32, {40000}).reason, "2 chunks"));
  // There the 910 cannot merge.
  CHECK(!schedule_sum("ascend910", f16, kPublishedSum, {}, options).split.merges);
  CHECK(schedule_sum("ascend910b1", f32, {30000}, {}, options).price.block_dim == 1);
}

TEST_CASE("npu scheduler: the number of blocks follows the square root of the work") {
  const Preset preset = load_preset("ascend910b1");
  CHECK(best_blocks(preset, 12000, preset.vector_cores) == doctest::Approx(10));
  for (const int64_t elements : {20000, 60000, 200000}) {
    Graph graph;
    const Value x = graph.input("x", f32, {elements});
    graph.set_outputs({x + x});
    const Node& node = node_of(graph, "add");
    const Launch launch = schedule(preset, node);
    BlockDimOptions one;
    one.cap = 1;
    const double single = static_cast<double>(schedule(preset, node, one).price.pipeline_ns);
    const double wanted = std::sqrt(single / 120.0);
    CAPTURE(elements);
    CHECK(launch.limit == Limit::kBytes);
    CHECK(static_cast<double>(launch.price.block_dim) == doctest::Approx(wanted).epsilon(0.25));
  }
}

TEST_CASE("npu scheduler: a large product is bound by the cube and an add by the memory") {
  for (const char* preset : {"ascend910", "ascend910b1"}) {
    CAPTURE(preset);
    const Launch product = schedule_product(preset, f32, 4096, 4096, 4096);
    CHECK(memory_bound(product.price) < 1);
    CHECK(product.price.block_dim == load_preset(preset).cube_cores);
    Graph graph;
    const Value x = graph.input("x", f32, {4096, 4096});
    graph.set_outputs({x + graph.input("y", f32, {4096, 4096})});
    CHECK(memory_bound(schedule(load_preset(preset), node_of(graph, "add")).price) > 1);
    CHECK(memory_bound(schedule_product(preset, f32, 128, 784, 512).price) > 1);
  }
  CHECK(memory_bound(schedule_product("ascend910", f16, 4096, 4096, 4096).price) < 1);
}

TEST_CASE("npu scheduler: f32 products on a cube without f32 say that they are emulated") {
  CHECK(contains(schedule_product("ascend910", f32, 256, 256, 256).variant, "three f16 passes"));
  CHECK(schedule_product("ascend910b1", f32, 256, 256, 256).variant.empty());
  CHECK(schedule_product("ascend910", f16, 256, 256, 256).variant.empty());
}

TEST_CASE("npu scheduler: what limits a launch") {
  const Preset preset = load_preset("ascend910b1");
  Graph graph;
  const Value x = graph.input("x", f32, {4, 100000});
  const Value ids = graph.input("ids", i32, {4});
  graph.set_outputs({softmax(x), max(x), scatter_add(x, ids, x)});
  const Launch rows = schedule(preset, node_of(graph, "softmax"));
  CHECK(rows.limit == Limit::kRows);
  CHECK(rows.price.block_dim == 4);
  CHECK(contains(rows.reason, "4 rows"));
  const Launch reduction = schedule(preset, node_of(graph, "max"));
  CHECK(reduction.limit == Limit::kReduction);
  CHECK(reduction.price.block_dim == 1);
  CHECK(schedule(preset, node_of(graph, "scatter_add")).price.block_dim > 20);
  Graph narrow;
  const Value many = narrow.input("ids", i32, {50000});
  narrow.set_outputs({scatter_add(narrow.input("x", f32, {4, 64}), many,
                                  narrow.input("updates", f32, {50000, 64}))});
  const Launch added = schedule(preset, node_of(narrow, "scatter_add"));
  CHECK(added.limit == Limit::kDependency);
  CHECK(added.price.block_dim == 1);
  CHECK(contains(added.reason, "1 unit of 64 columns"));
  CHECK(schedule_product("ascend910b1", f32, 16, 8192, 16).limit == Limit::kReduction);
}

TEST_CASE("npu scheduler: a user caps or forces the number of blocks") {
  BlockDimOptions options;
  options.cap = 3;
  const Launch capped = schedule_sum("ascend910b1", f32, kLargeSum, {}, options);
  CHECK(capped.price.block_dim == 3);
  CHECK(capped.limit == Limit::kUserCap);
  CHECK(capped.gain_ns > 0);
  options.force["sum"] = 20;
  CHECK(schedule_sum("ascend910b1", f32, kLargeSum, {}, options).price.block_dim == 20);
  options.force["sum"] = 1000;
  CHECK(schedule_sum("ascend910b1", f32, kLargeSum, {}, options).price.block_dim == 48);
  // The 910 still cannot merge fp16 sums, whatever is asked for.
  CHECK(schedule_sum("ascend910", f16, kLargeSum, {}, options).price.block_dim == 1);
  options.force["matmul"] = 5;
  CHECK(schedule_product("ascend910b1", f32, 512, 512, 512, options).price.block_dim == 5);

  CHECK_THROWS(NpuOptions(nullptr, {.cap = 0}));
  CHECK_THROWS(NpuOptions(nullptr, {.cap = {}, .force = {{"sum", -1}}}));
  CHECK(NpuOptions(nullptr, options).block_dim().force.at("matmul") == 5);
  const auto error_of_force = [](const char* op) {
    return error_of([&] { NpuOptions(nullptr, {.cap = {}, .force = {{op, 2}}}); });
  };
  CHECK(error_of_force("matmull") ==
        "block_dim: force: expected the name of a built-in op, or copy for copies, got 'matmull'; "
        "did you mean 'matmul'?");
  CHECK(contains(error_of_force("my_kernel"), "got 'my_kernel'; keel info lists the ops"));
  CHECK(error_of_force("copy") == "");
}

TEST_CASE("npu scheduler: a kernel that asks for more buffer than there is does not compile") {
  const Preset preset = load_preset("ascend910b1");
  Preset tiny = preset;
  tiny.l0a_bytes = 256;
  Graph graph;
  graph.set_outputs({matmul(graph.input("a", f32, {32, 32}), graph.input("b", f32, {32, 32}))});
  CHECK(contains(error_of([&] { schedule(tiny, node_of(graph, "matmul")); }), "16x16x16"));
}

TEST_CASE("npu scheduler: what the device supports has a price and what has none is an error") {
  const NpuLibrary library(std::make_shared<const Preset>(load_preset("ascend910b1")));
  int priced = 0;
  for (const OpDef* op : builtin_ops().all()) {
    if (!op->sample) continue;
    for (const DType dtype : kDTypes) {
      SampleSource source(7, dtype, 20);
      const Sample sample = op->sample(source);
      if (!sample.build) continue;
      Graph graph;
      Values inputs;
      for (const Tensor& t : sample.inputs) {
        inputs.push_back(graph.input("x" + std::to_string(inputs.size()), t.dtype(), t.shape()));
      }
      graph.set_outputs(sample.build(graph, inputs));
      for (const Node& node : graph.nodes()) {
        if (node.has(kSource | kView | kControl | kEffect) || !library.supports(node).supported) {
          continue;
        }
        CAPTURE(node.op_name());
        const Launch launch = schedule(load_preset("ascend910b1"), node);
        CHECK(launch.price.total_ns > 0);
        CHECK(launch.price.block_dim >= 1);
        ++priced;
      }
    }
  }
  CHECK(priced > 100);

  OpTable table;
  OpDef unknown;
  unknown.name = "frobnicate";
  unknown.input_names = {"x"};
  unknown.infer = [](const InferContext& c) { return std::vector<Type>{c.inputs[0]}; };
  unknown.traits = kElementwise;
  Graph graph;
  const Node& node = graph.add(unknown, {graph.input("x", f32, {8})}, {}, CallSite{});
  const std::string error = error_of([&] { schedule(load_preset("ascend910b1"), node); });
  CHECK(contains(error, "frobnicate"));
  CHECK(contains(error, "no price"));
}

TEST_CASE("npu scheduler: a fused product is priced by what it reads and writes") {
  Graph graph;
  const Value table = graph.input("table", u8, {1000, 256});
  const Value rows = graph.input("rows", i32, {96});
  const Value w = graph.input("w", f32, {256, 128});
  const Value bias = graph.input("bias", f32, {128});
  const Value beside = graph.input("beside", f32, {96, 128});
  const Value x = cast(gather(table, rows), f32) / 255.0f;
  graph.set_outputs({tanh(matmul(x, w) + bias) * beside});
  const auto clusters = fuse(graph, keel_test::only_clusters());
  const auto fused = fuse(graph, keel_test::everything);
  const Preset preset = load_preset("ascend910b1");
  const Launch launch = schedule(preset, keel_test::only_anchored(*fused, kProduct));
  // Of the table only the rows that are named; one float beside each result. What is read for a
  // whole row or column stays in the core.
  CHECK(launch.price.bytes_in == 96 * 256 + 256 * 128 * 4 + 96 * 128 * 4);
  CHECK(launch.price.bytes_out == 96 * 128 * 4);
  // The product's, and one for each of add, tanh and mul.
  CHECK(launch.price.flops == 2 * 96 * 128 * 256 + 3 * 96 * 128);
  // Its vector work is that of the vector cores, two for each cube core.
  CHECK(launch.price.mix_block_dim == 2 * launch.price.block_dim);
  CHECK(launch.price.mix_busy(Unit::kVector) > 0);
  CHECK(launch.price.busy(Unit::kVector) == 0);
  const Launch whole =
      schedule(load_preset("ascend910"), keel_test::only_anchored(*fused, kProduct));
  CHECK_FALSE(whole.price.mixed());
  CHECK(whole.price.busy(Unit::kVector) > 0);

  const auto apart = [&](const char* op) {
    return schedule(preset, keel_test::only_node(*clusters, op)).price.total_ns;
  };
  CHECK(launch.price.total_ns < apart("matmul") + apart("gather"));
}

TEST_CASE("npu scheduler: row-wise ops behind a product add what they move and compute") {
  Graph graph;
  const Value x = graph.input("x", f32, {320, 256});
  const Value w = graph.input("w", f32, {256, 48});
  const Value labels = graph.input("labels", u8, {320});
  const Value upstream = graph.input("upstream", f32, {320});
  const Value logits = matmul(x, w);
  graph.set_outputs({softmax_cross_entropy(logits, labels),
                     softmax_cross_entropy_grad(logits, labels, upstream)});
  const auto clusters = fuse(graph, keel_test::only_clusters());
  const auto fused = fuse(graph, keel_test::everything);
  const Preset preset = load_preset("ascend910b1");
  const Launch launch = schedule(preset, keel_test::only_anchored(*fused, kProduct));
  // One label and one factor a row beside the operands; the loss of each row and the gradient.
  CHECK(launch.price.bytes_in == 320 * 256 * 4 + 256 * 48 * 4 + 320 * (1 + 4));
  CHECK(launch.price.bytes_out == 320 * 4 + 320 * 48 * 4);
  CHECK(launch.price.flops == 2 * 320 * 48 * 256 + 2 * 320 * 48);
  int64_t apart = 0;
  for (const char* op : {"matmul", "softmax_cross_entropy", "softmax_cross_entropy_grad"}) {
    const int64_t alone = schedule(preset, keel_test::only_node(*clusters, op)).price.total_ns;
    apart += alone;
    CHECK(launch.price.total_ns > alone / 2);
  }
  CHECK(launch.price.total_ns < apart);
}

TEST_CASE("npu scheduler: a fused reduction is priced by what it reads and writes") {
  Graph graph;
  const Value a = graph.input("a", f32, {1000, 256});
  const Value b = graph.input("b", f32, {256});
  const Value bias = graph.input("bias", f32, {256});
  graph.set_outputs({bias - sum(square(a - b), {0}) * 0.5f});
  const auto fused = fuse(graph, keel_test::everything);
  const Preset preset = load_preset("ascend910b1");
  const Launch launch = schedule(preset, keel_test::only_anchored(*fused, kReduction), {.cap = 1});
  // Neither the squares nor the sums leave the core.
  CHECK(launch.price.bytes_in == (256000 + 256 + 256) * 4);
  CHECK(launch.price.bytes_out == 256 * 4);
  CHECK(launch.price.flops == 3 * 256000 + 2 * 256);
  CHECK(launch.price.busy(Unit::kVector) > 0);
}

TEST_CASE("npu scheduler: a fused reduction takes no longer than its parts or is declined") {
  using Reduce = Value (*)(Operand, const std::vector<int64_t>&, bool, CallSite);
  const std::pair<Shape, std::vector<int64_t>> shapes[] = {
      {{100}, {}},         {{100, 10}, {0}},    {{100, 512}, {0}},  {{1 << 20}, {}},
      {{1024, 1024}, {1}}, {{1024, 1024}, {0}}, {{8, 100000}, {0}}, {{30, 40, 50}, {1}}};
  int taken = 0, declined = 0;
  for (const char* name : {"ascend910b1", "ascend910", "ascend310"}) {
    const auto preset = std::make_shared<const Preset>(load_preset(name));
    const NpuLibrary library(preset);
    for (const auto& reduced_shape : shapes) {
      const Shape& shape = reduced_shape.first;
      const std::vector<int64_t>& axes = reduced_shape.second;
      for (const Reduce reduce : {Reduce(&sum), Reduce(&max)}) {
        for (const DType dtype : {f32, f16}) {
          for (const bool prologue : {false, true}) {
            CAPTURE(name);
            CAPTURE(to_string(shape));
            CAPTURE(name_of(dtype));
            Graph graph;
            const Value x = graph.input("x", dtype, shape);
            const Value reduced = reduce(prologue ? square(x - graph.input("y", dtype, shape)) : x,
                                         axes, false, CallSite::here());
            graph.set_outputs({graph.input("z", dtype, reduced.shape()) - reduced * 0.5f});
            const auto clusters = fuse(graph, keel_test::only_clusters());
            int64_t apart = 0;
            for (const Node& node : clusters->nodes()) {
              if (!node.has(kSource)) apart += schedule(*preset, node).price.total_ns;
            }
            const auto all = fuse(graph, keel_test::everything);
            const Node& node = keel_test::only_anchored(*all, kReduction);
            const int64_t together = schedule(*preset, node).price.total_ns;
            const Support support = library.supports(node);
            const bool host = support.supported || !keel_test::contains(support.reason, "apart");
            if (host)
              CHECK(together <= apart);
            else
              CHECK(together > apart);
            ++(support.supported ? taken : declined);
          }
        }
      }
    }
  }
  CHECK(taken > declined);
}

namespace {

struct Run {
  std::vector<uint32_t> bits;
  int64_t step_ns = 0;
};

// A small step with products, a sum over everything and element-wise work.
Run run_step(std::shared_ptr<const DeviceOptions> options) {
  Graph graph;
  const Value x = graph.input("x", f32, {40, 300});
  const Value w = graph.state("w", from_tensor([] {
                                Tensor t(f32, {300, 70});
                                for (size_t i = 0; i < 21000; ++i)
                                  t.data<float>()[i] = static_cast<float>(i % 37) * 0.01f;
                                return t;
                              }()));
  const Value y = relu(matmul(x, w));
  const Value total = sum(y);
  Session session(graph, device("npu:0"),
                  {.precision = "fp32", .device_options = std::move(options)});
  Tensor input(f32, {40, 300});
  for (size_t i = 0; i < 12000; ++i) input.data<float>()[i] = static_cast<float>(i % 101) - 50.0f;
  Run run;
  for (const Tensor& t : session.run({total, y}, {{x, input}})) {
    const size_t begin = run.bits.size();
    run.bits.resize(begin + static_cast<size_t>(t.num_elements()));
    std::memcpy(run.bits.data() + begin, t.raw(), t.num_bytes());
  }
  Loop loop = session.sink({.update = Update{{{w, w * 0.5f}}}});
  run.step_ns = loop.run(1).step_device_ns.value_or(0);
  return run;
}

}  // namespace

TEST_CASE("npu scheduler: presets and block_dim change device time and no result") {
  const Run first = run_step(options("ascend910b1"));
  CHECK(first.step_ns > 0);
  CHECK(run_step(options("ascend910b1")).step_ns == first.step_ns);

  Preset other = load_preset("ascend910b1");
  other.hbm_gb_per_s /= 2;
  other.vector_cores *= 2;
  other.cube_cores *= 2;
  const auto shared = std::make_shared<const Preset>(other);
  CHECK(run_step(std::make_shared<const NpuOptions>(shared)).bits == first.bits);
  for (const char* preset : {"ascend910", "ascend310"}) {
    const Run run = run_step(options(preset));
    CHECK(run.bits == first.bits);
    CHECK(run.step_ns != first.step_ns);
  }
  const Run capped = run_step(options("ascend910b1", {.cap = 1}));
  CHECK(capped.bits == first.bits);
  CHECK(capped.step_ns > first.step_ns);
}

TEST_CASE("npu scheduler: sessions of two presets live side by side on one device") {
  Graph graph;
  const Value x = graph.input("x", f16, {2});
  const Value twice = x + x;
  const Feeds feeds = {{x, Tensor::full(f16, {2}, 60000)}};
  Session saturating(graph, device("npu:0"), {.device_options = options("ascend910")});
  Session infinite(graph, device("npu:0"), {.device_options = options("ascend910b1")});
  for (int turn = 0; turn < 2; ++turn) {
    CHECK(saturating.run({twice}, feeds)[0].at(0) == 65504);
    CHECK(std::isinf(infinite.run({twice}, feeds)[0].at(0)));
  }
  const auto model = [&](Session& session) {
    return session.sink({.fetches = {sum(graph.constant(Tensor(f32, {100, 100})))}})
        .program()
        .info()
        .modelled_device;
  };
  CHECK(model(saturating) == "ascend910");
  CHECK(model(infinite) == "ascend910b1");
  clear_float_status(device("npu:0"));
}

TEST_CASE("npu scheduler: options are refused by other backends and so are foreign ones") {
  class ForeignOptions final : public DeviceOptions {};
  Graph graph;
  graph.state("w", zeros({2}));
  const auto foreign = std::make_shared<const ForeignOptions>();
  const auto refusal = [&](const char* where, const std::shared_ptr<const DeviceOptions>& asked) {
    return error_of([&] { Session(graph, device(where), {.device_options = asked}); });
  };
  CHECK(contains(refusal("cpu", options("ascend910")), "none for cpu"));
  CHECK(contains(refusal("ref", options("")), "test_npu_scheduler.cpp:"));
  CHECK(contains(refusal("npu", foreign), "npu::NpuOptions"));
  CHECK(refusal("npu", options("")).empty());
  CHECK_THROWS(options("nothing"));
}

TEST_CASE("npu scheduler: device time follows a changed preset as the formulas say") {
  Graph graph;
  const Value x = graph.input("x", f32, {8192, 8192});
  graph.set_outputs({x + graph.input("y", f32, {8192, 8192})});
  const Node& add = node_of(graph, "add");
  const Preset preset = load_preset("ascend910b1");
  Preset half = preset, twice = preset;
  half.hbm_gb_per_s /= 2;
  twice.vector_cores *= 2;
  // Three arrays of 256 MiB at 83 % of the peak: with half the bandwidth twice the time, and more
  // cores have nothing to do.
  const double bytes = 3 * 8192.0 * 8192.0 * 4;
  const Launch before = schedule(preset, add);
  CHECK(static_cast<double>(before.price.pipeline_ns) ==
        doctest::Approx(bytes / (0.83 * 1800)).epsilon(0.001));
  CHECK(static_cast<double>(schedule(half, add).price.pipeline_ns) ==
        doctest::Approx(bytes / (0.83 * 900)).epsilon(0.001));
  CHECK(schedule(twice, add).price.total_ns == before.price.total_ns);
  // A product bound by the cube takes half the time on twice the cores.
  Preset cubes = preset;
  cubes.cube_cores *= 2;
  graph.set_outputs({matmul(x, x)});
  const Node& product = node_of(graph, "matmul");
  const double ratio = static_cast<double>(schedule(preset, product).price.pipeline_ns) /
                       static_cast<double>(schedule(cubes, product).price.pipeline_ns);
  CHECK(ratio == doctest::Approx(2).epsilon(0.05));
}

TEST_CASE("npu scheduler: bf16 on a preset without it does not compile") {
  Graph graph;
  const Value x = graph.input("x", bf16, {8, 8});
  const Value y = x * x;
  const Feeds feeds = {{x, Tensor(bf16, {8, 8})}};
  const auto run_on = [&](const char* preset) {
    Session(graph, device("npu:0"), {.precision = "fp32", .device_options = options(preset)})
        .run({y}, feeds);
  };
  CHECK_NOTHROW(run_on("ascend910b1"));
  const std::string error = error_of([&] { run_on("ascend910"); });
  CAPTURE(error);
  CHECK(contains(error, "mul"));
  CHECK(contains(error, "ascend910b1, ascend910b2, ascend910b3, ascend910b4"));
}

TEST_CASE("npu scheduler: attention moves neither scores nor weights") {
  constexpr int64_t kHeads = 4, kLength = 1024, kFeatures = 64;
  const Preset preset = load_preset("ascend910b1");
  const auto of = [&](const char* op, bool causal) {
    Graph graph;
    const Shape shape{kHeads, kLength, kFeatures};
    const Value q = graph.input("q", f16, shape), k = graph.input("k", f16, shape),
                v = graph.input("v", f16, shape);
    const AttentionAttributes attributes{.scale = 0.125, .causal = causal};
    const AttentionOutput forward = attention_with_rows(q, k, v, {}, attributes);
    const auto gradients = attention_gradient(q, k, v, {}, forward, forward.result, attributes);
    graph.set_outputs({gradients.queries});
    return schedule(preset, node_of(graph, op));
  };
  const int64_t operand = kHeads * kLength * kFeatures * 2, rows = kHeads * kLength * 4;
  const Launch forward = of("attention", false), backward = of("attention_gradient", false);
  CHECK(forward.cube);
  CHECK(forward.price.bytes_in == 3 * operand);
  CHECK(forward.price.bytes_out == operand + 2 * rows);
  // The gradients of the queries are added up in f32 before they are rounded.
  CHECK(backward.price.bytes_in == 5 * operand + 2 * rows);
  CHECK(backward.price.bytes_out == 2 * operand + 2 * operand);
  const int64_t scores = kHeads * kLength * kLength;
  CHECK(forward.price.flops >= 2 * scores * 2 * kFeatures);
  CHECK(backward.price.flops >= 2 * scores * 5 * kFeatures);
  // What nobody may look at is not computed.
  CHECK(of("attention", true).price.total_ns < forward.price.total_ns);
  CHECK(of("attention_gradient", true).price.total_ns < backward.price.total_ns);
  for (const Launch& launch : {forward, backward}) {
    CHECK(launch.price.total_ns >= launch.price.compute_roof_ns);
    CHECK(launch.price.total_ns >= launch.price.memory_roof_ns);
  }
}

TEST_SUITE_END();
