// The placement policies full and mixed: what is refused, where parts run, what they cost, and that
// a step with parts on the host is sunk all the same.
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/npu/npu_library.h"
#include "keel/graph/ir/transfer.h"
#include "keel/keel.h"

#include "runtime_for_tests.h"
#include "support/count_of.h"
#include "support/declining_backend.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::testing;
using keel_test::count_of;

// A regression whose loss is computed in f64, which npu has not got. Each op rounds once, so that
// all backends give the same bits.
struct WideLoss {
  WideLoss() {
    const Value narrow = x * w + b;
    error = cast(narrow, f64) - cast(target, f64);
    loss = cast(sum(error * error) * 0.125, f32);
    update = sgd(0.25).minimize(loss);
  }

  Graph graph;
  Value x = graph.input("x", f32, {8});
  Value target = graph.input("target", f32, {8});
  Value w = graph.state("w", from_tensor(Tensor::of<float>({1}, {0.25f})));
  Value b = graph.state("b", from_tensor(Tensor::of<float>({1}, {-1.5f})));
  Value error, loss;
  Update update;
};

std::shared_ptr<NumberFeeder> line_feeder(const Device& device) {
  auto feeder = std::make_shared<NumberFeeder>(
      device, ElementSpec{{{"x", {f32, {8}}}, {"target", {f32, {8}}}}},
      [](int64_t n, const std::vector<void*>& fields) {
        for (int64_t i = 0; i < 8; ++i) {
          const auto x = static_cast<float>((n * 3 + i * 5) % 16) / 16;
          static_cast<float*>(fields[0])[i] = x;
          static_cast<float*>(fields[1])[i] = 3 * x + 0.5f;
        }
        return true;
      });
  feeder->open({});
  return feeder;
}

struct PlacedRun {
  std::vector<double> losses;
  std::string states;
  LoopKind kind = LoopKind::kNone;
  CompileReport report;
  std::string tasks;
};

PlacedRun train_placed(const Device& device, PlacementPolicy policy, int64_t launches,
                       int64_t steps) {
  WideLoss model;
  Session session(model.graph, device, {.placement = policy});
  Loop loop = session.sink(
      {.update = model.update, .fetches = {model.loss}, .source = line_feeder(device)});
  PlacedRun trained;
  for (int64_t i = 0; i < launches; ++i) {
    const LoopReport report = loop.run(steps);
    for (const double loss : report[model.loss]) trained.losses.push_back(loss);
  }
  trained.states = session.state_sha256();
  trained.kind = loop.kind();
  trained.report = loop.compile_report();
  trained.tasks = loop.describe();
  return trained;
}

// A device that lacks one op, and runs it on its host processor.
class LackingBackend final : public keel_test::DecliningBackend {
 public:
  LackingBackend(const std::string& base, std::string lacked)
      : DecliningBackend(base, "no such op"), base_(backend(base)), lacked_(std::move(lacked)) {}
  Support supports(const Node& node, const DeviceOptions* options) const override {
    if (node.op_name() == lacked_ && !is_on_host(node)) return {false, "it has no " + lacked_};
    return base_.supports(node, options);
  }

 private:
  Backend& base_;
  std::string lacked_;
};

}  // namespace

TEST_CASE("policy full lists everything that the device lacks with reasons and lines") {
  WideLoss model;
  Session session(model.graph, device("npu"));
  const std::string error = error_of([&] {
    session.sink(
        {.update = model.update, .fetches = {model.loss}, .source = line_feeder(device("npu"))});
  });
  CAPTURE(error);
  CHECK(contains(error, "the backend cannot run"));
  CHECK(contains(error, "cannot run 9 nodes"));
  CHECK(contains(error, "sub f64[8]"));
  CHECK(contains(error, "sum f64[]"));
  CHECK(contains(error, "the NPU does not compute in f64"));
  CHECK(contains(error, "test_placement_policy.cpp:"));
  CHECK(contains(error, "the placement policy mixed"));
}

