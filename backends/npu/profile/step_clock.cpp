#include "keel/backends/npu/profile/step_clock.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <string>

#include "keel/backends/npu/scheduler/collective_clock.h"
#include "keel/backends/npu/scheduler/step_ranges.h"
#include "keel/core/base/checked.h"
#include "keel/core/base/error.h"

namespace keel::npu {
namespace {

constexpr size_t kMostTasks = 100000;  // of one step

class Clock {
 public:
  Clock(const NpuProgram& program, const ProfileOptions& options)
      : program_(program), list_(program.list()), options_(options) {
    const StepTrace trace = program.trace(kMostTasks);
    tasks_ = trace.tasks;
    clock_.whole = trace.whole;
    step_ns_ = step_ns();
    add_copies();
    per_launch_ = list_.info.sunk ? options.steps_per_launch : 1;
    require_room();
  }

  StepClock run() {
    for (int64_t step = 1; step <= options_.last_step; ++step) {
      StepTime time;
      time.step = step;
      time.span.begin_ns = now_;
      if (!list_.info.sunk && copy_ns_ != 0) hand_over(time);
      if ((step - 1) % per_launch_ == 0) begin_launch(time);
      if (list_.info.sunk && copy_ns_ != 0) begin_copy(time);
      if (step < options_.first_step) {
        now_ = std::max(now_, time.copy.end_ns) + step_ns_;
      } else {
        run_tasks(time);
      }
      time.span.end_ns = now_;
      if (step >= options_.first_step) clock_.steps.push_back(std::move(time));
    }
    return std::move(clock_);
  }

 private:
  // Returns the time of a step without launches and copies. Where data decide how often a loop
  // turns, it is the time of the tasks that are listed.
  int64_t step_ns() const {
    if (list_.info.step_device_ns) return *list_.info.step_device_ns;
    int64_t sum = 0;
    for (const uint32_t task : tasks_)
      sum = checked_add(sum, list_.tasks[task].device_ns, "device time");
    return sum;
  }

  // The clock's sums fit in 64 bits where those of twice its time do: a step's tasks take as long
  // as it, and its collectives, which run beside them, at most as long again.
  void require_room() const {
    const double step = static_cast<double>(step_ns_) + static_cast<double>(copy_ns_) +
                        static_cast<double>(program_.preset().launch_sync_ns);
    if (step * static_cast<double>(options_.last_step) < 4e18) return;
    throw Error({.op = "profile",
                 .argument = "steps to " + std::to_string(options_.last_step),
                 .expected = "steps that take less than 4e18 ns on " + program_.preset().name,
                 .got = std::to_string(step_ns_) + " ns for one",
                 .fix = "profile earlier steps, or raise the rates of the preset"});
  }

  void begin_launch(StepTime& time) {
    time.launch = {now_, now_ + program_.preset().launch_sync_ns};
    now_ = time.launch.end_ns;
  }

  // The host copies the batch field by field, then launches the step.
  void hand_over(StepTime& time) {
    time.copy = {now_, now_ + copy_ns_};
    wait_for_copy(time);
  }

  // A batch goes out when the link is free and a slot of the queue is.
  void begin_copy(StepTime& time) {
    int64_t begin = link_free_;
    if (starts_.size() >= static_cast<size_t>(options_.queue_depth)) {
      begin = std::max(begin, starts_.front());
      starts_.pop_front();
    }
    time.copy = {begin, begin + copy_ns_};
    link_free_ = time.copy.end_ns;
    starts_.push_back(std::max(now_, time.copy.end_ns));
  }

  void wait_for_copy(StepTime& time) {
    time.wait = {now_, std::max(now_, time.copy.end_ns)};
    now_ = time.wait.end_ns;
  }

  void run_tasks(StepTime& time) {
    if (clock_.steps.empty()) kernel_end_ = now_;
    const int64_t begin = now_, waited = time.wait.length();
    CollectiveClock collectives(list_, now_);
    for (const uint32_t index : tasks_) {
      const Task& task = list_.tasks[index];
      if (task.kind == TaskKind::kDequeue) wait_for_copy(time);
      if (task.kind == TaskKind::kHccl) {
        const auto run = collectives.run(index, program_.decision(index)->price.total_ns);
        time.tasks.push_back({index, {run.begin_ns, run.end_ns}, 0});
        continue;
      }
      now_ = collectives.begin(index, now_);
      TaskTime entry{index, {now_, now_ + task.device_ns}, 0};
      now_ = entry.span.end_ns;
      collectives.end(index, now_);
      if (task.kernel != nullptr) {
        entry.gap_ns = entry.span.begin_ns - kernel_end_;
        kernel_end_ = now_;
      }
      if (updates(task, index)) time.update_ns += task.device_ns;
      time.tasks.push_back(entry);
    }
    now_ = collectives.finish(now_);
    if (clock_.whole) return;
    // The tasks that are not listed take their time all the same.
    now_ = std::max(now_, begin + (time.wait.length() - waited) + step_ns_);
    time.update_ns = all_updates_ns();
    kernel_end_ = now_;
  }

  // An update is usually behind the loops that make a step's list too long: each of its tasks is
  // taken to run once.
  int64_t all_updates_ns() const {
    int64_t sum = 0;
    const TaskRange range = step_range(list_);
    for (size_t i = range.begin; i < range.end; ++i) {
      const Task& task = list_.tasks[i];
      if (updates(task, static_cast<uint32_t>(i))) sum += task.device_ns;
    }
    return sum;
  }

  bool updates(const Task& task, uint32_t index) const {
    return task.kind == TaskKind::kCommit || (task.kernel != nullptr && writes_state(task, index));
  }

  bool writes_state(const Task& task, uint32_t index) const {
    const Launch* launch = program_.decision(index);
    const size_t inputs = launch == nullptr ? 0 : launch->inputs.size();
    for (size_t i = inputs; i < task.argument_count; ++i) {
      const Space space = list_.table[list_.arguments[task.first_argument + i]].space;
      if (space == Space::kState || space == Space::kStateOther) return true;
    }
    return false;
  }

  // A queue's slot goes out as one, what the host feeds input by input.
  void add_copies() {
    const bool queue = list_.info.sunk;
    std::vector<int64_t> fields;
    for (const BufferRef& ref : list_.table) {
      if (ref.space == (queue ? Space::kSlot : Space::kInput) && ref.bytes > 0)
        fields.push_back(static_cast<int64_t>(ref.bytes));
    }
    const int64_t bytes = std::accumulate(fields.begin(), fields.end(), int64_t{0});
    if (queue) fields.assign(bytes > 0 ? 1 : 0, bytes);
    clock_.batch_bytes = bytes;
    for (const int64_t field : fields)
      clock_.copies_ns.push_back(price_transfer(program_.preset(), field));
    copy_ns_ = std::accumulate(clock_.copies_ns.begin(), clock_.copies_ns.end(), int64_t{0});
  }

  const NpuProgram& program_;
  const TaskList& list_;
  const ProfileOptions& options_;
  StepClock clock_;
  std::vector<uint32_t> tasks_;
  int64_t step_ns_ = 0;
  int64_t copy_ns_ = 0;
  int64_t per_launch_ = 1;
  int64_t now_ = 0;
  int64_t link_free_ = 0;
  int64_t kernel_end_ = 0;
  std::deque<int64_t> starts_;  // when the batches in the queue were, or will be, taken
};

}  // namespace

StepClock make_step_clock(const NpuProgram& program, const ProfileOptions& options) {
  return Clock(program, options).run();
}

}  // namespace keel::npu
