// KEEL_NPU_STRICT's runner: sound kernels give the bits of a plain run, and each way in which a
// kernel or a memory plan can be unsound is an error that names it.
#include <cstring>
#include <functional>
#include <map>

#include <doctest/doctest.h>

#include "keel/backends/common/guarded_memory.h"
#include "keel/backends/common/host_backend.h"
#include "keel/backends/common/strict_runner.h"
#include "keel/backends/npu/npu_library.h"
#include "keel/graph/passes/passes.h"

#include "host_launch_for_tests.h"
#include "ops_for_tests.h"
#include "support/random_graph.h"

namespace keel {
namespace {

using testing::contains;
using testing::error_of;
using testing::HostLaunch;

#if defined(__clang__) || defined(__GNUC__)
#define KEEL_UNSANITIZED __attribute__((no_sanitize("address")))
#endif

constexpr int64_t kCount = 100;

const std::vector<KernelPlan::InPlace> kNowhere;
const std::vector<KernelPlan::InPlace> kFirstInput = {{0, 0}};
const std::vector<KernelPlan::InPlace> kBothInputs = {{0, 0}, {0, 1}};

using Body = std::function<void(void* const* args, int phase, int block)>;

// A kernel that does what a test says.
class TestKernel final : public Kernel {
 public:
  TestKernel(Body body, int blocks, int phases)
      : body_(std::move(body)), blocks_(blocks), phases_(phases) {}
  int phases() const override { return phases_; }
  int blocks(int) const override { return blocks_; }
  void run(void* const* args, int phase, int block) const override { body_(args, phase, block); }

 private:
  Body body_;
  int blocks_;
  int phases_;
};

struct TestPlan {
  Body body;
  int blocks = 1;
  int phases = 1;
  size_t workspace_bytes = 0;
  std::vector<KernelPlan::InPlace> in_place;
};

// neg and sub are what the test says; every other op doubles its input.
class TestLibrary final : public KernelLibrary {
 public:
  explicit TestLibrary(TestPlan tested) : tested_(std::move(tested)) {}
  Support supports(const Node&) const override { return {true, ""}; }
  KernelPlan plan(const Node& node, const StateLayouts&) const override {
    const Body doubles = [](void* const* args, int, int) {
      for (int64_t i = 0; i < kCount; ++i) {
        static_cast<float*>(args[1])[i] = 2 * static_cast<const float*>(args[0])[i];
      }
    };
    const bool tested = node.op_name() == "neg" || node.op_name() == "sub";
    const TestPlan test = tested ? tested_ : TestPlan{doubles};
    KernelPlan plan;
    plan.kernel = std::make_unique<TestKernel>(test.body, test.blocks, test.phases);
    plan.workspace_bytes = test.workspace_bytes;
    plan.in_place = test.in_place;
    return plan;
  }
  KernelPlan plan_copy(size_t bytes) const override {
    KernelPlan plan;
    plan.kernel = make_copy_kernel(bytes);
    return plan;
  }
  int64_t control_ns(TaskKind) const override { return 0; }

