// Tests of what L2 holds as tasks of a step follow each other, and what they take by it.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "keel/backends/npu/npu_library.h"
#include "keel/backends/npu/resident_prices.h"
#include "keel/backends/npu/scheduler/l2_contents.h"
#include "keel/backends/npu/scheduler/residency_plan.h"
#include "keel/backends/npu/scheduler/resident_price.h"
#include "keel/graph/control/control_flow.h"
#include "keel/ops/ops.h"

#include "counted_allocations.h"
#include "npu_model_for_tests.h"
#include "random_npu_nodes_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::npu;
using namespace npu_model_test;

uint64_t bytes_of(const std::vector<L2Contents::WrittenBack>& list, uint32_t writer) {
  uint64_t bytes = 0;
  for (const L2Contents::WrittenBack& back : list) bytes += back.writer == writer ? back.bytes : 0;
  return bytes;
}

// L2 byte by byte: those used last are at the end.
class EveryByte {
 public:
  explicit EveryByte(uint64_t capacity) : capacity_(capacity) {}

  uint64_t held(const MemoryRange& range) const {
    uint64_t bytes = 0;
    for (const Byte& b : bytes_) bytes += lies_in(b, range) ? 1 : 0;
    return bytes;
  }
  // Returns how many bytes of each of four writers left.
  std::vector<uint64_t> use(const MemoryRange& range, int writer) {
    std::vector<Byte> used;
    for (uint64_t at = range.begin; at < range.end; ++at) {
      Byte byte{range.buffer, at, writer};
      for (const Byte& b : bytes_) {
        if (writer < 0 && b.buffer == range.buffer && b.at == at) byte.writer = b.writer;
      }
      used.push_back(byte);
    }
    std::erase_if(bytes_, [&](const Byte& b) { return lies_in(b, range); });
    bytes_.insert(bytes_.end(), used.begin(), used.end());
    std::vector<uint64_t> left(4);
    while (bytes_.size() > capacity_) {
      if (bytes_[0].writer >= 0) ++left[static_cast<size_t>(bytes_[0].writer)];
      bytes_.erase(bytes_.begin());
    }
    return left;
  }

 private:
  struct Byte {
    uint64_t buffer, at;
    int writer;
  };
  static bool lies_in(const Byte& b, const MemoryRange& range) {
    return b.buffer == range.buffer && b.at >= range.begin && b.at < range.end;
  }

  uint64_t capacity_;
  std::vector<Byte> bytes_;
};

Preset with_l2(int64_t bytes) {
  Preset preset = load_preset("ascend910b1");
  preset.l2_bytes = bytes;
  return preset;
}

constexpr int64_t kMiB = int64_t{1} << 20;

// A list of the graph as it stands, nothing fused, with what each task moves.
struct Lowered {
  TaskList list;
  NpuLibrary::Launches launches;
  std::vector<TaskTraffic> traffic;
};
Lowered lowered(const Graph& graph, const Preset& preset) {
  NpuLibrary library(std::make_shared<const Preset>(preset));
  Lowered result{lower(graph, library), library.take_launches(), {}};
  for (const Task& task : result.list.tasks) {
    const auto it = result.launches.find(task.kernel);
    TaskTraffic traffic;
    if (it != result.launches.end()) {
      traffic.of_cores = true;
      traffic.read = static_cast<uint64_t>(it->second.launch->price.bytes_in);
      traffic.written = static_cast<uint64_t>(it->second.launch->price.bytes_out);
    }
    result.traffic.push_back(traffic);
  }
  return result;
}

// A list of tasks that read and write whole buffers, with loops.
struct MadeList {
  TaskList list;
  std::vector<TaskTraffic> traffic;

