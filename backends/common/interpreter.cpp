#include "keel/backends/common/interpreter.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "keel/core/base/error.h"
#include "keel/core/base/ns_since.h"
#include "keel/core/base/parallel_for.h"
#include "keel/core/device/op_observer.h"
#include "keel/core/group/group_agreement.h"
#include "keel/core/queue/device_queue.h"
#include "keel/core/queue/metrics_queue.h"

namespace keel {
namespace {

char* address_in(const Buffer* buffer, const BufferRef& ref, const char* what) {
  if (ref.bytes == 0) return nullptr;
  if (buffer == nullptr || ref.offset > buffer->size() || ref.bytes > buffer->size() - ref.offset) {
    throw Error({.op = "launch",
                 .argument = std::string(what) + " " + std::to_string(ref.index),
                 .expected = std::to_string(ref.offset + ref.bytes) + " bytes of device memory",
                 .got = buffer == nullptr ? "none" : std::to_string(buffer->size()) + " bytes"});
  }
  return static_cast<char*>(buffer->address()) + ref.offset;
}

// Finds for each state of the list the first task whose results go to its current buffer.
std::vector<size_t> find_overwriters(const TaskList& list) {
  std::vector<size_t> tasks(list.info.states.size(), list.tasks.size());
  for (size_t i = 0; i < list.tasks.size(); ++i) {
    const Task& task = list.tasks[i];
    if (task.kernel == nullptr) continue;
    for (uint32_t k = list.infos[i].inputs; k < task.argument_count; ++k) {
      const BufferRef& ref = list.table[list.arguments[task.first_argument + k]];
      if (ref.space == Space::kState) tasks[ref.index] = std::min(tasks[ref.index], i);
    }
  }
  return tasks;
}

// Returns the task that counts the step; none: beyond all tasks.
size_t find_step_end(const TaskList& list) {
  const auto counts = [](const Task& task) { return task.kind == TaskKind::kLoopInc; };
  return static_cast<size_t>(std::find_if(list.tasks.begin(), list.tasks.end(), counts) -
                             list.tasks.begin());
}

// Returns the task that sums over ranks last; none: beyond all tasks.
size_t find_last_sum(const TaskList& list) {
  size_t last = list.tasks.size();
  for (size_t i = 0; i < list.tasks.size(); ++i) {
    if (list.tasks[i].kind == TaskKind::kHccl) last = i;
  }
  return last;
}

bool has_next_element(const DeviceQueue& queue) {
  const QueueCounters counters = queue.counters();
  return counters.enqueued > counters.dequeued;
}

bool stop_asked_for(const LaunchArgs& args) {
  return args.stop != nullptr && args.stop->load(std::memory_order_relaxed);
}

template <class T>
T read(const void* address) {
  T value;
  __builtin_memcpy(&value, address, sizeof value);
  return value;
}

}  // namespace

Interpreter::Interpreter(const TaskList& list, const Buffer* constants, InterpreterOptions options)
    : list_(list),
      constants_(constants),
      table_(list.table.size()),
      arguments_(list.most_arguments),
      metrics_(list.most_arguments),
      overwritten_by_(find_overwriters(list)),
      step_done_at_(find_step_end(list)),
      last_sum_(find_last_sum(list)),
      takes_elements_(std::any_of(list.tasks.begin(), list.tasks.end(),
                                  [](const Task& t) { return t.kind == TaskKind::kDequeue; })),
      sticky_status_(std::move(options.float_status)),
      strict_(options.strict ? std::make_unique<StrictRunner>(list, std::move(options.planned))
                             : nullptr),
      threads_(options.threads > 0 ? options.threads : compute_threads()),
      status_words_(list.status_tasks.size()) {}

Interpreter::~Interpreter() = default;

void Interpreter::fill_table(const LaunchArgs& args) {
  const ProgramInfo& info = list_.info;
  if (args.states.size() != info.states.size() || args.inputs.size() != info.inputs.size() ||
      args.outputs.size() != info.outputs.size()) {
    throw Error("launch: the arguments do not match the program's states, inputs and outputs");
  }
  for (size_t i = 0; i < table_.size(); ++i) {
    const BufferRef& ref = list_.table[i];
    switch (ref.space) {
      case Space::kScratch:
        table_[i] = address_in(args.scratch, ref, "scratch");
        break;
      case Space::kConstant:
        table_[i] = address_in(constants_, ref, "constant");
        break;
      case Space::kState:
        table_[i] = address_in(args.states[ref.index].current, ref, "state");
        break;
      case Space::kStateOther:
        table_[i] = address_in(args.states[ref.index].other, ref, "second buffer of state");
        break;
      case Space::kInput:
        table_[i] = address_in(args.inputs[ref.index], ref, "input");
        break;
      case Space::kOutput:
        table_[i] = address_in(args.outputs[ref.index], ref, "output");
        break;
      case Space::kSlot:
      case Space::kRow:
        table_[i] = nullptr;
        break;
      case Space::kFloatStatus:
        table_[i] = &status_words_[ref.index];
        break;
      case Space::kOwn:
        table_[i] = static_cast<char*>(list_.own_memories[ref.index]) + ref.offset;
        break;
    }
  }
}

void Interpreter::launch(LaunchArgs& args) noexcept {
  args.report = LaunchReport{};
  const auto start = std::chrono::steady_clock::now();
  bool running = false;
  slot_held_ = false;
  party_ = LoopParty(list_.info.sunk ? args.agreement : nullptr);
  ranks_ = list_.info.sunk ? group_of(args.agreement) : nullptr;
  all_go_on_ = false;
  std::fill(status_words_.begin(), status_words_.end(), 0);
  launch_status_ = 0;
  for (StateBuffers& buffer : args.states) buffer.lost = false;
  try {
    const ComputeThreads threads(threads_);
    current_ = 0;
    fill_table(args);
    if (strict_ != nullptr) strict_->begin_launch(table_);
    running = true;
    run(args);
  } catch (const Error&) {
    // A kernel throws these before it writes anything in place.
    if (running) mark_lost(args, current_);
    end_with_error(args);
  } catch (...) {
    if (running) mark_lost(args, current_ + 1);
    end_with_error(args);
  }
  args.report.verdict = party_.verdict();
  args.report.left_with_others = party_.left_with_others();
  take_step_status(args.report);
  args.report.float_status |= launch_status_;
  if (launch_status_ != 0 && sticky_status_ != nullptr) sticky_status_->fetch_or(launch_status_);
  args.report.busy_ns = ns_since(start);
  if (args.metrics != nullptr) args.metrics->end_launch();
}

void Interpreter::end_with_error(LaunchArgs& args) {
  args.report.failed = true;
  args.report.error = describe_error(std::current_exception(), current_, args);
  try {
    std::rethrow_exception(args.report.error);
  } catch (const std::exception& error) {
    tell_kernels(error.what());
  }
  party_.fail();
  if (slot_held_) args.queue->release();
}

// Others that wait for kernels of this list outside of it hear that they wait in vain.
void Interpreter::tell_kernels(const char* why) const noexcept {
  for (const auto& kernel : list_.kernels) {
    if (kernel->waits()) kernel->fail(why);
  }
}

// The first `written` tasks of a step have written something; behind LOOP_INC it is complete.
void Interpreter::mark_lost(LaunchArgs& args, size_t written) const {
  if (current_ > step_done_at_) return;
  for (size_t i = 0; i < args.states.size(); ++i)
    args.states[i].lost = overwritten_by_[i] < written;
}

void Interpreter::run(LaunchArgs& args) {
  const size_t count = list_.tasks.size();
  LaunchReport& report = args.report;
  int64_t device_ns = 0;
  size_t next = 0;
  if (list_.info.sunk) {
    report.cancelled = stop_asked_for(args);
    if (leaves_before_element(report.cancelled ? LoopVote::kStop : LoopVote::kGoOn, args)) return;
  }
  while (next < count) {
    const Task& task = list_.tasks[next];
    current_ = next++;
    device_ns += task.device_ns;
    if (strict_ != nullptr) strict_->reach(current_, table_);
    switch (task.kind) {
      case TaskKind::kDequeue:
        if (!dequeue(task, args)) next = task.target;
        break;
      case TaskKind::kReleaseSlot:
        if (strict_ != nullptr) strict_->release_slot(table_);
        args.queue->release();
        slot_held_ = false;
        break;
      case TaskKind::kMetric:
        if (!push_metrics(task, args)) report.cancelled = true;
        break;
      case TaskKind::kCommit:
        commit(task, args);
        break;
      case TaskKind::kLoopInc:
        ++report.steps;
        report.cursor = cursor_;
        break;
      case TaskKind::kLoopSwitch:
      case TaskKind::kLoopActive:
        if (jumps(task, args))
          next = task.target;
        else if (task.jump == Jump::kStepsDone)
          ++report.true_branches;
        if (task.jump == Jump::kNextTurn && AbortContext(args.stop, args.agreement).aborted())
          next = give_up_step(args);
        break;
      case TaskKind::kLoopReset:
        ++report.resets;
        break;
      default: {
        const bool tells = ranks_ != nullptr && current_ == last_sum_;
        if (tells) offer_to_go_on(args);
        if (!(args.observer == nullptr ? run_and_place(task, args) : run_shown(task, args)))
          next = give_up_step(args);
        // A sum of another group takes no part in it.
        if (tells) all_go_on_ = ranks_->ballot().all_sure();
        if (tells) ranks_->ballot().offer(false);
        break;
      }
    }
  }
  if (!list_.info.sunk && !report.step_given_up) report.steps = 1;
  report.device_ns = device_ns;
}

// Returns the task to go on with: the one that ends the launch. Throws Error where it was another
// party that failed.
size_t Interpreter::give_up_step(LaunchArgs& args) {
  AbortContext(args.stop, args.agreement).require_own_stop();
  tell_kernels("it was asked to stop");
  args.report.cancelled = args.report.step_given_up = true;
  if (slot_held_) args.queue->put_back();
  slot_held_ = false;
  return list_.tasks.size() - (list_.info.sunk ? 1 : 0);
}

// More iterations than were promised would write beyond what was made for them.
void Interpreter::require_trips_left(const Task& task) const {
  const void* count = table_[list_.arguments[task.first_argument + 1]];
  if (read<int64_t>(count) < task.limit) return;
  throw Error({.op = "while_loop",
               .argument = "max_trips",
               .expected = "at most " + std::to_string(task.limit) + " iterations",
               .got = "a condition that still holds after them",
               .fix = "raise max_trips, or let the condition end the loop earlier"});
}

// A party that goes on votes when it has an element for the step, where steps take any.
bool Interpreter::leaves_before_element(LoopVote own, const LaunchArgs& args) {
  if (own == LoopVote::kGoOn && takes_elements_) return false;
  return leaves(own, args);
}

// Votes, where the last sum over ranks has not told yet that all of them go on.
bool Interpreter::leaves(LoopVote own, const LaunchArgs& args) {
  if (!std::exchange(all_go_on_, false) && party_.leaves(own)) return true;
  if (ranks_ != nullptr) ranks_->begin_step(args.first_step + args.report.steps);
  return false;
}

// A rank is sure to go on where nothing but the step itself can keep it from the next one.
void Interpreter::offer_to_go_on(const LaunchArgs& args) {
  ranks_->ballot().offer(args.report.steps + 1 < args.steps && !stop_asked_for(args) &&
                         !list_.has_stop_value &&
                         (!takes_elements_ || has_next_element(*args.queue)));
}

bool Interpreter::jumps(const Task& task, LaunchArgs& args) {
  const void* argument =
      task.argument_count != 0 ? table_[list_.arguments[task.first_argument]] : nullptr;
  LaunchReport& report = args.report;
  switch (task.jump) {
    case Jump::kAlways:
    case Jump::kNextTurn:
      return true;
    case Jump::kIfFalse:
      if (read<uint8_t>(argument) == 0) return true;
      if (task.argument_count > 1) require_trips_left(task);
      return false;
    case Jump::kIfReached:
      return read<int64_t>(argument) >= task.limit;
    case Jump::kStepsDone: {
      const bool done = report.steps >= args.steps;
      report.stopped = argument != nullptr && read<uint8_t>(argument) != 0;
      const bool stop = !all_go_on_ && stop_asked_for(args);
      if (stop && !done) report.cancelled = true;
      return leaves_before_element(stop             ? LoopVote::kStop
                                   : report.stopped ? LoopVote::kStopWhen
                                   : done           ? LoopVote::kStepsDone
                                                    : LoopVote::kGoOn,
                                   args);
    }
    case Jump::kNone:
    case Jump::kIfNoElement:
      break;
  }
  return false;
}

bool Interpreter::run_shown(const Task& task, LaunchArgs& args) {
  const TaskInfo& info = list_.infos[current_];
  if (info.operands.empty()) return run_and_place(task, args);
  std::vector<OpOperand> operands;
  for (size_t i = 0; i < info.operands.size(); ++i)
    operands.push_back({info.operands[i], table_[list_.arguments[task.first_argument + i]]});
  if (task.shows_row()) operands.back().elements = nullptr;
  const std::span<const OpOperand> shown = operands;
  const OpRun run{.step = args.first_step + args.report.steps,
                  .name = info.name,
                  .op = info.op,
                  .site = info.site,
                  .inputs = shown.first(info.inputs),
                  .outputs = shown.subspan(info.inputs),
                  .infinite_attribute = info.infinite_attribute,
                  .checks_finiteness = info.checks_finiteness};
  args.observer->before(run);
  if (!run_and_place(task, args)) return false;
  if (task.shows_row()) operands.back().elements = table_[task.row];
  const auto word = std::find(list_.status_tasks.begin(), list_.status_tasks.end(), current_);
  args.observer->after(run,
                       word == list_.status_tasks.end()
                           ? 0
                           : status_words_[static_cast<size_t>(word - list_.status_tasks.begin())]);
  return true;
}

// Runs the task's kernel; for a row view, then points its entry at the row.
bool Interpreter::run_and_place(const Task& task, const LaunchArgs& args) {
  if (!run_kernel(task, args)) return false;
  if (!task.shows_row()) return true;
  const void* begin = table_[list_.arguments[task.first_argument + task.argument_count - 1]];
  table_[task.row] = static_cast<char*>(table_[list_.table[task.row].index]) + read<int64_t>(begin);
  return true;
}

// False where it waits for something outside, and gave up.
bool Interpreter::run_kernel(const Task& task, const LaunchArgs& args) {
  if (strict_ != nullptr && !task.waits) {
    strict_->run_kernel(current_, table_);
    return true;
  }
  if (strict_ != nullptr) strict_->begin_waiting(current_, table_);
  const uint32_t* indices = list_.arguments.data() + task.first_argument;
  for (uint32_t i = 0; i < task.argument_count; ++i) arguments_[i] = table_[indices[i]];
  const Kernel& kernel = *task.kernel;
  void* const* arguments = arguments_.data();
  if (task.waits) {
    const bool waited = kernel.run_waiting(arguments, AbortContext(args.stop, args.agreement));
    if (waited && strict_ != nullptr) strict_->end_waiting(current_);
    return waited;
  }
  const int phases = kernel.phases();
  for (int phase = 0; phase < phases; ++phase) {
    const int blocks = kernel.blocks(phase);
    if (blocks == 1) {
      kernel.run(arguments, phase, 0);
    } else {
      parallel_for(blocks, [&](int block) { kernel.run(arguments, phase, block); });
    }
  }
  return true;
}

// Returns whether all parties have an element for the step; where not, this one's is put back.
bool Interpreter::keeps_element(LaunchArgs& args) {
  try {
    if (!leaves(LoopVote::kGoOn, args)) return true;
  } catch (...) {
    args.queue->put_back();
    throw;
  }
  args.queue->put_back();
  return false;
}

bool Interpreter::dequeue(const Task& task, LaunchArgs& args) {
  if (args.queue == nullptr)
    throw Error("launch: the program takes its data from a queue, none was given");
  const int64_t waited = args.queue->counters().consumer_wait_ns;
  const std::span<void*> fields(arguments_.data(), task.argument_count);
  const DequeueStatus status = args.queue->dequeue(fields, &cursor_, args.stop);
  if (all_go_on_ && status != DequeueStatus::kElement)
    throw Error("launch: the element that this rank told the others of is gone from the queue");
  args.report.queue_wait_ns += args.queue->counters().consumer_wait_ns - waited;
  for (uint32_t i = 0; i < task.argument_count; ++i) {
    table_[list_.arguments[task.first_argument + i]] = arguments_[i];
  }
  switch (status) {
    case DequeueStatus::kElement:
      slot_held_ = keeps_element(args);
      return slot_held_;
    case DequeueStatus::kEndOfData:
    case DequeueStatus::kClosed:
      args.report.end_of_data = true;
      party_.leaves(LoopVote::kEndOfData);
      return false;
    case DequeueStatus::kCancelled:
      args.report.cancelled = true;
      party_.leaves(LoopVote::kStop);
      return false;
    case DequeueStatus::kFailed:
      throw args.queue->failure();
    case DequeueStatus::kTimeout:
      throw args.queue->timeout_error();
  }
  return false;
}

bool Interpreter::push_metrics(const Task& task, LaunchArgs& args) {
  if (args.metrics == nullptr) {
    take_step_status(args.report);
    return true;
  }
  for (uint32_t i = 0; i < task.argument_count; ++i) {
    metrics_[i] = table_[list_.arguments[task.first_argument + i]];
  }
  const std::span<const void* const> row(metrics_.data(), task.argument_count);
  const int64_t waited = args.metrics->push_wait_ns();
  // It waits without the stop flag: the row of a step that is completed is not lost, the host
  // drains the ring until the launch ends.
  const std::optional<uint32_t> status = args.metrics->push(
      args.first_step + args.report.steps, take_step_status(args.report), row, nullptr);
  args.report.metrics_wait_ns += args.metrics->push_wait_ns() - waited;
  args.report.float_status |= status.value_or(0);
  return status.has_value();
}

// Returns what was raised since it was taken last.
uint32_t Interpreter::take_step_status(LaunchReport& report) {
  uint32_t status = 0;
  for (size_t i = 0; i < status_words_.size(); ++i) {
    const uint32_t raised = std::exchange(status_words_[i], 0);
    if (raised == 0) continue;
    status |= raised;
    if (!report.float_status_by.empty()) continue;
    const TaskInfo& task = list_.infos[list_.status_tasks[i]];
    report.float_status_by = task.name;
    if (task.site.known()) report.float_status_by += " (" + to_string(task.site) + ")";
  }
  launch_status_ |= status;
  return status;
}

void Interpreter::commit(const Task& task, LaunchArgs& args) {
  const uint32_t* pair = list_.arguments.data() + task.first_argument;
  for (uint32_t i = 0; i < task.argument_count; i += 2) {
    std::swap(table_[pair[i]], table_[pair[i + 1]]);
    StateBuffers& buffer = args.states[list_.table[pair[i]].index];
    std::swap(buffer.current, buffer.other);
  }
  if (strict_ != nullptr) strict_->commit(current_, table_);
}

std::exception_ptr Interpreter::describe_error(const std::exception_ptr& error, size_t task,
                                               const LaunchArgs& args) const {
  const TaskInfo* info = task < list_.infos.size() ? &list_.infos[task] : nullptr;
  std::string where = "step " + std::to_string(args.first_step + args.report.steps);
  if (info != nullptr) {
    where += ", task " + std::to_string(task) + " (" + info->name + ")";
  }
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    return std::make_exception_ptr(
        (info != nullptr ? e.with_site(info->site) : e).with_context(where));
  } catch (const std::exception& e) {
    return std::make_exception_ptr(Error(
        {.op = where, .message = e.what(), .site = info != nullptr ? info->site : CallSite{}}));
  } catch (...) {
    return std::make_exception_ptr(Error({.op = where, .message = "an unknown exception"}));
  }
}

}  // namespace keel
