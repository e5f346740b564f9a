// An empty std::function as a hook threw bad_function_call in the first step, and a null pointer to
// a function crashed.
#include <functional>
#include <span>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/runtime/trainer.h"
#include "keel/ops/ops.h"

TEST_SUITE_BEGIN("loop");

namespace {

using namespace keel;
using StepRow = std::span<const double>;

int hook_calls = 0;
LoopControl stop_at_two(int64_t step, StepRow) {
  ++hook_calls;
  return step == 2 ? LoopControl::kStop : LoopControl::kContinue;
}

}  // namespace

TEST_CASE("an empty function or a null pointer as a hook is no hook") {
  CHECK(!StepHook(std::function<void(int64_t, StepRow)>()));
  CHECK(!StepHook(std::function<LoopControl(int64_t, StepRow, uint32_t)>()));
  CHECK(!StepHook(static_cast<void (*)(int64_t, StepRow)>(nullptr)));
  CHECK(!StepHook(static_cast<void (*)(int64_t, StepRow, uint32_t)>(nullptr)));
  CHECK(!TrainHook(std::function<void(int64_t)>()));
  CHECK(!TrainHook(static_cast<void (*)(int64_t)>(nullptr)));
  CHECK(TrainHook(std::function<void(int64_t)>())(1) == LoopControl::kContinue);
  CHECK(StepHook(stop_at_two));
  CHECK(StepHook(std::function<LoopControl(int64_t, StepRow)>(stop_at_two)));
  CHECK(TrainHook([](int64_t) {}));

  Graph graph;
  const Value w = graph.state("w", zeros({}));
  const Value next = w + 1.0f;
  Session session(graph, device("ref"));
  Loop loop = session.sink({.update = {{{w, next}}}, .fetches = {next}});
  CHECK(loop.run(3, {.on_step = std::function<void(int64_t, StepRow)>()}).steps == 3);
  LoopControl (*none)(int64_t, StepRow) = nullptr;
  CHECK(loop.run(3, {.on_step = none}).steps == 3);
  session.write(graph.step(), Tensor::scalar<int64_t>(0));
  CHECK(loop.run(3, {.on_step = stop_at_two}).stopped);
  CHECK(hook_calls == 2);
}

TEST_SUITE_END();
