// What compiling large graphs costs, counted instead of timed: the memory plan against the bytes
// that live at once, what the scheduler decides anew, and bookkeeping that must not grow with the
// square of the nodes. (`keel bench compile` measures the times.)
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/npu/presets/preset.h"
#include "keel/backends/npu/scheduler/launch_cache.h"
#include "keel/backends/registry.h"
#include "keel/core/base/checked.h"
#include "keel/core/base/random.h"
#include "keel/graph/ir/rewriter.h"
#include "keel/graph/passes/memory_plan.h"
#include "keel/graph/runtime/compile.h"
#include "keel/keel.h"

#include "support/error_of.h"
#include "support/fusing.h"
#include "support/fusion.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;

constexpr double kMostOverLowerBound = 1.15;

double over_lower_bound(size_t bytes, size_t lower_bound) {
  return lower_bound == 0 ? 1 : static_cast<double>(bytes) / static_cast<double>(lower_bound);
}

// A numbered stream of random integers in [low, high].
struct RandomIntegers {
  uint64_t seed;
  uint64_t count = 0;
  int64_t operator()(int64_t low, int64_t high) {
    return low +
           static_cast<int64_t>(fold_key(seed, ++count) % static_cast<uint64_t>(high - low + 1));
  }
};

// Layers of widths drawn from a few, ReLU between them, plain descent.
struct Mlp {
  Mlp(int layers, uint64_t seed) {
    RandomIntegers draw{seed};
    int64_t width = 48;
    Value y = graph.input("x", f32, {32, width});
    for (int i = 0; i < layers; ++i) {
      const int64_t next = 16 + 40 * draw(0, 4);
      const Value w = graph.state("w" + std::to_string(i), zeros({width, next}));
      const Value b = graph.state("b" + std::to_string(i), zeros({next}));
      y = relu(matmul(y, w) + b);
      width = next;
    }
    loss = mean(square(y));
    update = sgd(0.1).minimize(loss);
  }

  Compiled compiled(const std::string& backend, bool fuse) const {
    CompileRequest request;
    request.step.graph = &graph;
    request.step.fetches = {loss};
    request.step.update = update;
    request.step.input_types["x"] = Type{f32, {32, 48}};
    request.disabled_passes = keel_test::fusion(fuse);
    return compile(device(backend), std::move(request));
  }

  Graph graph;
  Value loss;
  Update update;
};

// A sweep along the time: each moment's buffers lie side by side, and all of them in little more
// than the fullest moment needs.
void check_plan(const std::vector<LifeSpan>& spans) {
  const MemoryPlan plan = plan_memory(spans);
  std::multimap<int64_t, size_t> begins, ends;
  for (size_t i = 0; i < spans.size(); ++i) {
    REQUIRE(plan.offsets[i] + spans[i].bytes <= plan.arena_bytes);
    begins.emplace(spans[i].first, i);
    ends.emplace(spans[i].last, i);
  }
  std::map<size_t, size_t> living;  // offset to end
  size_t bytes = 0, most = 0;       // of whole alignments
  auto gone = ends.begin();
  bool apart = true;
  const auto whole = [&](size_t i) { return align_up(spans[i].bytes, Buffer::kAlignment); };
  for (const auto& [time, i] : begins) {
    for (; gone != ends.end() && gone->first < time; ++gone) {
      living.erase(plan.offsets[gone->second]);
      bytes -= whole(gone->second);
    }
    const size_t begin = plan.offsets[i], end = begin + spans[i].bytes;
    const auto above = living.lower_bound(begin);
    apart = apart && (above == living.end() || above->first >= end) &&
            (above == living.begin() || std::prev(above)->second <= begin);
    living.emplace(begin, end);
    bytes += whole(i);
    most = std::max(most, bytes);
  }
  CHECK(apart);
  CHECK(plan.lower_bound == most);
  CHECK(over_lower_bound(plan.arena_bytes, most) <= kMostOverLowerBound);
}

}  // namespace

TEST_CASE("scale: scratch of deep networks stays close to what lives at once") {
  for (const char* backend : {"cpu", "npu"}) {
    for (const bool fuse : {true, false}) {
      for (const int layers : {3, 20, 150}) {
        CAPTURE(backend);
        CAPTURE(fuse);
        CAPTURE(layers);
        const Compiled compiled =
            Mlp(layers, static_cast<uint64_t>(layers)).compiled(backend, fuse);
        const ProgramInfo& info = compiled.program->info();
        CHECK(over_lower_bound(info.scratch_bytes, info.scratch_lower_bound) <=
              kMostOverLowerBound);
      }
    }
  }
}

TEST_CASE("scale: memory plans of a way forth and back stay close to the lower bound") {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    RandomIntegers draw{seed};
    const int64_t layers = draw(2, 400);
    const auto bytes = [&] { return static_cast<size_t>(64 * draw(1, 200)); };
    std::vector<LifeSpan> spans;
    for (int64_t i = 0; i < layers; ++i) {
      // What the way back reads, and what only its neighbour does, either way.
      spans.push_back({i, 2 * layers - i, bytes()});
      spans.push_back({i, i + 1, bytes()});
      spans.push_back({2 * layers - i, 2 * layers - i + 1, bytes()});
    }
    check_plan(spans);
  }
}