  uint32_t buffer(int64_t bytes) {
    list.table.push_back({.space = Space::kState,
                          .index = static_cast<uint32_t>(list.table.size()),
                          .bytes = static_cast<size_t>(bytes)});
    return static_cast<uint32_t>(list.table.size()) - 1;
  }
  size_t task(const std::vector<uint32_t>& reads, const std::vector<uint32_t>& writes) {
    const size_t number = add({}, {.of_cores = true});
    list.tasks[number].first_argument = static_cast<uint32_t>(list.arguments.size());
    list.infos[number].inputs = static_cast<uint32_t>(reads.size());
    list.infos[number].outputs.assign(writes.size(), f32);
    for (const uint32_t entry : reads) traffic[number].read += list.table[entry].bytes;
    for (const uint32_t entry : writes) traffic[number].written += list.table[entry].bytes;
    for (const auto* entries : {&reads, &writes})
      list.arguments.insert(list.arguments.end(), entries->begin(), entries->end());
    list.tasks[number].argument_count = static_cast<uint32_t>(reads.size() + writes.size());
    return number;
  }
  size_t begin_loop(int64_t turns) {
    return add({.kind = TaskKind::kLoopSwitch, .jump = Jump::kIfReached, .limit = turns}, {});
  }
  void end_loop(size_t begin) {
    add({.kind = TaskKind::kLoopActive,
         .jump = Jump::kNextTurn,
         .target = static_cast<uint32_t>(begin)},
        {});
    list.tasks[begin].target = static_cast<uint32_t>(list.tasks.size());
  }
  // A cond of one task in each branch.
  void cond(const std::vector<uint32_t>& first_reads, const std::vector<uint32_t>& second_reads,
            const std::vector<uint32_t>& writes) {
    const size_t choice = add({.jump = Jump::kIfFalse, .device_ns = 1}, {});
    task(first_reads, writes);
    const size_t leave = add({.jump = Jump::kAlways}, {});
    list.tasks[choice].target = static_cast<uint32_t>(list.tasks.size());
    task(second_reads, writes);
    list.tasks[leave].target = static_cast<uint32_t>(list.tasks.size());
  }

 private:
  size_t add(const Task& task, const TaskTraffic& moved) {
    list.tasks.push_back(task);
    list.infos.emplace_back();
    traffic.push_back(moved);
    return list.tasks.size() - 1;
  }
};

}  // namespace

TEST_CASE("npu residency: the bytes that were used last are held and written ones leave once") {
  L2Contents l2(100);
  CHECK(bytes_of(l2.write({1, 0, 60}, 7), 7) == 0);
  CHECK(bytes_of(l2.read({2, 0, 60}), 7) == 20);
  CHECK(l2.held({1, 0, 60}) == 40);
  CHECK(l2.held({1, 20, 30}) == 10);
  CHECK(l2.held({2, 0, 60}) == 60);
  CHECK(bytes_of(l2.write({1, 0, 60}, 8), 7) == 0);  // what lies there is no one's any more
  CHECK(l2.held({2, 0, 60}) == 40);
  const auto left = l2.read({3, 0, 100});
  CHECK(bytes_of(left, 8) == 60);
  CHECK(bytes_of(left, 7) == 0);
  l2.exchange(3, 4);
  CHECK(l2.held({4, 0, 100}) == 100);
  CHECK(l2.held({3, 0, 100}) == 0);
  l2.forget({4, 0, 50});
  CHECK(l2.held({4, 0, 100}) == 50);
}

