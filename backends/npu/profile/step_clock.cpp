#include "keel/backends/npu/profile/step_clock.h"

#include <algorithm>
#include <deque>

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
    clock_.batch_bytes = list_.info.sunk ? slot_bytes() : input_bytes();
    copy_ns_ = clock_.batch_bytes == 0 ? 0 : price_transfer(program.preset(), clock_.batch_bytes);
    per_launch_ = list_.info.sunk ? options.steps_per_launch : 1;
  }

  StepClock run() {
    for (int64_t step = 1; step <= options_.last_step; ++step) {
      StepTime time;
      time.step = step;
      time.span.begin_ns = now_;
      if ((step - 1) % per_launch_ == 0) begin_launch(time);
      if (copy_ns_ != 0) begin_copy(time);
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

  // A batch goes out when the link is free and, in a queue, a slot is.
  void begin_copy(StepTime& time) {
    int64_t begin = link_free_;
    if (!list_.info.sunk) {
      begin = std::max(begin, time.launch.begin_ns);
    } else if (starts_.size() >= static_cast<size_t>(options_.queue_depth)) {
      begin = std::max(begin, starts_.front());
      starts_.pop_front();
    }
    time.copy = {begin, begin + copy_ns_};
    link_free_ = time.copy.end_ns;
    starts_.push_back(std::max(now_, time.copy.end_ns));
    if (!list_.info.sunk) wait_for_copy(time);
  }

  void wait_for_copy(StepTime& time) {
    time.wait = {now_, std::max(now_, time.copy.end_ns)};
    now_ = time.wait.end_ns;
  }

  void run_tasks(StepTime& time) {
    if (clock_.steps.empty()) kernel_end_ = now_;
    for (const uint32_t index : tasks_) {
      const Task& task = list_.tasks[index];
      if (task.kind == TaskKind::kDequeue) wait_for_copy(time);
      TaskTime entry{index, {now_, now_ + task.device_ns}, 0};
      now_ = entry.span.end_ns;
      if (task.kernel != nullptr) {
        entry.gap_ns = entry.span.begin_ns - kernel_end_;
        kernel_end_ = now_;
        (writes_state(task, index) ? time.update_ns : time.gradients_ns) += task.device_ns;
      } else if (task.kind == TaskKind::kCommit) {
        time.update_ns += task.device_ns;
      }
      time.tasks.push_back(entry);
    }
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

  int64_t slot_bytes() const {
    int64_t bytes = 0;
    for (const BufferRef& ref : list_.table) {
      if (ref.space == Space::kSlot) bytes += static_cast<int64_t>(ref.bytes);
    }
    return bytes;
  }
  int64_t input_bytes() const {
    int64_t bytes = 0;
    for (const BufferRef& ref : list_.table) {
      if (ref.space == Space::kInput) bytes += static_cast<int64_t>(ref.bytes);
    }
    return bytes;
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
