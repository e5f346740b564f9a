// Launches that read bytes again, as the lines of a pool's windows, the rows and columns of a
// product of integers, rows that do not fit in unified buffer and an operand that is both sides of
// an addition, counted them each time: their roofs were too high, so that advice named them too
// late, and the profile had more bytes than their operands.
#include <cmath>
#include <string>

#include <doctest/doctest.h>

#include "keel/backends/npu/options.h"
#include "keel/backends/npu/profile/profile.h"
#include "keel/backends/npu/scheduler/launch_cache.h"
#include "keel/backends/npu/scheduler/resident_price.h"
#include "keel/backends/npu/scheduler/scheduler.h"
#include "keel/backends/registry.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"
#include "keel/ops/pool.h"

#include "unit/npu_model_for_tests.h"
#include "unit/npu_profile_for_tests.h"

namespace keel::npu {
namespace {

using keel_test::contains;
using npu_model_test::node_of;
using npu_profile_test::Folder;

// Checks that a launch of the op counts so many bytes, and that its roof is what they take at the
// memory's peak; whatever of them is in L2, no more are counted.
void check_bytes(const Graph& graph, const std::string& op, int64_t in, int64_t out) {
  CAPTURE(op);
  const Preset preset = load_preset("ascend910b1");
  const Launch launch = schedule(preset, node_of(graph, op));
  CHECK(launch.price.bytes_in == in);
  CHECK(launch.price.bytes_out == out);
  const double roof_ns = static_cast<double>(in + out) / preset.hbm_gb_per_s;
  CHECK(std::abs(static_cast<double>(launch.price.memory_roof_ns) - roof_ns) <= 1);
  for (const double share : {0.5, 1.0}) {
    const TaskPrice resident = resident_price(preset, launch, {share, 0});
    CHECK(resident.bytes_in == in);
    CHECK(resident.memory_roof_ns <= launch.price.memory_roof_ns);
    CHECK(static_cast<double>(resident.memory_roof_ns) >=
          static_cast<double>(out) / preset.hbm_gb_per_s - 2);
  }
}

TEST_SUITE_BEGIN("issues");

TEST_CASE("a launch counts bytes of its operands once however often it reads them") {
  Graph graph;
  const Value x = graph.input("x", f32, {8, 56, 56, 64});
  const MaxPool2dAttributes windows{.window = {3, 3}, .stride = {2, 2}};
  max_pool2d_gradient(x, max_pool2d(x, windows), windows);
  const int64_t image = 8 * 56 * 56 * 64 * 4, kept = 8 * 27 * 27 * 64 * 4;
  check_bytes(graph, "max_pool2d", image, kept);
  check_bytes(graph, "max_pool2d_gradient", image + kept, image);

  const Value a = graph.input("a", i32, {512, 512}), b = graph.input("b", i32, {512, 512});
  matmul(a, b);
  check_bytes(graph, "matmul", 2 * 512 * 512 * 4, 512 * 512 * 4);

  const Value rows = graph.input("rows", f32, {64, 100000});
  softmax(rows);
  check_bytes(graph, "softmax", 64 * 100000 * 4, 64 * 100000 * 4);

  Graph sum;
  const Value y = sum.input("y", f32, {1000, 1000});
  y + y;
  check_bytes(sum, "add", 4'000'000, 4'000'000);
}

TEST_CASE("a launch of an operand with itself is not that of two operands") {
  Graph graph;
  const Value x = graph.input("x", f32, {1000, 1000}), y = graph.input("y", f32, {1000, 1000});
  const AnchoredNode one(graph.node((x + x).node_id())), two(graph.node((x + y).node_id()));
  const Preset preset = load_preset("ascend910b1");
  LaunchCache cache, other_way;
  CHECK(cache.launch(preset, one, {})->price.bytes_in == 4'000'000);
  CHECK(cache.launch(preset, two, {})->price.bytes_in == 8'000'000);
  CHECK(other_way.launch(preset, two, {})->price.bytes_in == 8'000'000);
  CHECK(other_way.launch(preset, one, {})->price.bytes_in == 4'000'000);
}

TEST_CASE("a task fits in L2 by the bytes that it reads once") {
  // Operand and result take nine tenths of L2 together, what the windows read more than all of it.
  Graph graph;
  const Value x = graph.input("x", f32, {8, 56, 56, 64});
  max_pool2d(x, {.window = {3, 3}, .stride = {1, 1}});
  Preset preset = load_preset("ascend910b1");
  const Launch launch = schedule(preset, node_of(graph, "max_pool2d"));
  preset.l2_bytes = (launch.price.bytes_in + launch.price.bytes_out) * 10 / 9;
  REQUIRE(launch.split.work.bytes_in > preset.l2_bytes);
  CHECK(resident_price(preset, launch, Residency::kWarm).memory_roof_ns == 0);
}

TEST_CASE("advice begins with the pool whose gradient loses most") {
  Graph graph;
  const Value x = graph.state("x", zeros({32, 112, 112, 64}, f32));
  const Value pooled = max_pool2d(x, {.window = {3, 3}, .stride = {2, 2}});
  Session session(graph, device("npu:0"), {.device_options = options("ascend910b1")});
  const Loop loop = session.sink({.update = sgd(0.1).minimize(mean(pooled * pooled))});
  const Folder folder("profile_bytes_again");
  write_profile(loop.program(), {.directory = folder.path()});
  const std::string advice = folder.read("advice.txt");
  CAPTURE(advice);
  const size_t first = advice.find("1. "), second = advice.find("2. ");
  REQUIRE(second != std::string::npos);
  CHECK(contains(advice.substr(first, second - first), "max_pool2d_gradient"));
}

TEST_SUITE_END();

}  // namespace
}  // namespace keel::npu