TEST_CASE("npu residency: ranges are held as their bytes are one by one") {
  CHECK(holds("bytes of L2", 2000, [] {
    using random_npu_nodes::pick;
    const auto capacity = static_cast<uint64_t>(pick(1, 60));
    L2Contents l2(capacity);
    EveryByte bytes(capacity);
    std::vector<MemoryRange> ranges;
    for (int i = 0; i < 40; ++i) {
      const auto begin = static_cast<uint64_t>(pick(0, 30));
      MemoryRange range{static_cast<uint64_t>(pick(0, 2)), begin,
                        begin + static_cast<uint64_t>(pick(0, 30))};
      // Tasks mostly use again what an earlier one used as a whole.
      if (i > 0 && pick(0, 1) == 0) range = ranges[static_cast<size_t>(pick(0, i - 1))];
      ranges.push_back(range);
      RC_ASSERT(l2.held(range) == bytes.held(range));
      const int writer = static_cast<int>(pick(-1, 3));
      const auto left =
          writer < 0 ? l2.read(range) : l2.write(range, static_cast<uint32_t>(writer));
      const std::vector<uint64_t> expected = bytes.use(range, writer);
      for (uint32_t w = 0; w < 4; ++w) RC_ASSERT(bytes_of(left, w) == expected[w]);
    }
  }));
}

TEST_CASE("npu residency: what is undone leaves what was held and what is pushed out later") {
  CHECK(holds("undone uses of L2", 1000, [] {
    using random_npu_nodes::pick;
    const auto range = [] {
      const auto begin = static_cast<uint64_t>(pick(0, 30));
      return MemoryRange{static_cast<uint64_t>(pick(0, 2)), begin,
                         begin + static_cast<uint64_t>(pick(0, 30))};
    };
    L2Contents l2(static_cast<uint64_t>(pick(1, 60)));
    const auto use = [&](int times) {
      for (int i = 0; i < times; ++i) {
        switch (pick(0, 3)) {
          case 0:
            l2.read(range());
            break;
          case 1:
            l2.write(range(), static_cast<uint32_t>(pick(0, 3)));
            break;
          case 2:
            l2.forget(range());
            break;
          default:
            l2.exchange(static_cast<uint64_t>(pick(0, 1)), 2);
        }
      }
    };
    use(15);
    L2Contents kept = l2;
    l2.try_out();
    use(10);
    l2.try_out();
    use(10);
    l2.undo();
    use(5);
    l2.undo();
    for (int i = 0; i < 20; ++i) {
      const MemoryRange next = range();
      RC_ASSERT(l2.held(next) == kept.held(next));
      const auto left = l2.write(next, 4), expected = kept.write(next, 4);
      for (uint32_t w = 0; w < 5; ++w) RC_ASSERT(bytes_of(left, w) == bytes_of(expected, w));
    }
  }));
}

// Conds one behind the other, each with buffers of its own, all of which L2 has room for: it holds
// more and more. A copy of what it holds for each cond took time that grew with the square.
TEST_CASE("npu residency: the work for conds grows with them and not with their square") {
  if (!keel::testing::can_count_allocations()) return;
  const auto allocations = [](int conds) {
    MadeList made;
    for (int i = 0; i < conds; ++i) {
      const uint32_t before = made.buffer(64), made_before = made.buffer(64);
      made.task({before}, {made_before});
      made.cond({made_before}, {before}, {made.buffer(64)});
    }
    return keel::testing::count_allocations([&] {
      const std::vector<Residency> plan = plan_residency(made.list, made.traffic, 192 * kMiB);
      CHECK(plan.size() == made.list.tasks.size());
    });
  };
  CHECK(allocations(400) < 3 * allocations(200));
}

TEST_CASE("npu residency: a task finds what the one before it wrote as far as there is room") {
  Graph graph;
  const Value x = graph.input("x", f32, Shape{kMiB});  // 4 MiB
  graph.set_outputs({sqrt(exp(x))});
  const Lowered program = lowered(graph, with_l2(192 * kMiB));
  REQUIRE(program.list.tasks.size() == 2);
  const auto plan = [&](int64_t l2) {
    return plan_residency(program.list, program.traffic, static_cast<uint64_t>(l2));
  };
  const std::vector<Residency> wide = plan(192 * kMiB);
  CHECK(wide[0].operands == 0);  // an input is of the host
  CHECK(wide[0].results == 1);
  CHECK(wide[1].operands == 1);
  CHECK(wide[1].results == 1);
  const std::vector<Residency> narrow = plan(2 * kMiB);
  CHECK(narrow[1].operands == doctest::Approx(0.5));
  CHECK(narrow[0].results == doctest::Approx(0));
  const std::vector<Residency> none = plan(0);
  CHECK(none[1].operands == 0);
  CHECK(none[1].results == 0);
}

