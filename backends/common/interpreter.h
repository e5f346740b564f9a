// Interpreter: runs a TaskList: the one interpreter of all backends; the NPU's control unit is this
// interpreter. A step does nothing but call its tasks: no allocation, no lock but the queue's, no
// lookup. One launch at a time, on the device's thread.
#ifndef KEEL_BACKENDS_COMMON_INTERPRETER_H
#define KEEL_BACKENDS_COMMON_INTERPRETER_H

#include <atomic>
#include <memory>
#include <vector>

#include "keel/backends/common/strict_runner.h"
#include "keel/backends/common/task_list.h"
#include "keel/core/device/program.h"

namespace keel {

class Group;

struct InterpreterOptions {
  bool strict = false;  // kernels by a StrictRunner
  // The device's word that keeps what launches raise in LaunchReport::float_status; may be null.
  std::shared_ptr<std::atomic<uint32_t>> float_status = {};
  int threads = 0;           // that compute; 0: those of the thread that makes the interpreter
  PlannedRuns planned = {};  // what strict runs also do as the device planned it
};

class KEEL_API Interpreter {
 public:
  // REQUIRES that the list outlives the interpreter. `constants` holds the list's constants at
  // their offsets.
  Interpreter(const TaskList& list, const Buffer* constants, InterpreterOptions options = {});
  ~Interpreter();

  // Fills the table, runs the tasks, fills args.report and hands the state buffers back. Never
  // throws: the first error is in args.report.error, with step, task, op and the user's line.
  void launch(LaunchArgs& args) noexcept;

 private:
  void fill_table(const LaunchArgs& args);
  void run(LaunchArgs& args);
  void end_with_error(LaunchArgs& args);
  void tell_kernels(const char* why) const noexcept;
  void mark_lost(LaunchArgs& args, size_t written) const;
  size_t give_up_step(LaunchArgs& args);
  void require_trips_left(const Task& task) const;
  bool leaves_before_element(LoopVote own, const LaunchArgs& args);
  bool leaves(LoopVote own, const LaunchArgs& args);
  void offer_to_go_on(const LaunchArgs& args);
  bool jumps(const Task& task, LaunchArgs& args);
  bool run_kernel(const Task& task, const LaunchArgs& args);
  bool run_and_place(const Task& task, const LaunchArgs& args);
  // The same where args.observer is shown the ops.
  bool run_shown(const Task& task, LaunchArgs& args);
  bool keeps_element(LaunchArgs& args);
  bool dequeue(const Task& task, LaunchArgs& args);
  uint32_t take_step_status(LaunchReport& report);
  bool push_metrics(const Task& task, LaunchArgs& args);
  void commit(const Task& task, LaunchArgs& args);
  std::exception_ptr describe_error(const std::exception_ptr& error, size_t task,
                                    const LaunchArgs& args) const;

  const TaskList& list_;
  const Buffer* constants_;
  std::vector<void*> table_;
  std::vector<void*> arguments_;      // of the task that runs
  std::vector<const void*> metrics_;  // of the METRIC task
  // Holds for each state the task that writes its next value over the current one; none: beyond all
  // tasks.
  std::vector<size_t> overwritten_by_;
  size_t step_done_at_;
  size_t last_sum_;  // task of a step's last sum over ranks; none: beyond all tasks
  bool takes_elements_;
  Cursor cursor_;           // of the element in the slot
  LoopParty party_;         // of the launch
  Group* ranks_ = nullptr;  // that are its parties; null: they are no ranks, or the loop is alone
  bool all_go_on_ = false;  // as the last sum over ranks told, so nobody votes before the next step
  std::shared_ptr<std::atomic<uint32_t>> sticky_status_;
  std::unique_ptr<StrictRunner> strict_;  // null in plain runs
  int threads_;
  std::vector<uint32_t> status_words_;  // of the step, one for each task that raises any
  uint32_t launch_status_ = 0;          // of the steps before it
  size_t current_ = 0;                  // task that runs
  bool slot_held_ = false;              // an element was dequeued and not released yet
};

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_INTERPRETER_H
