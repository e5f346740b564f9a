#include <map>
#include <utility>

#include <fmt/core.h>

#include "keel/backends/common/task_text.h"
#include "keel/backends/npu/profile/tables.h"
#include "keel/core/base/json.h"

namespace keel::npu {
namespace {

// Processes of the trace: what happens where, and on which clock.
constexpr int kHost = 0;
constexpr int kDevice = 1;
constexpr int kCores = 2;
constexpr int kWall = 3;
// Lanes of the device.
constexpr int kH2d = 0;
constexpr int kQueue = 1;
constexpr int kControl = 2;
constexpr int kStream = 3;
constexpr int kLanesOfACore = 16;

std::string us(int64_t ns) { return fmt::format("{:.3f}", static_cast<double>(ns) * 1e-3); }

class Trace {
 public:
  explicit Trace(size_t most_events) : most_(most_events) {}

  bool full() const { return count_ >= most_; }

  void span(int process, int lane, const std::string& lane_name, const std::string& name,
            const TimeSpan& time, const std::string& arguments = "") {
    if (full()) {
      cut_ = true;
      return;
    }
    ++count_;
    lanes_.emplace(std::pair(process, lane), lane_name);
    add(fmt::format("{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{},\"name\":{}{}}}",
                    process, lane, us(time.begin_ns), us(time.length()), quote_json(name),
                    arguments.empty() ? "" : ",\"args\":{" + arguments + "}"));
  }

  std::string finish(const std::string& preset, bool whole_steps) {
    static constexpr std::pair<int, const char*> kProcesses[] = {{kHost, "host (device clock)"},
                                                                 {kDevice, "npu:0 (device clock)"},
                                                                 {kCores, "cores (device clock)"},
                                                                 {kWall, "host (wall clock)"}};
    for (const auto& [process, name] : kProcesses) {
      if (lanes_.lower_bound({process, 0}) != lanes_.lower_bound({process + 1, 0})) {
        name_of_what("process_name", process, 0, name);
      }
    }
    for (const auto& [key, name] : lanes_) {
      name_of_what("thread_name", key.first, key.second, name);
    }
    return "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"preset\":" + quote_json(preset) +
           ",\"complete\":" + (cut_ || !whole_steps ? "false" : "true") + "},\"traceEvents\":[\n" +
           text_ + "\n]}\n";
  }

 private:
  void add(const std::string& event) { text_ += (text_.empty() ? "" : ",\n") + event; }
  void name_of_what(const char* what, int process, int lane, const std::string& name) {
    add(fmt::format(
        "{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"{}\",\"args\":{{\"name\":{}}}}}", process,
        lane, what, quote_json(name)));
  }

  size_t most_;
  size_t count_ = 0;
  bool cut_ = false;
  std::string text_;
  std::map<std::pair<int, int>, std::string> lanes_;
};

void add_step(Trace& trace, const NpuProgram& program, const StepTime& step) {
  const std::string number = "step " + std::to_string(step.step);
  if (step.launch.length() > 0) {
    trace.span(kHost, 0, "HOST", "launch at " + number, step.launch);
  }
  if (step.copy.length() > 0) trace.span(kDevice, kH2d, "H2D", "batch of " + number, step.copy);
  if (step.wait.length() > 0) {
    trace.span(kDevice, kQueue, "QUEUE", "wait for the batch of " + number, step.wait);
  }
  for (const TaskTime& time : step.tasks) {
    const Task& task = program.list().tasks[time.task];
    const TaskInfo& info = program.list().infos[time.task];
    if (task.kernel == nullptr) {
      trace.span(kDevice, kControl, "CONTROL", keel::name_of(task.kind), time.span);
      continue;
    }
    trace.span(kDevice, kStream, "STREAM 0", title_of(info), time.span,
               fmt::format("\"block_dim\":{},\"types\":{},\"limit\":{}", info.block_dim,
                           quote_json(info.types), quote_json(info.reason)));
  }
}

// Draws each unit from the start of the pipeline for as long as it is busy: how its work is spread
// within the pipeline is not modelled.
void add_cores(Trace& trace, const NpuProgram& program, const StepTime& step) {
  const bool split = program.preset().series == "910B";
  const double ghz = program.preset().clock_ghz();
  for (const TaskTime& time : step.tasks) {
    const Launch* launch = program.decision(time.task);
    if (launch == nullptr) continue;
    const TaskInfo& info = program.list().infos[time.task];
    const int64_t begin = time.span.begin_ns + launch->price.overhead_ns;
    for (int core = 0; core < static_cast<int>(launch->price.block_dim); ++core) {
      for (size_t u = 0; u < kUnits && !trace.full(); ++u) {
        const Unit unit = static_cast<Unit>(u);
        const auto busy = static_cast<int64_t>(static_cast<double>(launch->price.busy(unit)) / ghz);
        if (busy <= 0) continue;
        const bool vector = split && !launch->cube;
        const int lane = (core * 2 + (vector ? 1 : 0)) * kLanesOfACore + static_cast<int>(u);
        const char* kind = !split ? "core" : vector ? "vector core" : "cube core";
        trace.span(kCores, lane, fmt::format("{} {} {}", kind, core, npu::name_of(unit)),
                   title_of(info), {begin, std::min(begin + busy, time.span.end_ns)});
      }
    }
  }
}

}  // namespace

std::string timeline(const NpuProgram& program, const StepClock& clock,
                     const ProfileOptions& options) {
  Trace trace(options.most_events);
  for (const WallSpan& wall : options.wall) {
    trace.span(kWall, 0, "HOST (wall)", wall.name, {wall.begin_ns, wall.end_ns});
  }
  for (const StepTime& step : clock.steps) add_step(trace, program, step);
  for (const StepTime& step : clock.steps) add_cores(trace, program, step);
  return trace.finish(program.preset().name, clock.whole && !trace.full());
}

}  // namespace keel::npu
