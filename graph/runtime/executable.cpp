#include "keel/graph/runtime/executable.h"

#include <algorithm>
#include <exception>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "keel/graph/ir/skipped_steps.h"

namespace keel {

bool operator==(const ProgramKey& a, const ProgramKey& b) {
  const auto same = [](const Assignment& x, const Assignment& y) {
    return x.state == y.state && x.next == y.next;
  };
  const auto& p = a.update.assignments;
  const auto& q = b.update.assignments;
  return a.sunk == b.sunk && a.stop_when == b.stop_when && a.fetches == b.fetches &&
         a.feeds == b.feeds && a.queue == b.queue && a.precision == b.precision &&
         a.disabled_passes == b.disabled_passes && a.placement == b.placement &&
         std::equal(p.begin(), p.end(), q.begin(), q.end(), same);
}

Executable::Executable(ProgramKey key, Compiled compiled, Device device, StateStore& store)
    : key_(std::move(key)), compiled_(std::move(compiled)) {
  Backend& backend = device.backend();
  const auto allocate = [&](const Type& type, const std::string& holder) {
    return backend.allocate(device.index(), type.shape.num_bytes(type.dtype), holder);
  };
  for (const StateInfo& state : info().states) states_.push_back(&store.state(state.name));
  std::unordered_set<std::string_view> resident;
  if (key_.queue) {
    for (const FieldSpec& field : key_.queue->resident) resident.insert(field.name);
  }
  for (const FieldSpec& input : info().inputs) {
    inputs_.push_back(resident.contains(input.name) ? nullptr
                                                    : allocate(input.type, "input " + input.name));
    args_.inputs.push_back(inputs_.back().get());
  }
  for (const Type& output : info().outputs) {
    outputs_.push_back(allocate(output, "output " + std::to_string(outputs_.size())));
    args_.outputs.push_back(outputs_.back().get());
  }
  args_.states.resize(states_.size());
}

LaunchArgs& Executable::bind(StateStore& store, Buffer& scratch) {
  args_.observer = nullptr;
  for (const StateStore::State* state : states_) store.require_valid(*state);
  for (size_t i = 0; i < states_.size(); ++i) {
    const StateInfo& wanted = info().states[i];
    store.prepare(*states_[i], wanted);
    args_.states[i] = {states_[i]->current.get(),
                       wanted.second_buffer ? states_[i]->other.get() : nullptr};
  }
  args_.scratch = &scratch;
  args_.steps = 1;
  args_.queue = nullptr;
  args_.metrics = nullptr;
  args_.stop = nullptr;
  args_.agreement = nullptr;
  args_.first_step = key_.update.empty() ? 1 : store.step() + 1;
  args_.report = LaunchReport();
  return args_;
}

namespace {

bool says_nothing(const LaunchReport& report) {
  return !report.failed && report.steps == 0 && !report.cancelled && !report.end_of_data;
}

// Returns why the report of a launch of `steps` steps cannot be true; nothing where it can.
// `counts`: its steps count, as those that update states. `failed`: an error came with it.
std::optional<Error> untrue(const LaunchReport& report, int64_t steps, bool counts, bool failed) {
  const auto wrong = [](const char* what, const std::string& expected, int64_t got) {
    return Error({.op = "report of the launch",
                  .argument = what,
                  .expected = expected,
                  .got = std::to_string(got),
                  .fix = "correct what the backend's Program::launch writes into args.report "
                         "(core/device/program.h)"});
  };
  if (report.steps < 0 || report.steps > steps)
    return wrong("steps", "0 to " + std::to_string(steps), report.steps);
  if (counts && !failed && says_nothing(report) && report.verdict == LoopVote::kGoOn)
    return wrong("steps", "at least 1, or why there was none", 0);
  for (const auto& [what, ns] :
       {std::pair("device_ns", report.device_ns), std::pair("queue_wait_ns", report.queue_wait_ns),
        std::pair("busy_ns", report.busy_ns),
        std::pair("metrics_wait_ns", report.metrics_wait_ns)}) {
    if (ns < 0) return wrong(what, "at least 0", ns);
  }
  return std::nullopt;
}

// Throws what the device says of a launch of which its stream gave no error.
void require_success(const LaunchReport& report) {
  if (report.error != nullptr) std::rethrow_exception(report.error);
  if (report.failed)
    throw Error({.op = "report of the launch", .message = "it failed, and nothing says why"});
}

}  // namespace

int64_t Executable::take_back(StateStore& store, bool failed) {
  LaunchReport& report = args_.report;
  const std::optional<Error> refused =
      untrue(report, args_.steps, /*counts=*/!key_.update.empty(), failed);
  if (refused) report = LaunchReport();
  // A device that says nothing of a launch that failed, or what cannot be, may have left anything.
  const bool silent = refused || (failed && says_nothing(report));
  bool counted = !silent;
  for (size_t i = 0; i < states_.size(); ++i) {
    StateStore::State& state = *states_[i];
    if (state.other != nullptr && args_.states[i].current == state.other.get())
      std::swap(state.current, state.other);
    if (!args_.states[i].lost && !(silent && info().states[i].updated)) continue;
    state.valid = false;
    counted = counted && state.name != kStepState;
  }
  const int64_t steps = report.steps;
  if (!key_.update.empty()) {
    store.advance_step(counted ? std::optional(steps) : std::nullopt);
    count_for_newer_states(store, steps);
  }
  if (failed) return steps;
  if (refused) throw Error(*refused);
  require_success(report);
  return steps;
}

void Executable::count_for_newer_states(StateStore& store, int64_t steps) {
  const auto knows = [&](const std::string& name) {
    const auto& states = info().states;
    const auto& assignments = key_.update.assignments;
    return std::any_of(states.begin(), states.end(),
                       [&](const StateInfo& state) { return state.name == name; }) ||
           std::any_of(assignments.begin(), assignments.end(),
                       [&](const Assignment& a) { return name_of(a.state.node()) == name; });
  };
  if (!knows(kUpdatesState)) store.count_updates(steps);
  for (const auto& [name, state] : store.states()) {
    if (counts_skipped_steps(name) && !knows(name)) store.count_skipped(store.state(name), steps);
  }
}

std::shared_ptr<Executable> ProgramCache::find(const ProgramKey& key) {
  const auto it = std::find_if(recent_.begin(), recent_.end(),
                               [&](const auto& executable) { return executable->key() == key; });
  if (it == recent_.end()) return nullptr;
  std::rotate(recent_.begin(), it, it + 1);
  return recent_.front();
}

void ProgramCache::add(std::shared_ptr<Executable> executable) {
  alive_.push_back(executable);
  recent_.insert(recent_.begin(), std::move(executable));
  if (recent_.size() > capacity_) recent_.pop_back();
}

Buffer& ProgramCache::scratch(const Executable& program, StateStore& store) {
  size_t most = 0;
  std::erase_if(alive_, [&](const std::weak_ptr<Executable>& weak) {
    const auto executable = weak.lock();
    if (executable != nullptr) most = std::max(most, executable->info().scratch_bytes);
    return executable == nullptr;
  });
  const ProgramInfo& info = program.info();
  const size_t needed = info.scratch_bytes;
  const bool alone = needed < most && most == refused_;
  if (scratch_ != nullptr && (alone ? scratch_->size() >= needed : scratch_->size() == most)) {
    return *scratch_;
  }
  scratch_.reset();
  try {
    const size_t bytes = alone ? needed : most;
    scratch_ = device_.backend().allocate(device_.index(), bytes, "scratch");
  } catch (const Error& error) {
    refused_ = most;
    if (needed < most && !alone) return scratch(program, store);
    throw error.with_context("step " + std::to_string(store.step() + 1) + ", " + info.scratch_peak)
        .with_site(info.scratch_peak_site);
  }
  return *scratch_;
}

}  // namespace keel
