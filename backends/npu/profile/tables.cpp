#include "keel/backends/npu/profile/tables.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "keel/core/base/csv.h"
#include "keel/core/base/environment.h"
#include "keel/core/base/error.h"

namespace keel::npu {

std::string in_us(int64_t ns) { return fmt::format("{:.3f}", static_cast<double>(ns) * 1e-3); }

std::string task_type(const Preset& preset, const Task& task, const Launch& launch) {
  if (launch.price.mixed()) return "MIX_AIC";
  const bool both = !preset.split_cores() && task.kind == TaskKind::kAiVectorCore;
  return name_of(both ? TaskKind::kAiCore : task.kind);
}

namespace {

// Count and extremes of times in ns.
struct Sum {
  int64_t count = 0, total = 0, least = 0, most = 0;
  double squares = 0;

  void add(int64_t ns) {
    least = count == 0 ? ns : std::min(least, ns);
    most = std::max(most, ns);
    total += ns;
    squares += static_cast<double>(ns) * static_cast<double>(ns);
    ++count;
  }
  double variance() const {
    const double mean = static_cast<double>(total) / static_cast<double>(count);
    return std::max(0.0, squares / static_cast<double>(count) - mean * mean);
  }
};

// The tasks of a step at which a point lies: all that compute a node of its name.
std::vector<const TaskTime*> tasks_at(const NpuProgram& program, const StepTime& step,
                                      const std::string& name) {
  std::vector<const TaskTime*> found;
  for (const TaskTime& time : step.tasks) {
    const TaskInfo& info = program.list().infos[time.task];
    const auto& members = info.members;
    const bool is_member = std::find(members.begin(), members.end(), name) != members.end();
    if (is_member || (!members.empty() && info.name == name)) found.push_back(&time);
  }
  return found;
}

[[noreturn]] void no_such_point(const NpuProgram& program, const StepTime& step, const char* key,
                                const std::string& name) {
  std::vector<std::string> names;
  for (const TaskTime& time : step.tasks) {
    const auto& members = program.list().infos[time.task].members;
    names.insert(names.end(), members.begin(), members.end());
  }
  const std::string hint = did_you_mean(name, names);
  throw Error({.op = "profiling options",
               .argument = key,
               .expected = "the name of a node that a task of the step computes",
               .got = name,
               .fix = hint.empty() ? "names are in op_summary.csv's column Members" : hint,
               .kind = ErrorKind::kInvalidArgument});
}

// When the last task of a step ends that computes gradients, the whole of it; nothing where none
// does, or where not all of the tasks are listed.
std::optional<int64_t> gradients_end(const NpuProgram& program, const StepClock& clock,
                                     const StepTime& step) {
  const auto computes_gradients = [&](const TaskTime& time) {
    const auto& members = program.list().infos[time.task].members;
    return std::any_of(members.begin(), members.end(), [](const std::string& name) {
      return name.starts_with("gradient/");  // the scope of all that is made by differentiating
    });
  };
  const auto last = std::find_if(step.tasks.rbegin(), step.tasks.rend(), computes_gradients);
  if (!clock.whole || last == step.tasks.rend()) return std::nullopt;
  return last->span.end_ns;
}

// When a step's forward pass begins and its backward pass ends.
TimeSpan forward_backward(const NpuProgram& program, const StepClock& clock, const StepTime& step,
                          const ProfilingOptions& profiling) {
  // Control tasks of the loop count as part of the way from forward to backward.
  const int64_t work = step.span.length() - step.launch.length() - step.wait.length();
  const int64_t before_update = step.span.end_ns - step.update_ns;
  TimeSpan span{step.span.end_ns - work,
                gradients_end(program, clock, step).value_or(before_update)};
  if (!profiling.fp_point.empty()) {
    const auto at = tasks_at(program, step, profiling.fp_point);
    if (at.empty()) no_such_point(program, step, "fp_point", profiling.fp_point);
    span.begin_ns = at.front()->span.begin_ns;
  }
  if (!profiling.bp_point.empty()) {
    const auto at = tasks_at(program, step, profiling.bp_point);
    if (at.empty()) no_such_point(program, step, "bp_point", profiling.bp_point);
    span.end_ns = at.back()->span.end_ns;
  }
  if (span.length() >= 0) return span;
  throw Error({.op = "profiling options",
               .argument = "fp_point, bp_point",
               .expected = "a forward pass that begins before the backward one ends",
               .got = in_us(span.begin_ns) + " us and " + in_us(span.end_ns) + " us",
               .kind = ErrorKind::kInvalidArgument});
}

// When the collectives of a step run, in their order.
std::vector<TimeSpan> reduces_of(const NpuProgram& program, const StepTime& step) {
  std::vector<TimeSpan> spans;
  for (const TaskTime& time : step.tasks) {
    if (program.list().tasks[time.task].kind == TaskKind::kHccl) spans.push_back(time.span);
  }
  return spans;
}

}  // namespace

std::string op_statistic(const NpuProgram& program, const StepClock& clock) {
  std::map<std::pair<std::string, std::string>, Sum> sums;
  int64_t all = 0;
  for (const StepTime& step : clock.steps) {
    for (const TaskTime& time : step.tasks) {
      const Launch* launch = program.decision(time.task);
      if (launch == nullptr) continue;
      const Task& task = program.list().tasks[time.task];
      const int64_t ns = time.span.length();
      sums[{program.list().infos[time.task].op, task_type(program.preset(), task, *launch)}].add(
          ns);
      all += ns;
    }
  }
  std::vector<std::pair<std::pair<std::string, std::string>, Sum>> sorted(sums.begin(), sums.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& x, const auto& y) { return x.second.total > y.second.total; });
  std::string text = write_csv_row({"Model ID", "OP Type", "Core Type", "Count", "Total Time(us)",
                                    "Min Time(us)", "Avg Time(us)", "Max Time(us)", "Ratio(%)"});
  for (const auto& [key, sum] : sorted) {
    const double ratio =
        all == 0 ? 0 : 100 * static_cast<double>(sum.total) / static_cast<double>(all);
    text += write_csv_row({"1", key.first, key.second, std::to_string(sum.count), in_us(sum.total),
                           in_us(sum.least), in_us(sum.total / sum.count), in_us(sum.most),
                           fmt::format("{:.3f}", ratio)});
  }
  return text;
}