TEST_CASE("policy mixed trains sunk with the bits of the reference and of cpu") {
  const PlacedRun expected = train_placed(device("ref"), PlacementPolicy::kFull, 3, 10);
  CHECK(expected.losses.back() < expected.losses.front() / 4);
  CHECK(expected.report.placement.host_tasks == 0);
  CHECK(train_placed(device("ref"), PlacementPolicy::kMixed, 3, 10).report.placement.host_tasks ==
        0);
  const PlacedRun mixed = train_placed(device("npu"), PlacementPolicy::kMixed, 3, 10);
  CAPTURE(mixed.tasks);
  const PlacedRun cpu = train_placed(device("cpu"), PlacementPolicy::kFull, 3, 10);
  CHECK(mixed.losses == cpu.losses);
  CHECK(mixed.states == cpu.states);
  CHECK(mixed.losses == expected.losses);
  CHECK(mixed.states == expected.states);
  CHECK(mixed.kind == LoopKind::kDevice);
  CHECK(contains(mixed.tasks, "AI_CPU"));
  CHECK(contains(mixed.tasks, "policy mixed because the NPU does not compute in f64"));
  // One launch of ten steps or ten of one.
  CHECK(train_placed(device("npu"), PlacementPolicy::kMixed, 30, 1).states == expected.states);
}

TEST_CASE("the placement report names each node its place and the rule") {
  const PlacedRun mixed = train_placed(device("npu"), PlacementPolicy::kMixed, 1, 1);
  const PlacementReport& report = mixed.report.placement;
  CHECK(report.policy == PlacementPolicy::kMixed);
  int64_t on_host = 0;
  bool device_kernel = false, launch = false;
  for (const NodePlacement& node : report.nodes) {
    CAPTURE(to_string(node));
    on_host += node.on_host ? 1 : 0;
    device_kernel |= !node.on_host && node.rule == "device kernel";
    launch |= node.rule == "part of the launch";
    if (node.on_host) {
      CHECK(node.site.known());
      CHECK(node.rule == "policy mixed because the NPU does not compute in f64");
      CHECK(contains(to_string(node), ": AI_CPU by policy mixed because "));
    }
  }
  CHECK(device_kernel);
  CHECK(launch);
  // The two casts to f64, sub, mul, sum, the scale and the cast back at least.
  CHECK(on_host >= 7);
  CHECK(report.host_tasks == on_host);
  CHECK(report.policy_tasks == on_host);
  // The line's values and the targets go there, each once; the loss and the gradient of the line
  // come back: f32[8] both, f32[8] and f32[].
  CHECK(report.copies_to_host == 2);
  CHECK(report.bytes_to_host == 64);
  CHECK(report.copies_to_device == 2);
  CHECK(report.bytes_to_device == 36);
  CHECK(sunk_with_host_tasks(report) ==
        "sunk with " + std::to_string(on_host) + " host tasks in the step");
}

TEST_CASE("the policy is part of the key of a program and of nothing that runs anyway") {
  Graph g;
  const Value x = g.input("x", f32, {3});
  const Tensor ones = Tensor::full(f32, {3}, 1);
  Session mixed(g, device("npu"), {.placement = PlacementPolicy::kMixed});
  Session full(g, device("npu"));
  const Value two = x + x;
  CHECK(mixed.describe({}, {two}, {{x, ones}}) == full.describe({}, {two}, {{x, ones}}));
  const Value wide = cast(cast(x, f64) * 1.5, f32);
  CHECK(mixed.run(wide, {{x, ones}}).at(2) == 1.5);
  CHECK(contains(error_of([&] { full.run(wide, {{x, ones}}); }), "does not compute in f64"));
}