TEST_CASE("npu residency: a step finds what the step before it left of its states") {
  Graph graph;
  const Value state = graph.state("w", zeros({kMiB}));
  graph.add_update(state, state * 2.0f);
  const Lowered program = lowered(graph, with_l2(192 * kMiB));
  std::vector<Residency> shares;
  const std::vector<Residency> plan =
      plan_residency(program.list, program.traffic, uint64_t{192} << 20);
  for (size_t i = 0; i < plan.size(); ++i) {
    if (program.traffic[i].of_cores) shares.push_back(plan[i]);
  }
  REQUIRE(!shares.empty());
  CHECK(shares[0].operands == 1);
  CHECK(shares[0].results == 1);
}

TEST_CASE("npu residency: turns of a loop and both branches find what is held before them") {
  Graph graph;
  const Value state = graph.state("w", zeros({kMiB}));
  const auto turn = [](const Values& v) { return Values{v[0] + 1, neg(v[1])}; };
  const Value zero = graph.constant(Tensor::full(i32, {}, 0));
  const Value turned = while_loop(
      {zero, state}, [](const Values& v) { return less(v[0], 3); }, turn)[1];
  const Value chosen = cond(
      greater(sum(turned), 1.0f), {turned}, [](const Values& v) { return Values{exp(v[0])}; },
      [](const Values& v) { return Values{sqrt(v[0])}; })[0];
  graph.set_outputs({chosen});
  const Lowered program = lowered(graph, with_l2(192 * kMiB));
  const std::vector<Residency> plan =
      plan_residency(program.list, program.traffic, uint64_t{192} << 20);
  int wide = 0;
  for (size_t i = 0; i < plan.size(); ++i) {
    if (!program.traffic[i].of_cores || program.traffic[i].read < 4 * kMiB) continue;
    CAPTURE(program.list.infos[i].name);
    CHECK(plan[i].operands == 1);
    ++wide;
  }
  CHECK(wide >= 4);  // the turn, the sum and either branch
  // Of a quarter of the state there is a quarter at most.
  const std::vector<Residency> narrow = plan_residency(program.list, program.traffic, kMiB);
  for (size_t i = 0; i < narrow.size(); ++i) {
    if (program.traffic[i].read >= 4 * kMiB) CHECK(narrow[i].operands <= 0.25);
  }
}

// What is read before, 64 MiB, leaves nothing of the loop's operand.
TEST_CASE("npu residency: all turns of a loop but the first find what its like left") {
  for (const auto& pair : {std::pair{1, 1}, {1, 4}, {2, 4}, {4, 1}}) {
    const int outer = pair.first, inner_turns = pair.second, turns = outer * inner_turns;
    CAPTURE(turns);
    Graph graph;
    const Value x = graph.input("x", f32, Shape{16 * kMiB});
    const Value state = graph.state("w", zeros({kMiB}));
    const Value begin = sum(exp(x));
    const auto any = [](const Values& v) { return less(v[0], 1.0f); };
    const auto inner_turn = [&](const Values& v) { return Values{sum(state * v[0])}; };
    const auto turn = [&](const Values& v) {
      return while_loop({v[0]}, any, inner_turn, {.trip_count = inner_turns});
    };
    graph.set_outputs(while_loop({begin}, any, turn, {.trip_count = outer}));
    const Lowered program = lowered(graph, with_l2(8 * kMiB));
    const std::vector<Residency> plan =
        plan_residency(program.list, program.traffic, uint64_t{8} << 20);
    int products = 0;
    for (size_t i = 0; i < plan.size(); ++i) {
      if (program.list.infos[i].name != "mul") continue;
      CHECK(plan[i].operands == doctest::Approx(1 - 1.0 / turns).epsilon(1e-4));
      ++products;
    }
    CHECK(products == 1);
  }
}