TEST_CASE("scale: memory plans of random lives stay close to the lower bound") {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    RandomIntegers draw{seed};
    const int64_t count = draw(50, 1500);
    std::vector<LifeSpan> spans;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t first = draw(0, count);
      spans.push_back(
          {first, first + draw(0, draw(0, 1) == 0 ? 3 : 100), static_cast<size_t>(draw(1, 5000))});
    }
    check_plan(spans);
  }
}

// All pairs of these meet, which is more than a plan by size may look at.
TEST_CASE("scale: a memory plan of thousands of long lives is valid and close") {
  RandomIntegers draw{7};
  constexpr int64_t kLayers = 12000;
  std::vector<LifeSpan> spans;
  for (int64_t i = 0; i < kLayers; ++i) {
    spans.push_back({i, 2 * kLayers - i, static_cast<size_t>(64 * draw(1, 8))});
    spans.push_back({i, i + 1, static_cast<size_t>(64 * draw(1, 8))});
  }
  check_plan(spans);
}

TEST_CASE("scale: the scheduler decides once for nodes that do the same") {
  const npu::Preset preset = npu::load_preset("ascend910b1");
  const auto decided = [&](int layers) {
    Graph g;
    Value y = g.input("x", f32, {32, 64});
    const Value w = g.input("w", f32, {64, 64});
    for (int i = 0; i < layers; ++i) y = relu(matmul(y, w) * static_cast<float>(i + 2));
    g.set_outputs({y});
    const auto fused = fuse(g, keel_test::only_clusters());
    npu::LaunchCache cache;
    for (const Node& node : fused->nodes()) {
      if (node.has(kSource)) continue;
      // As if decided alone.
      const npu::Launch expected = npu::schedule(preset, node);
      const npu::Launch& launch = *cache.launch(preset, node, {});
      CHECK(launch.price.total_ns == expected.price.total_ns);
      CHECK(launch.price.block_dim == expected.price.block_dim);
      CHECK(launch.op == expected.op);
      CHECK(launch.outputs == expected.outputs);
    }
    return cache.scheduled();
  };
  CHECK(decided(3) == 2);  // the product, and what is fused behind it
  CHECK(decided(50) == 2);
}

TEST_CASE("scale: work is the same only where ops attributes types and bodies are") {
  Graph g;
  const Value x = g.input("x", f32, {4, 4});
  const Value other = g.input("other", f32, {4, 4});
  const Value wide = g.input("wide", f32, {4, 5});
  const auto same = [](const Value& a, const Value& b) {
    return npu::same_work(a.node(), b.node());
  };
  CHECK(same(tanh(x), tanh(other)));
  CHECK(!same(tanh(x), exp(x)));
  CHECK(!same(tanh(x), tanh(wide)));
  CHECK(!same(tanh(x), tanh(cast(x, f16))));
  CHECK(!same(sum(x, {0}), sum(x, {1})));
  CHECK(!same(matmul(x, x), matmul(x, x, {.transpose_a = true})));
  const auto body = [&](bool swapped) {
    auto graph = std::make_shared<Graph>();
    const Value a = graph->input(swapped ? "p" : "a", f32, {4, 4});
    const Value b = graph->input(swapped ? "q" : "b", f32, {4, 4});
    graph->set_outputs({swapped ? b - a : a - b});
    return g.add("fused", {x, other}, {}, {}, {graph}).output();
  };
  CHECK(same(body(false), body(false)));
  CHECK(!same(body(false), body(true)));
}

TEST_CASE("scale: a rewriter refuses values that it does not know") {
  Graph from, to, third;
  const Value x = from.input("x", f32, {2});
  Rewriter rewriter(from, to);
  CHECK(!rewriter.mapped(x));
  CHECK(keel_test::contains(keel_test::error_of([&] { rewriter(x); }), "has not copied"));
  rewriter.clone_inputs();
  CHECK(rewriter.mapped(x));
  CHECK(rewriter(x) == to.inputs()[0]);
  const Value foreign = third.input("x", f32, {2});
  CHECK(keel_test::contains(keel_test::error_of([&] { rewriter(foreign); }), "not of the graph"));
}

TEST_CASE("scale: a value with many users gets the sum of its gradients from the front") {
  // In f32, 2^24 + 1 + 1 is 2^24 where it is added from the left and more from the right.
  Graph g;
  const Value x = g.state("x", zeros({}));
  Value loss = x;
  std::vector<float> factors;
  for (int i = 0; i < 300; ++i) factors.push_back(i == 299 ? 16777216.0f : 1.0f);
  for (const float factor : factors) loss = loss + x * factor;
  const Values gradient = gradients(loss, {x});
  Session session(g, device("ref"));
  // Readers are met from the last one, so that the large one comes first.
  CHECK(session.run({gradient[0]})[0].item<float>() == 16777216.0f);
}

TEST_SUITE_END();
