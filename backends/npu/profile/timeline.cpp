#include <algorithm>
#include <array>
#include <map>
#include <string>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "keel/backends/common/task_text.h"
#include "keel/backends/npu/profile/tables.h"
#include "keel/backends/npu/profile/trace_events.h"
#include "keel/core/base/json.h"

namespace keel::npu {
namespace {

// Processes of the trace: what happens where, and on which clock.
constexpr int kHost = 0;
constexpr int kDevice = 1;
constexpr int kCores = 2;
constexpr int kWall = 3;

std::map<int, std::string> processes_of(int device) {
  return {{kHost, "host (device clock)"},
          {kDevice, fmt::format("npu:{} (device clock)", device)},
          {kCores, "cores (device clock)"},
          {kWall, "host (wall clock)"}};
}

constexpr int kLanesOfACore = 16;

struct Lane {
  int process;
  int number;
  const char* name;
};
constexpr Lane kLaunchLane{kHost, 0, "HOST"};
constexpr Lane kGetNext{kHost, 1, "GETNEXT"};
constexpr Lane kH2d{kDevice, 0, "H2D"};
constexpr Lane kQueue{kDevice, 1, "QUEUE"};
constexpr Lane kControl{kDevice, 2, "CONTROL"};
constexpr Lane kStream{kDevice, 3, "STREAM 0"};
constexpr Lane kHccl{kDevice, 4, "HCCL"};

// GetNext is a task of the device where a queue feeds it, and the host's where that hands over the
// batch, which its copy to the device takes.
std::string get_next(const std::string& number, const char* place) {
  return "GetNext of " + number + " on " + place;
}

// Shows what a step is made of, but for the cores: show(lane, name, span, task), where the task is
// null for what is none.
template <class Show>
void show_step(const NpuProgram& program, const StepTime& step, const Show& show) {
  const bool queue = program.list().info.sunk;
  const std::string number = "step " + std::to_string(step.step);
  const auto show_any = [&](const Lane& lane, const std::string& name, const TimeSpan& span) {
    if (span.length() > 0) show(lane, name, span, nullptr);
  };
  show_any(kLaunchLane, "launch at " + number, step.launch);
  if (!queue) show_any(kGetNext, get_next(number, "HOST"), step.copy);
  show_any(kH2d, "batch of " + number, step.copy);
  show_any(queue ? kQueue : kControl, "wait for the batch of " + number, step.wait);
  for (const TaskTime& time : step.tasks) {
    const Task& task = program.list().tasks[time.task];
    const TaskInfo& info = program.list().infos[time.task];
    if (task.kind == TaskKind::kHccl)
      show(kHccl, title_of(info), time.span, &info);
    else if (task.kernel != nullptr)
      show(kStream, title_of(info), time.span, &info);
    else if (task.kind == TaskKind::kDequeue)
      show(kControl, get_next(number, "DEVICE"), time.span, nullptr);
    else
      show(kControl, keel::name_of(task.kind), time.span, nullptr);
  }
}

// `details` says what a launch is made of.
void add_step(TraceEvents& trace, const NpuProgram& program, const StepTime& step, bool details) {
  show_step(
      program, step,
      [&](const Lane& lane, const std::string& name, const TimeSpan& span, const TaskInfo* info) {
        std::string arguments;
        if (details && info != nullptr) {
          arguments = fmt::format("\"block_dim\":{},\"types\":{},\"limit\":{}", info->block_dim,
                                  quote_json(info->types), quote_json(info->reason));
        }
        trace.span(lane.process, lane.number, lane.name, name, span, arguments);
      });
}

enum class CoreKind { kBoth, kCube, kVector };

// Cores of one kind that a launch runs on.
struct Cores {
  CoreKind kind;
  int64_t count;
  const std::array<int64_t, kUnits>& busy_cycles;
};

// "cube core 3 FIXP": what leads out of a core with a cube alone is the fixed pipe.
std::string lane_name(CoreKind kind, int64_t core, Unit unit) {
  static constexpr const char* kKinds[] = {"core", "cube core", "vector core"};
  const bool fixed_pipe = kind == CoreKind::kCube && unit == Unit::kMte3;
  return fmt::format("{} {} {}", kKinds[static_cast<size_t>(kind)], core,
                     fixed_pipe ? "FIXP" : npu::name_of(unit));
}

// Draws each unit from the start of the pipeline for as long as it is busy: how its work is spread
// within the pipeline is not modelled.
void add_cores_of(TraceEvents& trace, const Cores& cores, const TimeSpan& pipeline, double ghz,
                  const std::string& title) {
  for (int64_t core = 0; core < cores.count; ++core) {
    for (size_t u = 0; u < kUnits && !trace.full(); ++u) {
      const auto busy = static_cast<int64_t>(static_cast<double>(cores.busy_cycles[u]) / ghz);
      if (busy <= 0) continue;
      const int64_t lane = (core * 2 + (cores.kind == CoreKind::kVector ? 1 : 0)) * kLanesOfACore +
                           static_cast<int64_t>(u);
      trace.span(kCores, static_cast<int>(lane), lane_name(cores.kind, core, static_cast<Unit>(u)),
                 title, {pipeline.begin_ns, std::min(pipeline.begin_ns + busy, pipeline.end_ns)});
    }
  }
}

void add_cores(TraceEvents& trace, const NpuProgram& program, const StepTime& step) {
  const bool split = program.preset().split_cores();
  const double ghz = program.preset().clock_ghz();
  for (const TaskTime& time : step.tasks) {
    const Launch* launch = program.decision(time.task);
    if (launch == nullptr) continue;
    const TaskPrice& price = launch->price;
    const std::string title = title_of(program.list().infos[time.task]);
    const TimeSpan pipeline{time.span.begin_ns + price.overhead_ns, time.span.end_ns};
    const CoreKind kind = !split         ? CoreKind::kBoth
                          : launch->cube ? CoreKind::kCube
                                         : CoreKind::kVector;
    add_cores_of(trace, {kind, price.block_dim, price.busy_cycles}, pipeline, ghz, title);
    add_cores_of(trace, {CoreKind::kVector, price.mix_block_dim, price.mix_busy_cycles}, pipeline,
                 ghz, title);
  }
}

}  // namespace

std::vector<ProfiledSpan> spans_of(const NpuProgram& program, const StepClock& clock) {
  std::vector<ProfiledSpan> spans;
  for (const StepTime& step : clock.steps) {
    show_step(
        program, step,
        [&](const Lane& lane, const std::string& name, const TimeSpan& span, const TaskInfo*) {
          spans.push_back({lane.name, name, step.step, span.begin_ns, span.end_ns});
        });
  }
  return spans;
}

std::string timeline(const NpuProgram& program, const StepClock& clock,
                     const ProfileOptions& options) {
  TraceEvents trace(options.most_events);
  LaneNumbers wall_lanes;
  for (const WallSpan& wall : options.wall) {
    trace.span(kWall, wall_lanes.of(wall.lane), wall.lane, wall.name, {wall.begin_ns, wall.end_ns});
  }
  const bool details = options.profiling.task_trace == TaskTrace::kL1;
  for (const StepTime& step : clock.steps) add_step(trace, program, step, details);
  if (details) {
    for (const StepTime& step : clock.steps) add_cores(trace, program, step);
  }
  return trace.finish(processes_of(options.device), {{"preset", program.preset().name},
                                                     {"complete", clock.whole && !trace.full()}});
}

}  // namespace keel::npu
