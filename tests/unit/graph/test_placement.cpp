// Ops that a scope places on the host: the bits of the reference on every backend, tasks of their
// own, and an NPU's price for them.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/npu/npu_library.h"
#include "keel/keel.h"

#include "fused_step_for_tests.h"
#include "support/error_of.h"
#include "support/fusing.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using keel::testing::run_case;
using keel::testing::StepCase;
using keel_test::contains;
using keel_test::error_of;

size_t times(const std::string& text, const std::string& word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

Tensor repeating_waves(const Shape& shape) {
  Tensor t(f32, shape);
  for (int64_t i = 0; i < t.num_elements(); ++i)
    t.set(i, static_cast<double>(i * 37 % 101) / 25 - 2);
  return t;
}

// Layers whose every op has another kernel than the reference's on cpu and npu.
Value classify(Graph& g, const Value& x) {
  const Value rows = gather(x, g.input("numbers", i32, {24}), 0);
  const Value hidden =
      tanh(matmul(rows, g.state("w", from_tensor(repeating_waves({40, 30})))) + 0.25f);
  return sum(log_softmax(hidden) * hidden, {1});
}

}  // namespace

TEST_CASE("ops in a host scope have the bits of the reference on every backend") {
  Tensor numbers(i32, {24});
  for (int64_t i = 0; i < 24; ++i) numbers.set(i, static_cast<double>(i * 5 % 8));
  const auto make = [&](bool on_host) {
    return StepCase{[on_host](Graph& g) {
                      const Value x = g.input("x", f32, {8, 40});
                      Values outputs;
                      if (on_host) {
                        const HostScope scope(g);
                        outputs = {classify(g, x)};
                      } else {
                        outputs = {classify(g, x)};
                      }
                      return std::pair{Update{}, outputs};
                    },
                    {repeating_waves({8, 40}), numbers}};
  };
  const std::vector<Tensor> expected = run_case(make(false), "ref", false);
  for (const char* where : {"ref", "cpu", "npu"}) {
    CAPTURE(where);
    std::string tasks;
    const std::vector<Tensor> got = run_case(make(true), where, true, &tasks);
    CAPTURE(tasks);
    CHECK(keel::testing::all_equal(got, expected));
    CHECK(times(tasks, "AI_CPU") >= 7);
    CHECK_FALSE(contains(tasks, "fused"));
  }
  // On its own kernels npu gives other last bits: what is compared above is not the same anyway.
  CHECK_FALSE(keel::testing::all_equal(run_case(make(false), "npu", true), expected));
}

TEST_CASE("gradients of what is placed on the host run there and the rest of a step does not") {
  const auto train = [](bool on_host, int64_t steps, std::string* tasks) {
    Graph g;
    const Value x = g.input("x", f32, {16, 12});
    const Value hidden = relu(dense(x, 20, {.name = "hidden"}));
    Value loss;
    if (on_host) {
      const HostScope scope(g);
      loss = mean(square(softmax(hidden)));
    } else {
      loss = mean(square(softmax(hidden)));
    }
    const Update update = sgd(0.5).minimize(loss);
    Session session(g, device("npu"), {.seed = 5});
    const Feeds feeds = {{x, repeating_waves({16, 12})}};
    if (tasks != nullptr) *tasks = session.describe(update, {loss}, feeds);
    std::vector<double> losses;
    for (int64_t i = 0; i < steps; ++i) losses.push_back(session.run(update, loss, feeds).at(0));
    return losses;
  };
  std::string tasks;
  const std::vector<double> on_host = train(true, 12, &tasks), plain = train(false, 12, nullptr);
  CAPTURE(tasks);
  // mean, square, softmax and their gradients; products and updates stay on the cores.
  CHECK(times(tasks, "AI_CPU") >= 5);
  CHECK(contains(tasks, "AI_CORE"));
  CHECK(contains(tasks, "host: its scope places it there"));
  for (size_t i = 0; i < plain.size(); ++i) CHECK(on_host[i] == doctest::Approx(plain[i]));
  CHECK(on_host.back() < on_host.front());
}

TEST_CASE("a host scope gives an npu the dtypes that its cores lack") {
  Graph g;
  const Value x = g.input("x", f32, {1000});
  CHECK(contains(
      error_of([&] {
        Session(g, device("npu")).run(cast(sum(cast(x, f64)), f32), {{x, repeating_waves({1000})}});
      }),
      "does not compute in f64"));
  Value total;
  {
    const HostScope scope(g);
    total = cast(sum(cast(x, f64)), f32);
  }
  const Tensor values = repeating_waves({1000});
  double expected = 0;
  for (int64_t i = 0; i < 1000; ++i) expected += values.at(i);
  CHECK(Session(g, device("npu")).run(total, {{x, values}}).at(0) ==
        static_cast<double>(static_cast<float>(expected)));
}

TEST_CASE("fusing says what stays apart because it runs on the host") {
  Graph g;
  const Value x = g.input("x", f32, {6, 5});
  Value middle, rows;
  const Value before = exp(x) * 2.0f;
  {
    const HostScope scope(g);
    middle = tanh(before);
    rows = gather(x, g.input("numbers", i32, {6}), 0);
  }
  g.set_outputs({sqrt(middle) + 1.0f, matmul(rows, g.input("w", f32, {5, 3}))});
  FuseReport report;
  const auto fused = fuse(g, keel_test::everything, &report);
  std::string told;
  for (const std::string& line : report.lines) told += line + "\n";
  CAPTURE(told);
  CHECK(contains(told, "tanh runs on the host"));
  // Two clusters, before and behind; a backend declines what would take the rows along.
  const auto library_like = [](const Node& node) -> Support {
    if (!is_fused_node(node)) return {true, ""};
    for (const Node& inner : node.bodies()[0]->nodes())
      if (is_on_host(inner)) return {false, "on the host"};
    return {true, ""};
  };
  const auto kept = fuse(g, library_like);
  size_t bodies = 0;
  for (const Node& node : kept->nodes()) bodies += is_fused_node(node) ? 1 : 0;
  CHECK(bodies == 2);
}

TEST_CASE("an npu prices what is placed on the host by its AI CPU") {
  const auto preset = std::make_shared<const npu::Preset>(npu::load_preset("ascend910b1"));
  Graph g;
  const HostScope scope(g);
  const Value sorted = sort(g.input("x", f32, {1000})).values;
  const KernelPlan plan = npu::NpuLibrary(preset).plan_on_host(sorted.node());
  CHECK(plan.kind == TaskKind::kAiCpu);
  // 4,000 bytes of operands, as many of values and twice as many of indices at 1 GB/s, and 20 us to
  // begin with.
  CHECK(plan.device_ns == 20000 + 16000);
  CHECK(plan.block_dim == 1);
}

TEST_CASE("another placement than the host is an error with the user's line") {
  Graph g;
  const Value x = g.input("x", f32, {4});
  Value y;
  {
    const AttributeScope scope(g, kPlacementAttribute, "gpu");
    y = exp(x);
  }
  const std::string error = error_of([&] {
    Session(g, device("cpu")).run(y, {{x, repeating_waves({4})}});
  });
  CHECK(contains(error, "exp: attribute placement: expected 'host', got 'gpu'"));
  CHECK(contains(error, "test_placement.cpp:"));
}

TEST_SUITE_END();
