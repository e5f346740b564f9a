// The loop of a device that does not go from step to step by itself, because it cannot or because
// data_sink is off: the host takes each element out of the queue, copies it to the program's
// inputs, launches the step, waits for it and looks at its stop value. Rows, callbacks and reports
// are those of a sunk loop, and so is every bit of the results.
#include <algorithm>
#include <cstring>
#include <string>

#include "keel/core/group/group_agreement.h"
#include "keel/graph/runtime/loop_state.h"

namespace keel {
namespace {

constexpr size_t kCell = 8;  // bytes of a rank-0 value at most

}  // namespace

void Loop::State::prepare_to_drive(const StepDescription& step) {
  results.resize(kCell * executable->info().outputs.size());
  if (queue != nullptr) element.resize(queue->spec().fields.size());
  if (!step.stop_when.valid()) return;
  const auto at = std::find(step.fetches.begin(), step.fetches.end(), step.stop_when);
  stop_output = static_cast<size_t>(at - step.fetches.begin());
}

void Loop::drive(int64_t steps, const LoopCallbacks& callbacks, LoopReport& report,
                 Outcome& outcome) {
  State& s = *state_;
  LaunchReport& done = outcome.done;
  LoopParty party(s.agreement.get());
  Group* ranks = group_of(s.agreement.get());
  // The votes before the first step are that step's.
  if (ranks != nullptr) ranks->begin_step(report.first_step);
  try {
    done.cancelled = s.session->stop.load();
    LoopVote own = done.cancelled ? LoopVote::kStop : LoopVote::kGoOn;
    // A party that goes on votes when it has an element for the step.
    while (own == LoopVote::kGoOn ? take_element(party, done) : !party.leaves(own)) {
      ++report.launches;
      if (ranks != nullptr) ranks->begin_step(report.first_step + done.steps);
      if (!drive_step(report.first_step + done.steps, done)) break;
      keep_results(report);
      deliver(callbacks, report, outcome);
      const bool stop = s.session->stop.load();
      done.cancelled = stop && done.steps < steps;
      own = stop                  ? LoopVote::kStop
            : done.stopped        ? LoopVote::kStopWhen
            : done.steps >= steps ? LoopVote::kStepsDone
                                  : LoopVote::kGoOn;
    }
  } catch (...) {
    party.fail();
    throw;
  }
  done.verdict = party.verdict();
  done.left_with_others = party.left_with_others();
  if (done.steps == 0) return;
  collect(report);
}

// Returns whether all parties have an element for the step; where not, this one's is put back.
bool Loop::keeps_element(LoopParty& party) {
  DeviceQueue& queue = *state_->queue;
  try {
    if (!party.leaves(LoopVote::kGoOn)) return true;
  } catch (...) {
    queue.put_back();
    throw;
  }
  queue.put_back();
  return false;
}

// False where the loop ends before this step.
bool Loop::take_element(LoopParty& party, LaunchReport& done) {
  State& s = *state_;
  if (s.queue == nullptr) return !party.leaves(LoopVote::kGoOn);
  Cursor cursor;
  const int64_t waited = s.queue->counters().consumer_wait_ns;
  const DequeueStatus status =
      s.queue->dequeue_on_host(s.element, &cursor, &s.session->stop, s.agreement.get());
  done.queue_wait_ns += s.queue->counters().consumer_wait_ns - waited;
  switch (status) {
    case DequeueStatus::kElement:
      s.cursor = cursor;
      return keeps_element(party);
    case DequeueStatus::kEndOfData:
    case DequeueStatus::kClosed:
      done.end_of_data = true;
      party.leaves(LoopVote::kEndOfData);
      return false;
    case DequeueStatus::kCancelled:
      done.cancelled = true;
      party.leaves(LoopVote::kStop);
      return false;
    case DequeueStatus::kFailed:
      throw s.queue->failure();
    case DequeueStatus::kTimeout:
      throw s.queue->timeout_error();
  }
  return false;
}

// False where the step was given up.
bool Loop::drive_step(int64_t number, LaunchReport& done) {
  State& s = *state_;
  SessionState& session = *s.session;
  Stream& stream = *session.stream;
  Executable& executable = *s.executable;
  const ProgramInfo& info = executable.info();
  LaunchArgs& args =
      executable.bind(session.store, session.cache.scratch(executable, session.store));
  args.first_step = number;
  args.observer = s.observer;
  args.stop = &session.stop;
  args.agreement = s.agreement.get();
  bool launched = false;
  const auto end_step = [&](bool failed) {
    if (s.queue != nullptr) {
      if (args.report.step_given_up)
        s.queue->put_back();
      else
        s.queue->release();
    }
    if (!launched) return;
    try {
      executable.take_back(session.store, failed);
    } catch (...) {
      done.steps += args.report.steps;
      throw;
    }
  };
  try {
    if (s.queue != nullptr) {
      bind_resident(info, *s.queue, args);
      feed_element(args);
    }
    executable.program().launch(stream, args);
    launched = true;
    for (size_t i = 0; i < info.outputs.size(); ++i) {
      if (!info.output_is_metric[i]) continue;
      session.copy_to_host(&s.results[kCell * i], executable.output(i),
                           size_of(info.outputs[i].dtype));
    }
    stream.synchronize();
  } catch (...) {
    quiesce(stream);
    end_step(/*failed=*/true);
    throw;
  }
  end_step(/*failed=*/false);
  if (args.report.step_given_up) {
    done.cancelled = done.step_given_up = true;
    return false;
  }
  ++done.steps;
  done.cursor = s.cursor;
  done.busy_ns += args.report.busy_ns;
  done.device_ns += args.report.device_ns;
  if (done.float_status_by.empty()) done.float_status_by = args.report.float_status_by;
  done.stopped = s.stop_output && s.results[kCell * *s.stop_output] != 0;
  read_row(number, args.report.float_status);
  return true;
}

// Copies the element's fields into the program's inputs of the same names.
void Loop::feed_element(LaunchArgs& args) {
  State& s = *state_;
  const std::vector<FieldSpec>& inputs = s.executable->info().inputs;
  const std::vector<FieldSpec>& fields = s.queue->spec().fields;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto field = std::find_if(fields.begin(), fields.end(),
                                    [&](const FieldSpec& f) { return f.name == inputs[i].name; });
    const size_t bytes = inputs[i].type.shape.num_bytes(inputs[i].type.dtype);
    if (field == fields.end() || bytes == 0) continue;
    s.session->copy_to_device(*args.inputs[i],
                              s.element[static_cast<size_t>(field - fields.begin())], bytes);
  }
}

// Takes the rank-0 fetches of a completed step over into the report.
void Loop::keep_results(LoopReport& report) {
  for (size_t i = 0; i < report.columns_.size(); ++i) {
    Tensor& tensor = report.tensors_[i];
    if (report.columns_[i] >= 0)
      std::memcpy(tensor.raw(), &state_->results[kCell * i], tensor.num_bytes());
  }
}

// Reads the step's rank-0 fetches, by way of the ring that a sunk loop uses.
void Loop::read_row(int64_t number, uint32_t float_status) {
  State& s = *state_;
  std::vector<const void*> cells(s.row.values.size());
  for (size_t i = 0; i < s.blank.columns_.size(); ++i) {
    const int64_t column = s.blank.columns_[i];
    if (column >= 0) cells[static_cast<size_t>(column)] = &s.results[kCell * i];
  }
  s.metrics->push(number, float_status, cells, nullptr);
  s.metrics->pop(s.row, std::chrono::microseconds(0));
}

}  // namespace keel