std::string step_trace(const NpuProgram& program, const StepClock& clock,
                       const ProfilingOptions& profiling) {
  std::vector<std::string> header = {
      "Iteration ID",          "FP Start(us)",       "BP End(us)",
      "Iteration End(us)",     "Iteration Time(us)", "FP to BP Time(us)",
      "Iteration Refresh(us)", "Data Aug Bound(us)", "Launch(us)"};
  // Where ranks sum, each collective has two more columns.
  const size_t collectives = clock.steps.empty() ? 0 : reduces_of(program, clock.steps[0]).size();
  for (size_t i = 1; i <= collectives; ++i) {
    header.push_back(fmt::format("Reduce {} Start(us)", i));
    header.push_back(fmt::format("Reduce {} Duration(us)", i));
  }
  std::string text = write_csv_row(header);
  for (const StepTime& step : clock.steps) {
    const TimeSpan passes = forward_backward(program, clock, step, profiling);
    const int64_t end = step.span.end_ns;
    std::vector<std::string> row = {std::to_string(step.step),    in_us(passes.begin_ns),
                                    in_us(passes.end_ns),         in_us(end),
                                    in_us(end - passes.begin_ns), in_us(passes.length()),
                                    in_us(end - passes.end_ns),   in_us(step.wait.length()),
                                    in_us(step.launch.length())};
    for (const TimeSpan& reduce : reduces_of(program, step)) {
      row.push_back(in_us(reduce.begin_ns));
      row.push_back(in_us(reduce.length()));
    }
    text += write_csv_row(row);
  }
  return text;
}

std::string aicpu(const NpuProgram& program, const StepClock& clock) {
  std::string text = write_csv_row({"Timestamp(us)", "Node", "Compute_time(us)", "Memcpy_time(us)",
                                    "Task_time(us)", "Dispatch_time(us)", "Total_time(us)",
                                    "Stream ID", "Task ID"});
  const int64_t dispatch = program.preset().ai_cpu_task_ns;
  for (const StepTime& step : clock.steps) {
    for (const TaskTime& time : step.tasks) {
      if (program.list().tasks[time.task].kind != TaskKind::kAiCpu) continue;
      // Its bytes are priced together with what it computes from them.
      const int64_t total = time.span.length(), task = total - dispatch;
      text += write_csv_row({in_us(time.span.begin_ns), program.list().infos[time.task].name,
                             in_us(task), in_us(0), in_us(task), in_us(dispatch), in_us(total), "0",
                             std::to_string(time.task)});
    }
  }
  return text;
}

std::string api_statistic(const StepClock& clock, int device) {
  Sum launches, copies;
  for (const StepTime& step : clock.steps) {
    if (step.launch.length() > 0) launches.add(step.launch.length());
    for (const int64_t copy : clock.copies_ns) copies.add(copy);
  }
  std::string text = write_csv_row({"Device_id", "Level", "API Name", "Time(us)", "Count",
                                    "Avg(us)", "Min(us)", "Max(us)", "Variance"});
  const auto row = [&](const char* name, const Sum& sum) {
    if (sum.count == 0) return;
    text +=
        write_csv_row({std::to_string(device), "runtime", name, in_us(sum.total),
                       std::to_string(sum.count), in_us(sum.total / sum.count), in_us(sum.least),
                       in_us(sum.most), fmt::format("{:.3f}", sum.variance() * 1e-6)});
  };
  row("launch", launches);
  row("copy to device", copies);
  return text;
}

}  // namespace keel::npu