TEST_CASE("an op that a device lacks runs on its host and its neighbours do not") {
  LackingBackend lacking("npu", "tanh");
  Graph g;
  const Value x = g.input("x", f32, {40});
  const Value y = tanh(x * 0.5f) + 1.0f;
  Tensor values(f32, {40});
  for (int64_t i = 0; i < 40; ++i) values.set(i, static_cast<double>(i) / 8 - 2.5);
  Session full(g, lacking.device());
  CHECK(contains(error_of([&] { full.run(y, {{x, values}}); }), "it has no tanh"));
  Session session(g, lacking.device(), {.placement = PlacementPolicy::kMixed});
  const std::string tasks = session.describe({}, {y}, {{x, values}});
  CAPTURE(tasks);
  CHECK(contains(tasks, "policy mixed because it has no tanh"));
  CHECK(contains(tasks, "AI_VECTOR_CORE"));
  Session cpu(g, device("cpu"));
  CHECK(bit_equal(session.run(y, {{x, values}}), cpu.run(y, {{x, values}})));
}

TEST_CASE("what runs neither on the device nor on its host is an error under mixed too") {
  keel_test::DecliningBackend modest("ref", "tanh");
  Graph g;
  const Value x = g.input("x", f32, {4});
  Session session(g, modest.device(), {.placement = PlacementPolicy::kMixed});
  const std::string error = error_of([&] {
    session.run({tanh(x), tanh(x * 2.0f)}, {{x, Tensor(f32, {4})}});
  });
  CAPTURE(error);
  CHECK(contains(error, "2 nodes"));
  CHECK(contains(error, "its control unit is too small; on the host: its control unit"));
  CHECK_FALSE(contains(error, "or the placement policy mixed"));
}

TEST_CASE("a loop or a branch with a part on the host moves there whole inside the launch") {
  Graph g;
  const Value x = g.input("x", f32, {3});
  // Doubles in f64 until 100 is passed; the step that counts is in i64.
  const Values out = while_loop(
      {x, g.constant(Tensor::scalar<int64_t>(0))},
      [](const Values& v) { return less(sum(v[0]), 100.0f); },
      [](const Values& v) {
        return Values{cast(cast(v[0], f64) * 2.0, f32), v[1] + 1};
      });
  const Value chosen = cond(
      less(out[1], 10), {out[0]},
      [](const Values& v) { return Values{cast(cast(v[0], f64) + 0.5, f32)}; },
      [](const Values& v) { return Values{v[0]}; })[0];
  const Tensor ones = Tensor::of<float>({3}, {1, 2, 3});
  const std::string error = error_of([&] { Session(g, device("npu")).run(chosen, {{x, ones}}); });
  CAPTURE(error);
  // Each op once, and no control op for what its bodies lack.
  CHECK(contains(error, "cannot run 2 nodes"));
  CHECK_FALSE(contains(error, "its body needs"));
  Session session(g, device("npu"), {.placement = PlacementPolicy::kMixed});
  const std::vector<Tensor> results = session.run({chosen, out[1]}, {{x, ones}});
  // 6, 12, 24, 48, 96, 192: five turns.
  CHECK(results[1].at(0) == 5);
  for (int64_t i = 0; i < 3; ++i)
    CHECK(results[0].at(i) == 32.0 * static_cast<double>(i + 1) + 0.5);
  const Loop loop = session.sink(
      {.fetches = {chosen},
       .source = std::make_shared<DeviceQueue>(session.device(), ElementSpec{{{"x", {f32, {3}}}}},
                                               DeviceQueueOptions{.name = "x", .depth = 1})});
  CHECK(loop.kind() == LoopKind::kDevice);
  const PlacementReport& report = loop.compile_report().placement;
  int64_t in_bodies = 0, moved = 0;
  std::string told;
  for (const NodePlacement& node : report.nodes) {
    told += to_string(node) + "\n";
    CAPTURE(to_string(node));
    if (node.inside.empty()) continue;
    ++in_bodies;
    CHECK(node.on_host);
    moved +=
        contains(node.rule, "while_loop moves whole with cast, which the device lacks") ? 1 : 0;
  }
  CAPTURE(told);
  // sum and less of the condition, the sum that counts and the loop's own count of its turns,
  // beside the six that are in f64.
  CHECK(in_bodies == 10);
  CHECK(moved == 4);
  // x and the predicate go there, the number of turns and the choice come back.
  CHECK(report.copies_to_host == 2);
  CHECK(report.bytes_to_host == 12 + 1);
  CHECK(report.copies_to_device == 2);
  CHECK(report.bytes_to_device == 8 + 12);
}

