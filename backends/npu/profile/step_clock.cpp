#include "keel/backends/npu/profile/step_clock.h"

#include <algorithm>
#include <deque>
#include <numeric>

#include "keel/backends/npu/scheduler/collective_clock.h"

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
    for (const uint32_t task : tasks_) step_ns_ += list_.tasks[task].device_ns;
    add_copies();
    per_launch_ = list_.info.sunk ? options.steps_per_launch : 1;
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
        (writes_state(task, index) ? time.update_ns : time.gradients_ns) += task.device_ns;
      } else if (task.kind == TaskKind::kCommit) {
        time.update_ns += task.device_ns;
      }
      time.tasks.push_back(entry);
    }
    now_ = collectives.finish(now_);
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