// Turns read 4 MiB, the 4 MiB that were written before the loop and 2 MiB more. Of 8 MiB, the first
// turn pushes none of what was written out: it is read behind the first 4 MiB. The second turn
// begins with these again, of which 2 MiB are gone, and pushes out half of it; later ones push out
// what is as it is in memory.
TEST_CASE("npu residency: what is written before a loop goes to memory once") {
  for (const auto& pair : {std::pair{1, 1}, {1, 2}, {1, 3}, {1, 7}, {3, 5}}) {
    const int outer = pair.first, inner = pair.second;
    CAPTURE(outer);
    CAPTURE(inner);
    MadeList made;
    const uint32_t first = made.buffer(4 * kMiB), between = made.buffer(4 * kMiB);
    const uint32_t last = made.buffer(2 * kMiB);
    const size_t outside = made.begin_loop(outer);
    const size_t writer = made.task({}, {between});
    const size_t inside = made.begin_loop(inner);
    for (const uint32_t read : {first, between, last}) made.task({read}, {});
    made.end_loop(inside);
    made.end_loop(outside);
    const std::vector<Residency> plan = plan_residency(made.list, made.traffic, uint64_t{8} << 20);
    CHECK(plan[writer].results == (inner == 1 ? 1 : 0.5));
  }
}

// Of the 4 MiB that are written before, either branch pushes half out of 8 MiB: it reads 6 MiB of
// its own.
TEST_CASE("npu residency: only one of two branches sends results to memory") {
  Graph graph;
  const Value x = graph.input("x", f32, {});
  const Value p = graph.state("p", zeros({kMiB * 3 / 2}));
  const Value q = graph.state("q", zeros({kMiB * 3 / 2}));
  const Value written = broadcast_to(x, {kMiB});
  const Value chosen = cond(
      greater(x, 0.0f), {p, q}, [](const Values& v) { return Values{sum(v[0])}; },
      [](const Values& v) { return Values{sum(v[1])}; })[0];
  graph.set_outputs({written, chosen});
  const Lowered program = lowered(graph, with_l2(8 * kMiB));
  const std::vector<Residency> plan =
      plan_residency(program.list, program.traffic, uint64_t{8} << 20);
  int found = 0;
  for (size_t i = 0; i < plan.size(); ++i) {
    if (!program.traffic[i].of_cores || program.traffic[i].written != 4 * kMiB) continue;
    CHECK(plan[i].results >= 0.45);
    CHECK(plan[i].results <= 0.55);
    ++found;
  }
  CHECK(found == 1);
}

TEST_CASE("npu residency: a task takes what its work takes with those bytes in L2") {
  const Preset preset = with_l2(192 * kMiB);
  Graph graph;
  const Value x = graph.input("x", f32, Shape{4 * kMiB});
  graph.set_outputs({neg(exp(x))});
  Lowered program = lowered(graph, preset);
  const Launch cold = *program.launches.at(program.list.tasks[1].kernel).launch;
  VectorWork work = cold.split.work;
  work.cached_bytes = work.bytes_in;
  work.cached_out = work.bytes_out;
  const TaskPrice expected = price_vector(preset, work, cold.price.block_dim);
  price_by_residency(program.list, program.launches, preset);
  CHECK(program.list.tasks[1].device_ns == expected.total_ns);
  CHECK(program.list.tasks[1].device_ns < cold.price.total_ns);
  const TaskLaunch& warm = program.launches.at(program.list.tasks[1].kernel);
  CHECK(warm.launch->price.total_ns == expected.total_ns);
  // Without an L2 nothing is warm.
  Lowered without = lowered(graph, with_l2(0));
  const int64_t before = without.list.tasks[1].device_ns;
  price_by_residency(without.list, without.launches, with_l2(0));
  CHECK(without.list.tasks[1].device_ns == before);
}