TEST_CASE("what mixed computes on the host has the bits of cpu") {
  Graph g;
  const Value x = g.input("x", f32, {37, 61}), w = g.input("w", f32, {61, 13});
  const Value wide = cast(x, f64), product = matmul(wide, cast(w, f64));
  const Values parts = {sum(wide), exp(wide), softmax(product), mean(tanh(product), {0})};
  Tensor values(f32, {37, 61}), weights(f32, {61, 13});
  for (int64_t i = 0; i < values.num_elements(); ++i)
    values.set(i, static_cast<double>(i * 37 % 1009) / 311 - 1.5);
  for (int64_t i = 0; i < weights.num_elements(); ++i)
    weights.set(i, static_cast<double>(i * 53 % 769) / 401 - 0.9);
  const Feeds feeds = {{x, values}, {w, weights}};
  Session mixed(g, device("npu"), {.placement = PlacementPolicy::kMixed});
  Session cpu(g, device("cpu")), ref(g, device("ref"));
  const std::vector<Tensor> got = mixed.run(parts, feeds), expected = cpu.run(parts, feeds),
                            naive = ref.run(parts, feeds);
  bool other_bits = false;
  for (size_t i = 0; i < parts.size(); ++i) {
    CAPTURE(i);
    CHECK(bit_equal(got[i], expected[i]));
    other_bits |= !bit_equal(naive[i], expected[i]);
  }
  // The order of sums alone makes others.
  CHECK(other_bits);
}

// Its reference function, whatever is beside it: softmax has other bits from a kernel.
TEST_CASE("a HostScope in a loop that moves to the host keeps its kernel and copies nothing") {
  Graph g;
  const Value x = g.input("x", f32, {4, 8});
  const Values out = while_loop(
      {x}, [](const Values& v) { return less(v[0].graph().iteration(), 2); },
      [](const Values& v) {
        const Value wide = cast(cast(v[0], f64) * 1.5, f32);
        const HostScope on_host(v[0].graph());
        const Value first = softmax(wide, -1);
        return Values{softmax(first * 3.0f, -1)};
      },
      {.trip_count = 2});
  Tensor values(f32, {4, 8});
  for (int64_t i = 0; i < 32; ++i) values.set(i, std::sin(static_cast<double>(i)));
  const auto run = [&](const char* where, PlacementPolicy policy) {
    Session session(g, device(where), {.placement = policy});
    return session.run({out[0]}, {{x, values}})[0];
  };
  CHECK(bit_equal(run("npu", PlacementPolicy::kMixed), run("cpu", PlacementPolicy::kFull)));
  Session session(g, device("npu"), {.placement = PlacementPolicy::kMixed});
  const std::string tasks = session.describe({}, {out[0]}, {{x, values}});
  CAPTURE(tasks);
  CHECK(count_of("MEMCPY  D2H", tasks) == 1);
  CHECK(count_of("MEMCPY  H2D", tasks) == 1);
  CHECK(count_of("its scope places it there", tasks) == 3);
}