 private:
  TestPlan tested_;
};

// x -> double -> neg -> double -> output.
struct Chain {
  Graph graph;
  Chain() {
    const Value x = graph.input("x", f32, {kCount});
    graph.set_outputs({abs(neg(abs(x)))});
  }
};

float* floats(Buffer* buffer) { return static_cast<float*>(buffer->address()); }

// What a strict run of the chain with such a neg says; empty where it finds nothing.
std::string strict_error(TestPlan neg) {
  Chain chain;
  HostLaunch launch(lower(chain.graph, TestLibrary(std::move(neg))), true);
  for (int64_t i = 0; i < kCount; ++i) floats(launch.args.inputs[0])[i] = static_cast<float>(i);
  return error_of([&] { launch.run(); });
}

const float* source(void* const* args) { return static_cast<const float*>(args[0]); }
float* target(void* const* args) { return static_cast<float*>(args[1]); }

void negate(void* const* args, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) target(args)[i] = -source(args)[i];
}

KEEL_UNSANITIZED void write_byte(char* at) { *static_cast<volatile char*>(at) = 1; }
KEEL_UNSANITIZED float read_float(const float* at) {
  return *static_cast<const volatile float*>(at);
}

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("strict: sound kernels run in any number of blocks") {
  for (const int blocks : {1, 3, 7}) {
    for (const bool in_place : {false, true}) {
      CAPTURE(blocks);
      CAPTURE(in_place);
      const TestPlan neg{.body =
                             [blocks](void* const* args, int, int block) {
                               negate(args, kCount * block / blocks, kCount * (block + 1) / blocks);
                             },
                         .blocks = blocks,
                         .in_place = in_place ? kFirstInput : kNowhere};
      Chain chain;
      HostLaunch launch(lower(chain.graph, TestLibrary(neg)), true);
      for (int64_t i = 0; i < kCount; ++i) floats(launch.args.inputs[0])[i] = static_cast<float>(i);
      for (int again = 0; again < 2; ++again) {
        launch.run();
        for (int64_t i = 0; i < kCount; ++i) {
          CHECK(floats(launch.args.outputs[0])[i] == static_cast<float>(-4 * i));
        }
      }
    }
  }
}

TEST_CASE("strict: a task as planned has to give the bits of its kernel") {
  using Run = std::function<void(void* const* args)>;
  class TestRun final : public PlannedRun {
   public:
    explicit TestRun(Run run) : run_(std::move(run)) {}
    void run(void* const* args) const override { run_(args); }

   private:
    Run run_;
  };
  // In place of its input, which the run as planned finds untouched.
  const TestPlan neg{.body = [](void* const* args, int, int) { negate(args, 0, kCount); },
                     .in_place = kFirstInput};
  const auto error_with = [&](Run run, int* runs = nullptr) {
    Chain chain;
    TaskList list = lower(chain.graph, TestLibrary(neg));
    PlannedRuns planned;
    planned[list.tasks[1].kernel] = std::make_shared<TestRun>([=](void* const* args) {
      if (runs != nullptr) ++*runs;
      run(args);
    });
    HostLaunch launch(std::move(list), true, planned);
    for (int64_t i = 0; i < kCount; ++i) floats(launch.args.inputs[0])[i] = static_cast<float>(i);
    return error_of([&] { launch.run(); });
  };
  int runs = 0;
  CHECK(error_with([](void* const* args) { negate(args, 0, kCount); }, &runs).empty());
  CHECK(runs == 1);
  const std::string gap = error_with([](void* const* args) { negate(args, 1, kCount); });
  CHECK(contains(gap, "output 0"));
  CHECK(contains(gap, "element 0 (byte 0 of 400) is another where the cores walk the tiles"));
  const std::string twice = error_with([](void* const* args) {
    negate(args, 0, kCount);
    target(args)[70] *= 2;
  });
  CHECK(contains(twice, "element 70"));
  CHECK(contains(twice, "task 1 (neg)"));
}

TEST_CASE("strict: a write outside an operand is found with argument block and byte") {
  const std::string behind = strict_error({.body = [](void* const* args, int, int) {
    negate(args, 0, kCount);
    write_byte(reinterpret_cast<char*>(target(args) + kCount));
  }});
  CHECK(contains(behind, "output 0"));
  CHECK(contains(behind, "block 0 of phase 0 wrote outside, at byte 400 of 400"));
  CHECK(contains(behind, "task 1 (neg)"));
  CHECK(contains(behind, "step 0"));
  CHECK(contains(behind, "test_strict.cpp:"));

  const std::string before = strict_error({.body = [](void* const* args, int, int) {
    negate(args, 0, kCount);
    write_byte(reinterpret_cast<char*>(target(args)) - 1);
  }});
  CHECK(contains(before, "output 0"));
  CHECK(contains(before, "at byte -1 of 400"));
}

TEST_CASE("strict: a changed input is found") {
  const std::string text = strict_error({.body = [](void* const* args, int, int) {
    negate(args, 0, kCount);
    const_cast<float*>(source(args))[7] = 3;
  }});
  CHECK(contains(text, "input 0"));
  CHECK(contains(text, "block 0 of phase 0 changed it, at byte 3"));

  const std::string third = strict_error({.body =
                                              [](void* const* args, int, int block) {
                                                negate(args, block * 25, block * 25 + 25);
                                                if (block == 2)
                                                  const_cast<float*>(source(args))[60] = 3;
                                              },
                                          .blocks = 4});
  CHECK(contains(third, "block 2 of phase 0 changed it, at byte 24"));
}

TEST_CASE("strict: an element left unwritten is found") {
  const std::string text =
      strict_error({.body = [](void* const* args, int, int) { negate(args, 0, kCount - 1); }});
  CHECK(contains(text, "output 0"));
  CHECK(contains(text, "element 99 (byte 396 of 400) is not written"));
}

TEST_CASE("strict: two blocks that write the same byte are found though the values are equal") {
  const std::string text = strict_error(
      {.body = [](void* const* args, int, int block) { negate(args, block * 40, block * 40 + 60); },
       .blocks = 2});
  CHECK(contains(text, "output 0"));
  CHECK(contains(text, "block 1 of phase 0 and block 0 both write byte"));
}

TEST_CASE("strict: a block that reads what its neighbours write is found") {
  // In place, which in order gives the right result: block 1 wants an old value of block 0's.
  const std::string in_place = strict_error({.body =
                                                 [](void* const* args, int, int block) {
                                                   if (block == 1) {
                                                     const float first = source(args)[0];
                                                     negate(args, 50, 100);
                                                     target(args)[99] += first;
                                                   } else {
                                                     negate(args, 0, 50);
                                                   }
                                                 },
                                             .blocks = 2,
                                             .in_place = kFirstInput});
  CHECK(contains(in_place, "input 0 and in place output 0"));
  CHECK(contains(in_place, "element 99 (byte 396 of 400) depends on memory"));

  const std::string workspace = strict_error({.body =
                                                  [](void* const* args, int, int block) {
                                                    auto* shared = static_cast<float*>(args[2]);
                                                    if (block == 0) shared[0] = 1;
                                                    negate(args, block * 50, block * 50 + 50);
                                                    target(args)[block * 50] *= shared[0];
                                                  },
                                              .blocks = 2,
                                              .workspace_bytes = 4});
  CHECK(contains(workspace, "output 0"));
  CHECK(contains(workspace, "depends on memory that the task did not write"));
}

TEST_CASE("strict: an input that is read again after it was overwritten is found") {
  const TestPlan neg{.body =
                         [](void* const* args, int, int) {
                           negate(args, 0, kCount);
                           target(args)[60] += 3 * source(args)[60];
                         },
                     .in_place = kFirstInput};
  const std::string text = strict_error(neg);
  CHECK(contains(text, "output 0"));
  CHECK(contains(text, "element 60 (byte 240 of 400) is another where each output has memory"));
  CHECK(contains(text, "reads what it has overwritten (input 0 and in place output 0)"));

  TestPlan elsewhere = neg;
  elsewhere.in_place = kNowhere;
  CHECK(strict_error(elsewhere).empty());
}

namespace {

// double x, then the first operand's negative plus the second, in two passes: of a value and its
// view that is 0.
struct Difference {
  Graph graph;
  Difference() {
    const Value t = abs(graph.input("x", f32, {kCount}));
    graph.set_outputs({abs(reshape(t, {1, kCount}) - t)});
  }
  static TestPlan plan(std::vector<KernelPlan::InPlace> in_place) {
    return {.body =
                [](void* const* args, int, int) {
                  auto* to = static_cast<float*>(args[2]);
                  for (int64_t i = 0; i < kCount; ++i) to[i] = -source(args)[i];
                  for (int64_t i = 0; i < kCount; ++i) to[i] += static_cast<float*>(args[1])[i];
                },
            .in_place = std::move(in_place)};
  }
  TaskList lowered(std::vector<KernelPlan::InPlace> in_place) {
    return lower(graph, TestLibrary(plan(std::move(in_place))));
  }
};

}  // namespace

TEST_CASE("strict: an argument whose view is overwritten before it is read is found") {
  Difference difference;
  HostLaunch launch(difference.lowered(kBothInputs), true);  // the second pair is not true
  for (int64_t i = 0; i < kCount; ++i) floats(launch.args.inputs[0])[i] = static_cast<float>(i + 1);
  const std::string text = error_of([&] { launch.run(); });
  CHECK(contains(text, "element 0 (byte 0 of 400) is another where each output has memory"));
  CHECK(contains(text, "has overwritten (input 0 and input 1 and in place output 0)"));
}

TEST_CASE("an output takes over memory only with a pair for every input that shows it") {
  Difference difference;
  const auto in_place = [](const TaskList& list) {
    const uint32_t* arguments = &list.arguments[list.tasks[1].first_argument];
    REQUIRE(list.tasks[1].argument_count == 3);
    CHECK(arguments[0] == arguments[1]);
    return arguments[2] == arguments[0];
  };
  CHECK(in_place(difference.lowered(kBothInputs)));
  CHECK_FALSE(in_place(difference.lowered(kFirstInput)));
  CHECK_FALSE(in_place(difference.lowered({{0, 1}})));
  HostLaunch launch(difference.lowered(kFirstInput), true);
  for (int64_t i = 0; i < kCount; ++i) floats(launch.args.inputs[0])[i] = static_cast<float>(i);
  launch.run();
  for (int64_t i = 0; i < kCount; ++i) CHECK(floats(launch.args.outputs[0])[i] == 0);
}

TEST_CASE("strict: what one phase leaves in the workspace is there in the next") {
  const std::string text = strict_error({.body =
                                             [](void* const* args, int phase, int block) {
                                               auto* sums = static_cast<float*>(args[2]);
                                               if (phase == 0) {
                                                 sums[block] = static_cast<float>(block);
                                               } else if (block == 0) {
                                                 negate(args, 0, kCount);
                                                 target(args)[0] = sums[0] + sums[1] + sums[2];
                                               }
                                             },
                                         .blocks = 3,
                                         .phases = 2,
                                         .workspace_bytes = 12});
  CHECK(text.empty());
}

TEST_CASE("strict: a result that depends on memory beyond an operand is found") {
  const std::string text = strict_error({.body = [](void* const* args, int, int) {
    negate(args, 0, kCount);
    // Its bits, because arithmetic would not keep a NaN's.
    const float beyond = read_float(source(args) + kCount);
    std::memcpy(target(args) + 5, &beyond, sizeof beyond);
  }});
  CHECK(contains(text, "output 0"));
  CHECK(contains(text, "element 5 (byte 20 of 400)"));
}

TEST_CASE("strict: an operand that is read after its life is found") {
  Chain chain;
  TaskList list =
      lower(chain.graph,
            TestLibrary({.body = [](void* const* args, int, int) { negate(args, 0, kCount); }}));
  // The value between tasks 1 and 2.
  const uint32_t entry = list.arguments[list.tasks[1].first_argument + 1];
  REQUIRE(list.table[entry].space == Space::kScratch);
  REQUIRE(list.lives[entry].last == 2);
  list.lives[entry].last = 1;
  HostLaunch launch(std::move(list), true);
  const std::string text = error_of([&] { launch.run(); });
  CHECK(contains(text, "input 0"));
  CHECK(contains(text, "is read by task 2 after its life, which ended with task 1"));
  CHECK(contains(text, "(abs)"));
}

TEST_CASE("strict: a value that is placed over a living one is found") {
  Chain chain;
  TaskList list =
      lower(chain.graph,
            TestLibrary({.body = [](void* const* args, int, int) { negate(args, 0, kCount); }}));
  const uint32_t in = list.arguments[list.tasks[1].first_argument];
  const uint32_t out = list.arguments[list.tasks[1].first_argument + 1];
  REQUIRE(list.table[in].offset != list.table[out].offset);
  list.table[out].offset = list.table[in].offset;
  HostLaunch launch(std::move(list), true);
  const std::string text = error_of([&] { launch.run(); });
  CHECK(contains(text, "output 0"));
  CHECK(contains(text, "over a value of bytes"));
}

TEST_CASE("strict: scratch that is dead and buffers of old values hold poison") {
  Graph g;
  Initializer zeros;
  zeros.kind = "constant";
  zeros.type = {f32, {kCount}};
  const Value w = g.state("w", zeros);
  const Value next = neg(abs(w));
  g.add_update(w, next);
  g.set_outputs({abs(abs(w))});
  TaskList list =
      lower(g, TestLibrary({.body = [](void* const* args, int, int) { negate(args, 0, kCount); }}));
  REQUIRE(list.info.states[0].second_buffer);
  std::vector<BufferRef> scratch;
  for (const BufferRef& ref : list.table) {
    if (ref.space == Space::kScratch) scratch.push_back(ref);
  }
  REQUIRE(!scratch.empty());
  HostLaunch launch(std::move(list), true);
  const Buffer* old_buffer = launch.args.states[0].current;
  floats(launch.args.states[0].current)[3] = 5;
  launch.run();
  CHECK(floats(launch.args.states[0].current)[3] == -10.0f);
  CHECK(floats(launch.args.outputs[0])[3] == 20.0f);
  const auto poisoned = [](const void* at, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) {
      if (static_cast<const uint8_t*>(at)[i] != poison_byte(Poison::kFirst, i)) return false;
    }
    return true;
  };
  CHECK(launch.args.states[0].other == old_buffer);
  CHECK(poisoned(old_buffer->address(), old_buffer->size()));
  for (const BufferRef& ref : scratch) {
    CHECK(poisoned(static_cast<char*>(launch.args.scratch->address()) + ref.offset, ref.bytes));
  }
}