TEST_CASE("npu residency: advice promises what memory and L2 take for results where they lie") {
  Graph graph;
  const Value x = graph.input("x", f32, Shape{8 * kMiB});  // 32 MiB
  graph.set_outputs({neg(exp(x))});
  for (const bool has_room : {false, true}) {
    CAPTURE(has_room);
    const Preset preset = with_l2(has_room ? 192 * kMiB : 0);
    Lowered program = lowered(graph, preset);
    price_by_residency(program.list, program.launches, preset);
    const Launch& launch = *program.launches.at(program.list.tasks[0].kernel).launch;
    REQUIRE(contains(launch.fix, "intermediates stay on the core"));
    const double bytes_per_ns = has_room ? preset.l2_gb_per_s : preset.hbm_gb_per_s;
    const auto results_ns = static_cast<int64_t>(32.0 * kMiB / bytes_per_ns);
    CHECK(results_ns > launch.price.overhead_ns);
    CHECK(launch.gain_ns == results_ns);
  }
}

TEST_CASE("npu residency: advice compares with what takes a tasks place in the same L2") {
  const Preset preset = with_l2(192 * kMiB);
  const auto product_in = [&](DType dtype) {
    Graph graph;
    graph.set_outputs(
        {matmul(graph.input("a", dtype, {16, 8192}), graph.input("b", dtype, {8192, 1024}))});
    return schedule(preset, node_of(graph, "matmul"));
  };
  const Launch wide = product_in(f32), narrow = product_in(f16);
  REQUIRE(contains(wide.fix, "cast the operands to f16"));
  for (const Residency& residency : {Residency::kCold, Residency::kWarm, Residency{0.5, 0}}) {
    const auto total = [&](const Launch& launch) {
      return resident_price(preset, launch, residency).total_ns;
    };
    CHECK(gain_of(preset, wide, residency) == total(wide) - total(narrow));
  }
  CHECK(wide.gain_ns == gain_of(preset, wide, Residency::kCold));
  CHECK(gain_of(preset, wide, Residency::kWarm) != wide.gain_ns);
}

TEST_CASE("npu residency: what is warm never makes it slower nor faster than both roofs") {
  CHECK(holds("prices by residency", 400, [] {
    using random_npu_nodes::pick;
    Preset preset = random_npu_nodes::random_preset();
    preset.l2_bytes = pick(0, 64) * kMiB;
    Graph graph;
    const DType dtype = *rc::gen::element(f32, f16);
    const Value x = graph.input("x", dtype, Shape{pick(1, 700), pick(1, 700)});
    if (random_npu_nodes::coin())
      graph.set_outputs({matmul(x, graph.input("y", dtype, Shape{x.shape()[1], pick(1, 700)}))});
    else
      graph.set_outputs({exp(x)});
    const Launch launch = schedule(preset, AnchoredNode(graph.nodes().back()));
    const auto share = [] { return static_cast<double>(pick(0, 100)) / 100; };
    const Residency residency{share(), share()};
    const TaskPrice price = resident_price(preset, launch, residency);
    RC_ASSERT(price.total_ns <= launch.price.total_ns);
    RC_ASSERT(price.total_ns >= price.compute_roof_ns);
    RC_ASSERT(price.total_ns >= price.memory_roof_ns);
    RC_ASSERT(price.overhead_ns + price.pipeline_ns == price.total_ns);
    RC_ASSERT(price.block_dim == launch.price.block_dim);
    for (const int64_t busy : price.busy_cycles) RC_ASSERT(busy <= price.cycles);
    RC_ASSERT(resident_price(preset, launch, Residency::kCold).total_ns == launch.price.total_ns);
    const int64_t gain = gain_of(preset, launch, residency);
    RC_ASSERT(gain >= 0);
    RC_ASSERT(gain <= price.total_ns);
  }));
}

TEST_SUITE_END();