TEST_CASE("a branch in a loop that moves to the host copies nothing in its turns") {
  Graph g;
  const Value x = g.input("x", f32, {8});
  const Value flag = g.input("flag", boolean, {});
  const Values out = while_loop(
      {x}, [](const Values& v) { return less(v[0].graph().iteration(), 3); },
      [&](const Values& v) {
        const Value wide = cast(cast(v[0], f64) * 1.5, f32);
        return cond(
            flag, {wide, v[0]}, [](const Values& in) { return Values{in[0]}; },
            [](const Values& in) { return Values{in[1]}; });
      },
      {.trip_count = 3});
  Session session(g, device("npu"), {.placement = PlacementPolicy::kMixed});
  const Feeds feeds{{x, Tensor::full(f32, {8}, 2.0)}, {flag, Tensor::scalar<bool>(true)}};
  CHECK(session.run({out[0]}, feeds)[0].at(7) == 2.0 * 1.5 * 1.5 * 1.5);
  const std::string tasks = session.describe({}, {out[0]}, feeds);
  CAPTURE(tasks);
  CHECK(count_of("MEMCPY  D2H", tasks) == 2);
  CHECK(count_of("MEMCPY  H2D", tasks) == 1);
}

TEST_CASE("mixed parts of a loop that the host drives conflict with a loop size above 1") {
  keel_test::DecliningBackend modest("npu", "sunk_loop");
  WideLoss model;
  Session session(model.graph, modest.device(), {.placement = PlacementPolicy::kMixed});
  Loop loop = session.sink(
      {.update = model.update, .fetches = {model.loss}, .source = line_feeder(modest.device())});
  CHECK(loop.kind() == LoopKind::kHost);
  const std::string error = error_of([&] { loop.run(10); });
  CAPTURE(error);
  CHECK(contains(error, "MIXED_COMPILE_LOOP_SIZE"));
  CHECK(contains(error, "its control unit is too small"));
  CHECK(contains(error, "AI_CPU by policy mixed"));
  CHECK(session.step() == 0);
  CHECK(loop.run(1).steps == 1);
  CHECK(session.step() == 1);
}

TEST_CASE("an npu prices what the policy places on the host by its AI CPU and copies by the link") {
  const auto preset = std::make_shared<const npu::Preset>(npu::load_preset("ascend910b1"));
  const npu::NpuLibrary library(preset);
  Graph g;
  const Value x = g.input("x", f32, {1000});
  const AttributeScope placed(g, kPlacementAttribute, kHostPlacement);
  const AttributeScope by(g, kPlacementRuleAttribute, mixed_rule("no f64"));
  const KernelPlan wide = library.plan_on_host(cast(x, f64).node());
  CHECK(wide.kind == TaskKind::kAiCpu);
  // The AI CPU takes 20 us and 12,000 bytes at 1 GB/s.
  CHECK(wide.device_ns == 20000 + 12000);
  CHECK(contains(wide.reason, "policy mixed because no f64"));
  // Each copy takes 10 us and its bytes at 24 GB/s.
  const OpDef& op = g.ops().at("transfer");
  for (const char* to : {kToHost, kToDevice}) {
    const Node& node = g.add(op, {x}, op.attributes->parse({{"to", std::string(to)}}), CallSite{});
    const KernelPlan copy = library.plan(node, {});
    CHECK(copy.kind == TaskKind::kMemcpy);
    CHECK(copy.device_ns == 10000 + 167);
    CHECK(contains(copy.reason, to == kToHost ? "D2H" : "H2D"));
  }
}

TEST_CASE("the step of a mixed program costs more by its copies than one in host scopes") {
  const auto step_ns = [](bool scoped) {
    Graph g;
    const Value x = g.input("x", f32, {256});
    Value y;
    if (scoped) {
      const HostScope scope(g);
      y = cast(cast(x, f64) * 0.5, f32);
    } else {
      y = cast(cast(x, f64) * 0.5, f32);
    }
    Session session(g, device("npu"), {.placement = PlacementPolicy::kMixed});
    auto feeder =
        std::make_shared<NumberFeeder>(session.device(), ElementSpec{{{"x", {f32, {256}}}}},
                                       [](int64_t, const std::vector<void*>&) { return true; });
    feeder->open({});
    return session.sink({.fetches = {y}, .source = feeder}).run(1).step_device_ns.value();
  };
  // A copy of 1,024 bytes there and one back.
  CHECK(step_ns(false) - step_ns(true) == 2 * (10000 + 43));
}

TEST_SUITE_END();