TEST_CASE("strict: a slot is poison once it is released and may not be read") {
  Graph g;
  const Value x = g.input("x", f32, {kCount});
  g.set_outputs({neg(x)});
  TaskList list =
      lower(g, TestLibrary({.body = [](void* const* args, int, int) { negate(args, 0, kCount); }}));
  // As if a queue had bound the input.
  const uint32_t entry = list.arguments[list.tasks[0].first_argument];
  list.table[entry].space = Space::kSlot;
  StrictRunner runner(list);
  std::vector<float> slot(kCount, 1.0f), result(kCount);
  StrictRunner::Table table(list.table.size());
  table[entry] = slot.data();
  table[list.arguments[list.tasks[0].first_argument + 1]] = result.data();
  runner.begin_launch(table);
  runner.reach(0, table);
  runner.run_kernel(0, table);
  CHECK(result[0] == -1.0f);
  runner.release_slot(table);
  CHECK(slot[0] != slot[0]);  // NaN
  const std::string text = error_of([&] { runner.run_kernel(0, table); });
  CHECK(contains(text, "input 0"));
  CHECK(contains(text, "after RELEASE_SLOT"));
}

TEST_CASE("strict: a kernel that throws leaves the device able to work") {
  bool fails = true;
  const TestPlan neg{.body = [&fails](void* const* args, int, int) {
    if (fails) throw Error("the kernel failed");
    negate(args, 0, kCount);
  }};
  Chain chain;
  HostLaunch launch(lower(chain.graph, TestLibrary(neg)), true);
  CHECK(contains(error_of([&] { launch.run(); }), "the kernel failed"));
  fails = false;
  CHECK(error_of([&] { launch.run(); }).empty());
}

