#include <algorithm>
#include <map>
#include <vector>

#include <fmt/core.h>

#include "keel/backends/common/task_text.h"
#include "keel/backends/npu/profile/tables.h"
#include "keel/core/base/printable.h"

namespace keel::npu {
namespace {

constexpr size_t kMostAdvice = 10;
constexpr size_t kMostOfAText = 2000;  // bytes of a name, of types and of a line of the user's

double us(int64_t ns) { return static_cast<double>(ns) * 1e-3; }

// A task of the step, with how often the step runs it.
struct Loss {
  uint32_t task = 0;
  int64_t count = 0;
  int64_t total_ns = 0;
  int64_t lost_ns = 0;  // above what the cores' and the memory's peaks allow
};

bool is_collective(const NpuProgram& program, uint32_t task) {
  return program.list().tasks[task].kind == TaskKind::kHccl;
}

std::vector<Loss> losses(const NpuProgram& program, const StepTime& step) {
  std::map<uint32_t, Loss> by_task;
  for (const TaskTime& time : step.tasks) {
    const Launch* launch = program.decision(time.task);
    if (launch == nullptr) continue;
    Loss& loss = by_task[time.task];
    loss.task = time.task;
    ++loss.count;
    // The step waits for as much of a collective as no other task hides, and all of that is lost.
    if (is_collective(program, time.task)) {
      loss.total_ns += program.list().tasks[time.task].device_ns;
      loss.lost_ns = loss.total_ns;
      continue;
    }
    loss.total_ns += launch->price.total_ns;
    loss.lost_ns += launch->price.total_ns -
                    std::max(launch->price.compute_roof_ns, launch->price.memory_roof_ns);
  }
  std::vector<Loss> sorted;
  for (const auto& [task, loss] : by_task) {
    if (loss.total_ns > 0) sorted.push_back(loss);
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Loss& x, const Loss& y) { return x.lost_ns > y.lost_ns; });
  return sorted;
}

// Names of a graph may be of any length, but who reads the advice back takes no more than a MiB of
// it.
std::string shown(const std::string& text) { return printable(text, kMostOfAText); }

// Says how much of a task's time is lost where; cores have roofs, the host and the links have none.
std::string loss_text(const NpuProgram& program, const Loss& loss, const Launch& launch) {
  if (is_collective(program, loss.task)) return " that no other task hides\n";
  if (launch.limit == Limit::kHost) return ", in which the device's cores have no part\n";
  const int64_t cores = launch.cube ? program.preset().cube_cores : program.preset().vector_cores;
  return fmt::format(", {:.3f} us of it above both roofs; block_dim {} of {}\n", us(loss.lost_ns),
                     launch.price.block_dim, cores);
}

// Says whether the task counts steps and updates, which no line of a user's asks for.
bool is_keels_own(const TaskInfo& info) {
  return !info.site.known() && info.name.starts_with("keel/");
}

std::string text_of(const NpuProgram& program, const Loss& loss, size_t rank) {
  const Launch& launch = *program.decision(loss.task);
  const TaskInfo& info = program.list().infos[loss.task];
  std::string text = fmt::format(
      "{}. {}  {}{}\n   {:.3f} us a step{}", rank, shown(title_of(info)), shown(info.types),
      info.site.known() ? "  (" + shown(to_string(info.site)) + ")" : "", us(loss.total_ns),
      loss.count > 1 ? fmt::format(" in {} launches", loss.count) : "");
  text += loss_text(program, loss, launch);
  if (launch.limit == Limit::kNone)
    text += "   reason: all cores are in use\n";
  else
    text += fmt::format("   reason: {}: {}\n", name_of(launch.limit), launch.reason);
  const std::string variant = program.variant(loss.task);
  if (!variant.empty()) text += "   note: " + variant + "\n";
  if (is_keels_own(info)) {
    text += "   note: Keel's own count of steps and updates; a model has no part in it\n";
  } else if (launch.gain_ns > 0) {
    text += fmt::format("   fix: {}; modelled gain {:.3f} us a step\n", launch.fix,
                        us(launch.gain_ns * loss.count));
  }
  return text;
}

// Returns why a step has no modelled time, where it has none.
std::string untimed(const NpuProgram& program) {
  if (program.info().step_device_ns) return "";
  const TaskList& list = program.list();
  for (size_t i = 0; i < list.tasks.size(); ++i) {
    const Task& task = list.tasks[i];
    // A cond leaves its first branch; of a while data say how often it turns.
    if (task.jump != Jump::kIfFalse || list.tasks[task.target - 1].jump == Jump::kAlways) continue;
    const CallSite site = list.infos[i].site;
    return "the step has no modelled time before it runs: data decides at task " +
           std::to_string(i) + " (" + shown(list.infos[i].name) +
           (site.known() ? ", " + shown(to_string(site)) : "") +
           "); such a loop is listed with one turn, and a cond around it without branches\n";
  }
  return "";
}

}  // namespace

std::string advice(const NpuProgram& program, const StepClock& clock) {
  std::string text = fmt::format(
      "{}: where the modelled device loses most in a step (device "
      "clock)\n\n",
      program.preset().name);
  if (clock.steps.empty()) return text;
  const StepTime& step = clock.steps.front();
  const std::vector<Loss> list = losses(program, step);
  for (size_t i = 0; i < std::min(list.size(), kMostAdvice); ++i) {
    text += text_of(program, list[i], i + 1) + "\n";
  }
  // The first step fills the queue, so a later one says more.
  const StepTime& last = clock.steps.back();
  if (last.wait.length() > 0) {
    const bool queue = program.list().info.sunk;
    text += fmt::format(
        "step {} waits {:.3f} us for its batch: copying {} bytes takes {:.3f} us, which {}\n",
        last.step, us(last.wait.length()), clock.batch_bytes, us(last.copy.length()),
        queue ? "the step does not cover; send narrower dtypes, and cast on the device"
              : "the host does before each launch; leave data_sink on, so that a queue does it "
                "beside the steps");
  }
  text += untimed(program);
  if (!clock.whole) {
    text +=
        fmt::format("the step runs more tasks than the {} that are listed; {}\n", step.tasks.size(),
                    program.list().info.step_device_ns
                        ? "its time in step_trace.csv is that of all of them"
                        : "its time in step_trace.csv is that of those, as data decide how "
                          "often its loops turn");
  }
  return text;
}

}  // namespace keel::npu
