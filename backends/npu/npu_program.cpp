#include "keel/backends/npu/npu_program.h"

#include <utility>

#include "keel/backends/npu/scheduler/collective_clock.h"
#include "keel/backends/npu/scheduler/step_ranges.h"
#include "keel/core/base/checked.h"
#include "keel/core/base/error.h"

namespace keel::npu {
namespace {

void unroll(const TaskList& list, TaskRange range, size_t most, StepTrace& trace) {
  for (size_t i = range.begin; i < range.end; ++i) {
    if (trace.tasks.size() >= most) {
      trace.whole = false;
      return;
    }
    const Task& task = list.tasks[i];
    trace.tasks.push_back(static_cast<uint32_t>(i));
    if (const auto branches = branches_at(list, i)) {
      if (const auto longer = longer_branch(list, *branches))
        unroll(list, longer->range, most, trace);
      i = branches->second.end - 1;
      continue;
    }
    if (task.jump != Jump::kIfReached) continue;
    for (int64_t trip = 0; trip < task.limit && trace.whole; ++trip) {
      unroll(list, {i + 1, task.target}, most, trace);
      if (trace.whole && trace.tasks.size() < most) trace.tasks.push_back(static_cast<uint32_t>(i));
    }
    i = task.target - 1;
  }
}

// Goes through a range of tasks and returns when the last of them ends. The turns of a loop behind
// its first are as long as that.
int64_t walk(const TaskList& list, TaskRange range, CollectiveClock& clock, int64_t now) {
  for (size_t i = range.begin; i < range.end; ++i) {
    const Task& task = list.tasks[i];
    if (task.kind == TaskKind::kHccl) {
      clock.run(i, task.device_ns);
      continue;
    }
    now = checked_add(clock.begin(i, now), task.device_ns, "device time");
    clock.end(i, now);
    if (const auto branches = branches_at(list, i)) {
      const auto longer = longer_branch(list, *branches);
      if (longer) now = walk(list, longer->range, clock, now);
      i = branches->second.end - 1;
    } else if (task.jump == Jump::kIfReached) {
      if (task.limit > 0) {
        const int64_t turn = walk(list, {i + 1, task.target}, clock, now) - now + task.device_ns;
        now = checked_add(now, checked_mul(task.limit, turn, "device time"), "device time");
      }
      i = task.target - 1;
    }
  }
  return now;
}

// Calls f, and says in its errors whose times do not fit.
template <class F>
void naming(const Preset& preset, const F& f) {
  try {
    f();
  } catch (const Error& error) {
    throw error.with_context("a step on the preset " + preset.name);
  }
}

}  // namespace

NpuProgram::NpuProgram(TaskList list, NpuLibrary::Launches launches,
                       std::shared_ptr<const Preset> preset, std::shared_ptr<Buffer> constants,
                       Stream& transfer, std::shared_ptr<DeviceMemory> memory,
                       InterpreterOptions options)
    : TaskProgram(std::move(list), std::move(constants), transfer, std::move(options)),
      launches_(std::move(launches)),
      preset_(std::move(preset)),
      memory_(std::move(memory)) {}

void NpuProgram::launch(Stream& stream, LaunchArgs& args) {
  for (const StateBuffers& buffer : args.states) {
    require(buffer.current, "state");
    require(buffer.other, "second buffer of a state");
  }
  for (const Buffer* b : args.inputs) require(b, "input");
  for (const Buffer* b : args.outputs) require(b, "output");
  require(args.scratch, "scratch");
  TaskProgram::launch(stream, args);
}

void NpuProgram::require(const Buffer* buffer, const char* what) const {
  if (buffer != nullptr) memory_->require_own(*buffer, what);
}

const Launch* NpuProgram::decision(size_t task) const {
  const auto it = launches_.find(list().tasks.at(task).kernel);
  return it == launches_.end() ? nullptr : it->second.launch.get();
}

std::string NpuProgram::variant(size_t task) const {
  const auto it = launches_.find(list().tasks.at(task).kernel);
  return it == launches_.end() ? "" : it->second.variant();
}

StepTrace NpuProgram::trace(size_t most) const {
  StepTrace trace;
  unroll(list(), step_range(list()), most, trace);
  return trace;
}

void hide_collectives(TaskList& list, const Preset& preset) {
  CollectiveClock clock(list);
  naming(preset, [&] { clock.finish(walk(list, step_range(list), clock, 0)); });
  for (size_t i = 0; i < list.tasks.size(); ++i) {
    if (list.tasks[i].kind == TaskKind::kHccl) list.tasks[i].device_ns = clock.waited_for(i);
  }
}

void set_device_times(TaskList& list, const Preset& preset) {
  naming(preset, [&] { list.info.step_device_ns = range_ns(list, step_range(list)); });
  list.info.launch_device_ns = preset.launch_sync_ns;
}

}  // namespace keel::npu