TEST_CASE("strict: the kernels of the npu give the bits of a plain run") {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    CAPTURE(seed);
    keel_test::RandomGraph random = keel_test::random_graph(seed, 14);
    const SupportsFunction supports = [](const Node& node) {
      return supports_in_task_list(npu::NpuLibrary(npu::default_preset()), node);
    };
    auto graph = decompose(*random.graph, supports);
    if (seed % 2 == 1) {
      graph = fuse(*graph, supports);
    }
    std::vector<std::vector<char>> results[2];
    for (const bool strict : {false, true}) {
      HostLaunch launch(lower(*graph, npu::NpuLibrary(npu::default_preset())), strict);
      size_t i = 0;
      for (const Value& input : graph->inputs()) {
        const Tensor& value = random.feeds.at(name_of(input.node()));
        std::memcpy(launch.args.inputs[i++]->address(), value.raw(), value.num_bytes());
      }
      for (size_t s = 0; s < graph->states().size(); ++s) {
        const Tensor& value = random.feeds.at(name_of(graph->states()[s].node()));
        std::memcpy(launch.args.states[s].current->address(), value.raw(), value.num_bytes());
      }
      launch.run();
      const auto keep = [&](const Buffer* buffer) {
        const auto* bytes = static_cast<const char*>(buffer->address());
        results[strict ? 1 : 0].emplace_back(bytes, bytes + buffer->size());
      };
      for (const Buffer* output : launch.args.outputs) keep(output);
      for (const StateBuffers& buffer : launch.args.states) keep(buffer.current);
    }
    CHECK(results[0] == results[1]);
  }
}

TEST_SUITE_END();

}  // namespace keel
