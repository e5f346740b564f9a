#include "keel/graph/runtime/loop.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "keel/core/base/log.h"
#include "keel/core/base/ns_since.h"
#include "keel/core/device/float_status.h"
#include "keel/core/group/group_agreement.h"
#include "keel/core/tensor/canonical_nan.h"
#include "keel/graph/runtime/launch_watch.h"
#include "keel/graph/runtime/loop_state.h"
#include "keel/graph/runtime/pass_table.h"

namespace keel {
namespace {

using Clock = std::chrono::steady_clock;

// This is how often the host looks for a stop request while no row comes.
constexpr std::chrono::microseconds kPoll{5000};
// Rows reserved before a launch; a longer one grows by doubling.
constexpr int64_t kMostReserved = int64_t{1} << 20;

// Errors name a feeder so that was stopped or never opened, and say what to do about it.
constexpr const char* kNotOpen = "a feeder that is not open";
constexpr const char* kOpenIt = "open it: feeder->open(cursor)";

Error report_error(const ValueAt& fetch, const std::string& expected, const std::string& got,
                   const std::string& fix) {
  const bool known = fetch.value.valid();
  return Error({.op = "loop report",
                .argument = known ? described(fetch.value) + made_at(fetch.value) : "fetch",
                .expected = expected,
                .got = known ? got : "an empty Value",
                .fix = fix,
                .site = fetch.site});
}

// Returns what the producer copied for the elements that were taken.
Transfers transfers_of(const DeviceQueue* queue) {
  if (queue == nullptr) return {};
  const QueueCounters counters = queue->counters();
  return {.to_device = counters.copies, .to_device_bytes = counters.copied_bytes};
}

// Throws what the device says of a launch that is over and that nobody ended.
[[noreturn]] void throw_without_end(Stream& stream) {
  stream.synchronize();
  throw Error({.op = "launch",
               .message = "it is over, and its program did not end it",
               .fix = "call args.metrics->end_launch() in the backend's Program::launch, however a "
                      "launch ends (core/device/program.h)"});
}

int64_t elements_ahead(const DeviceQueue& queue) {
  const QueueCounters counters = queue.counters();
  return counters.enqueued - counters.dequeued;
}

}  // namespace

// ---- LoopReport

size_t LoopReport::index_of(const ValueAt& fetch) const {
  if (places_ != nullptr) {
    if (const auto it = places_->find(fetch.value); it != places_->end()) return it->second;
  }
  throw report_error(fetch, "one of the loop's " + std::to_string(columns_.size()) + " fetches",
                     "another value", "name it among the fetches of sink()");
}

std::span<const double> LoopReport::operator[](ValueAt fetch) const& {
  const int64_t column = columns_[index_of(fetch)];
  if (column < 0) {
    throw report_error(fetch, "a fetch of rank 0", to_string(fetch.value.type()),
                       "use tensor(), which has its value of the last step");
  }
  return series_[static_cast<size_t>(column)];
}

std::vector<double> LoopReport::operator[](ValueAt fetch) && {
  const std::span<const double> values = static_cast<const LoopReport&>(*this)[fetch];
  return {values.begin(), values.end()};
}

const Tensor& LoopReport::tensor(Value fetch, CallSite site) const {
  const size_t index = index_of({fetch, site});
  if (steps == 0) {
    throw report_error({fetch, site}, "at least one completed step", "none",
                       "look at report.steps first");
  }
  return tensors_[index];
}

// ---- Loop::State

namespace {

template <class Alternative>
Alternative source_as(const LoopSource& source) {
  const auto* held = std::get_if<Alternative>(&source);
  return held == nullptr ? nullptr : *held;
}

// Throws Error for a step with inputs: a loop is fed by nothing but its queue, and the error of an
// input that a run() lacks would send the user to arguments that sink() does not have.
void require_no_inputs(const ProgramKey& key, const Graph& graph, CallSite site) {
  SpecialiseRequest step{&graph, key.fetches, key.update, {}, {}};
  step.boundary = {key.stop_when, site};
  std::string types, names;
  try {
    for (const Value& input : reached_inputs(step)) {
      const std::string& name = name_of(input.node());
      if (types.empty()) types = "'" + name + "' " + to_string(input.type());
      names += (names.empty() ? "" : ", ") + name;
    }
  } catch (const Error& error) {
    throw error.with_site(site);
  }
  if (types.empty()) return;
  throw Error({.op = "sink",
               .argument = "source",
               .expected = "a feeder or queue for the step's inputs, such as " + types,
               .got = "none",
               .fix = "add .source = keel::feed(dataset, session.spec({" + names + "}))",
               .site = site});
}

// Returns the passes that are off for the session or for this loop, as a program's key has them.
std::vector<std::string> disabled_passes(const SessionOptions& session, const SinkOptions& loop) {
  std::vector<std::string> names = session.disabled_passes;
  names.insert(names.end(), loop.disabled_passes.begin(), loop.disabled_passes.end());
  return in_one_order(std::move(names));
}

// Tells of passes that are off for this loop alone; the session has told of its own.
void tell_of_disabled_passes(const SessionOptions& session, const SinkOptions& loop) {
  if (loop.disabled_passes.empty()) return;
  const std::vector<std::string> told = select_passes(session.disabled_passes, CallSite{}).notices;
  for (const std::string& notice :
       select_passes(disabled_passes(session, loop), CallSite{}).notices)
    if (std::find(told.begin(), told.end(), notice) == told.end()) log_warn(notice);
}

}  // namespace

Loop::State::State(std::shared_ptr<SessionState> session_in, const SinkOptions& options,
                   const StepDescription& step, CallSite site)
    : session(std::move(session_in)),
      feeder(source_as<std::shared_ptr<Feeder>>(options.source)),
      queue(source_as<std::shared_ptr<DeviceQueue>>(options.source)),
      agreement(options.agreement) {
  const SessionGuard guard(*session, "Session::sink", site);
  require_stop_value(step.stop_when, "sink", site);
  if (feeder != nullptr) queue = feeder->queue();
  ProgramKey key{.fetches = step.fetches,
                 .update = step.update,
                 .feeds = {},
                 .sunk = true,
                 .queue = {},
                 .stop_when = step.stop_when,
                 .precision = options.precision.value_or(session->options.precision),
                 .disabled_passes = disabled_passes(session->options, options),
                 .placement = session->options.placement};
  if (!std::holds_alternative<std::monostate>(options.source) && queue == nullptr) {
    throw Error({.op = "sink",
                 .argument = "source",
                 .expected = "an open queue",
                 .got = feeder != nullptr ? kNotOpen : "nothing",
                 .fix = feeder != nullptr ? kOpenIt : "",
                 .site = site});
  }
  if (queue != nullptr) {
    if (queue->device() != session->device) {
      throw Error({.op = "sink",
                   .argument = "queue '" + queue->name() + "'",
                   .expected = "a queue on " + session->device.name(),
                   .got = "one on " + queue->device().name(),
                   .site = site});
    }
    require_data_sink(*queue, session->options.data_sink, site);
    key.queue = source_of(*queue);
  }
  if (queue == nullptr) require_no_inputs(key, *session->graph, site);
  tell_of_disabled_passes(session->options, options);
  executable = session->executable(std::move(key), site);
  const ProgramInfo& info = executable->info();
  auto places = std::make_shared<LoopReport::Places>();
  for (size_t i = 0; i < step.fetches.size(); ++i) places->emplace(step.fetches[i], i);
  blank.places_ = std::move(places);
  std::vector<DType> columns;
  for (size_t i = 0; i < step.fetches.size(); ++i) {
    const bool metric = info.output_is_metric[i];
    blank.columns_.push_back(metric ? static_cast<int64_t>(columns.size()) : -1);
    if (metric) columns.push_back(info.outputs[i].dtype);
  }
  blank.step_device_ns = info.step_device_ns;
  blank.kind = executable->report().loop.kind;
  row.values.resize(columns.size());
  if (blank.kind == LoopKind::kHost) prepare_to_drive(step);
  metrics = std::make_unique<MetricsQueue>(std::move(columns));
  let_go_of_queue();
}

void Loop::State::require_data_sink(const DeviceQueue& queue, bool data_sink, CallSite site) {
  if (queue.data_sink() == data_sink) return;
  throw Error({.op = "sink",
               .argument = "queue '" + queue.name() + "'",
               .expected = std::string("a queue with data_sink ") + (data_sink ? "on" : "off") +
                           ", as the session's is",
               .got = std::string("one with data_sink ") + (data_sink ? "off" : "on"),
               .fix = "make it with session.spec() of this session",
               .site = site,
               .kind = ErrorKind::kInvalidArgument});
}

void Loop::State::let_go_of_queue() {
  if (feeder != nullptr) queue.reset();
}

void Loop::State::tell_size(int64_t size) {
  if (compile_report) compile_report->loop_size = size;
  if (std::exchange(loop_size, size) == size || size == 1) return;
  // Evaluations between the launches of a training have sizes of their own.
  if (executable->key().update.empty() || !log_enabled(LogLevel::kInfo)) return;
  const CompileReport& report = executable->report();
  const std::string loop =
      "loop size:" + std::to_string(size) + ", loop kind:" + name_of(report.loop.kind);
  if (report.loop.kind == LoopKind::kHost)
    log_info("Insert op none, " + loop + ", reason:" + report.loop.reason + ".");
  for (const InsertedOp& op : report.inserted_ops) {
    log_info("Insert op success, name:" + op.name + ", type:" + op.type + ", " + loop + ".");
  }
}

void Loop::State::note_float_status(LoopReport& report) {
  for (size_t i = 0; i < report.float_status.size(); ++i) {
    const uint32_t raised = report.float_status[i];
    if (raised == 0) continue;
    const int64_t step = report.first_step + static_cast<int64_t>(i);
    if (!report.float_status_step) report.float_status_step = step;
    const uint32_t fresh = raised & ~warned_of;
    if (fresh == 0 || replays) continue;
    warned_of |= fresh;
    // Steps of an evaluation are counted from its beginning, not from the training's.
    const bool evaluates = executable->key().update.empty();
    log_warn((evaluates ? "evaluation on " : "loop on ") + session->device.name() + ", step " +
             std::to_string(step) + ": " + describe_float_status(fresh) +
             (report.float_status_by.empty() || step != *report.float_status_step
                  ? ""
                  : ", first in " + report.float_status_by));
  }
}

void Loop::State::require_loop_with_host_parts(int64_t steps, CallSite site) const {
  constexpr int64_t kMostParts = 10;  // that an error tells of
  const CompileReport& report = executable->report();
  if (steps == 1 || report.loop.kind != LoopKind::kHost || report.placement.policy_tasks == 0)
    return;
  std::string parts;
  int64_t told = 0;
  for (const NodePlacement& node : report.placement.nodes) {
    if (!node.by_policy) continue;
    if (told++ < kMostParts) parts += (parts.empty() ? "" : "; ") + to_string(node);
  }
  if (told > kMostParts) parts += "; and " + std::to_string(told - kMostParts) + " more";
  throw Error({.op = "loop on " + session->device.name(),
               .message = "MIXED_COMPILE_LOOP_SIZE: the placement policy mixed has parts of the "
                          "step on the host that do not run inside a launch of " +
                          std::to_string(steps) + " steps, because " + report.loop.reason + ": " +
                          parts,
               .fix = "use a loop size of 1, or a device that loops by itself",
               .site = site,
               .kind = ErrorKind::kInvalidArgument});
}

LoopReport Loop::State::blank_report(int64_t steps) const {
  LoopReport report = blank;
  const auto rows = static_cast<size_t>(std::min(steps, kMostReserved));
  report.series_.resize(row.values.size());
  for (auto& series : report.series_) series.reserve(rows);
  report.float_status.reserve(rows);
  for (size_t i = 0; i < report.columns_.size(); ++i) {
    const Type& type = executable->info().outputs[i];
    report.tensors_.emplace_back(type.dtype, type.shape);
  }
  return report;
}

void Loop::State::complete(LoopReport& report, const Outcome& outcome) {
  const LaunchReport& done = outcome.done;
  report.steps = done.steps;
  report.end_of_data = done.end_of_data;
  const bool session_asked = session->requested.exchange(false);
  report.cancelled = requested.exchange(false) || session_asked;
  report.step_given_up = done.step_given_up;
  if (queue != nullptr) report.elements_ahead = elements_ahead(*queue);
  report.stopped = outcome.stopped || done.stopped;
  report.verdict = done.verdict;
  report.left_with_others = done.left_with_others;
  if (done.stopped) report.stop_step = report.first_step + done.steps - 1;
  report.cursor = done.cursor;
  report.true_branches = done.true_branches;
  report.resets = done.resets;
  report.busy_ns = done.busy_ns;
  report.queue_wait_ns = done.queue_wait_ns;
  report.metrics_wait_ns = done.metrics_wait_ns;
  report.float_status_by = done.float_status_by;
  // The row of a step that failed behind its METRIC does not count.
  const auto whole = static_cast<size_t>(report.steps);
  for (auto& series : report.series_) series.resize(std::min(series.size(), whole));
  report.float_status.resize(std::min(report.float_status.size(), whole));
  note_float_status(report);
  // The bits of a step that is not counted are in no row.
  if (!report.float_status_step) report.float_status_by.clear();
}

void Loop::State::take_queue(CallSite site) {
  if (feeder == nullptr) return;
  const std::shared_ptr<DeviceQueue>& now = feeder->queue();
  const QueueSource& compiled = *executable->key().queue;
  const bool fits = now != nullptr && now->device() == session->device &&
                    source_of(*now).element == compiled.element &&
                    source_of(*now).resident == compiled.resident;
  if (!fits) {
    throw Error(
        {.op = "loop",
         .argument = "feeder",
         .expected = "a queue of " + to_string(compiled.element) + " on " + session->device.name(),
         .got = now == nullptr ? kNotOpen : to_string(now->spec()) + " on " + now->device().name(),
         .fix = now == nullptr ? kOpenIt : "",
         .site = site});
  }
  require_data_sink(*now, session->options.data_sink, site);
  queue = now;
}

LaunchArgs& Loop::State::prepare(int64_t steps, LoopReport& report, CallSite site) {
  report = blank_report(steps);
  take_queue(site);
  return executable->bind(session->store, session->cache.scratch(*executable, session->store));
}

void bind_resident(const ProgramInfo& info, const DeviceQueue& queue, LaunchArgs& args) {
  std::unordered_map<std::string_view, Buffer*> buffers;
  for (const ResidentField& resident : queue.resident())
    buffers.emplace(resident.field.name, resident.buffer.get());
  if (buffers.empty()) return;
  for (size_t i = 0; i < info.inputs.size(); ++i) {
    const auto buffer = buffers.find(info.inputs[i].name);
    if (buffer != buffers.end()) args.inputs[i] = buffer->second;
  }
}

// ---- Loop

Loop::Loop(std::unique_ptr<State> state) : state_(std::move(state)) {}
Loop::~Loop() = default;
Loop::Loop(Loop&&) noexcept = default;
Loop& Loop::operator=(Loop&&) noexcept = default;

Loop::State& Loop::state(const char* call, CallSite site) const {
  if (state_ != nullptr) return *state_;
  throw Error({.op = std::string("Loop::") + call,
               .message = "the loop was moved from",
               .fix = "use the loop that it was moved to",
               .site = site});
}

void Loop::request_stop() noexcept {
  if (state_ == nullptr) return;
  State& s = *state_;
  s.requested.store(true);
  if (s.session->running.load() == &s) s.session->stop.store(true);
}

bool Loop::withdraw_stop() noexcept {
  return state_ != nullptr && state_->requested.exchange(false);
}

const LoopReport& Loop::failed_report(CallSite site) const {
  return state("failed_report", site).failed;
}
std::shared_ptr<DeviceQueue> Loop::queue(CallSite site) const {
  const State& s = state("queue", site);
  return s.feeder != nullptr ? s.feeder->queue() : s.queue;
}
std::string Loop::describe(CallSite site) const { return program(site).describe(); }
const Program& Loop::program(CallSite site) const {
  return state("program", site).executable->program();
}
const CompileReport& Loop::compile_report(CallSite site) const {
  State& s = state("compile_report", site);
  if (!s.compile_report) {
    s.compile_report = s.executable->report();
    s.compile_report->loop_size = s.loop_size;
  }
  return *s.compile_report;
}

LoopReport Loop::run(const LoopCallbacks& callbacks, CallSite site) {
  return run_steps(std::nullopt, callbacks, site);
}

LoopReport Loop::run(int64_t steps, const LoopCallbacks& callbacks, CallSite site) {
  return run_steps(steps, callbacks, site);
}

LoopReport Loop::run_steps(std::optional<int64_t> asked, const LoopCallbacks& callbacks,
                           CallSite site) {
  State& s = state("run", site);
  SessionState& session = *s.session;
  const SessionGuard guard(session, "Loop::run", site, s.agreement.get());
  s.failed = LoopReport();
  // Until the device, or drive(), votes for this party.
  FailureToTell untold(s.agreement.get());
  const int64_t steps = asked ? *asked : session.loop_size.use();
  if (steps < 1) {
    throw Error({.op = "loop",
                 .argument = "steps",
                 .expected = "at least 1",
                 .got = std::to_string(steps),
                 .site = site,
                 .kind = ErrorKind::kInvalidArgument});
  }
  s.require_loop_with_host_parts(steps, site);
  if (!callbacks.replays) s.tell_size(std::max(callbacks.loop_size, steps));
  const auto begin = Clock::now();
  LoopReport report;
  const struct HeldQueue {
    State& of;
    ~HeldQueue() { of.let_go_of_queue(); }
  } held{s};
  s.observer = callbacks.observer;
  s.replays = callbacks.replays;
  LaunchArgs& args = s.prepare(steps, report, site);
  args.observer = s.observer;
  report.first_step = args.first_step;
  const StopScope scope(session, &s, &s.requested);
  const int64_t synchronised = session.stream->synchronisations();
  const Transfers fed_before = transfers_of(s.queue.get());
  session.transfers = {};
  Outcome outcome;
  std::optional<Error> error;
  try {
    if (report.kind == LoopKind::kHost) {
      untold.dismiss();
      drive(steps, callbacks, report, outcome);
    } else {
      launch(args, steps, callbacks, untold, report, outcome);
    }
  } catch (...) {
    error = current_error("loop on " + session.device.name(), site);
    quiesce(*session.stream);
  }

  report.host_syncs = session.stream->synchronisations() - synchronised;
  report.transfers = session.transfers;
  const Transfers fed = transfers_of(s.queue.get());
  report.transfers.to_device += fed.to_device - fed_before.to_device;
  report.transfers.to_device_bytes += fed.to_device_bytes - fed_before.to_device_bytes;
  report.failed = error.has_value();
  s.complete(report, outcome);
  report.wall_ns = ns_since(begin);
  if (!error && outcome.thrown == nullptr) return report;
  s.failed = std::move(report);
  if (error && tells_of_loss(s.agreement.get(), *error)) {
    RankLost lost(error->info());
    static_cast<Error&>(lost) = *error;  // whose text also says in which step and task
    throw lost;
  }
  if (error) throw Error(*error);
  std::rethrow_exception(outcome.thrown);
}

void Loop::launch(LaunchArgs& args, int64_t steps, const LoopCallbacks& callbacks,
                  FailureToTell& untold, LoopReport& report, Outcome& outcome) {
  State& s = *state_;
  SessionState& session = *s.session;
  args.steps = steps;
  args.queue = s.queue.get();
  if (s.queue != nullptr) bind_resident(s.executable->info(), *s.queue, args);
  args.metrics = s.metrics.get();
  args.stop = &session.stop;
  args.agreement = s.agreement.get();
  report.launches = 1;
  // The votes before the first step are that step's.
  if (Group* ranks = group_of(args.agreement)) ranks->begin_step(args.first_step);
  s.executable->program().launch(*session.stream, args);
  untold.dismiss();
  const auto take_back = [&](bool failed) {
    try {
      s.executable->take_back(session.store, failed);
    } catch (...) {
      outcome.done = args.report;
      LoopParty(s.agreement.get()).fail();
      throw;
    }
    outcome.done = args.report;
  };
  try {
    drain(callbacks, report, outcome);
    collect(report);
  } catch (...) {
    quiesce(*session.stream);
    take_back(/*failed=*/true);
    if (args.report.error != nullptr) std::rethrow_exception(args.report.error);
    throw;
  }
  take_back(/*failed=*/false);
}

void Loop::drain(const LoopCallbacks& callbacks, LoopReport& report, Outcome& outcome) {
  State& s = *state_;
  bool woken = false;
  const auto wake = [&] {
    // Whoever waits for data that may not come hears of the others as well.
    if (s.agreement != nullptr && s.agreement->broken()) s.session->stop.store(true);
    if (woken || !s.session->stop.load()) return;
    woken = true;
    if (s.queue != nullptr) s.queue->wake();
  };
  LaunchWatch watch(*s.session->stream);
  bool over = false;
  while (true) {
    const MetricsQueue::PopStatus status = s.metrics->pop(s.row, kPoll);
    wake();
    if (status == MetricsQueue::PopStatus::kEnd) return;
    if (status == MetricsQueue::PopStatus::kTimeout) {
      // The end that comes with a launch is there once the launch is over.
      if (over) {
        LoopParty(s.agreement.get()).fail();
        throw_without_end(*s.session->stream);
      }
      over = watch.over();
      continue;
    }
    watch.hear();
    deliver(callbacks, report, outcome);
    wake();
  }
}

// It never throws: the ring is emptied to the launch's end whatever happens here, since the device
// waits for room in it.
void Loop::deliver(const LoopCallbacks& callbacks, LoopReport& report, Outcome& outcome) {
  State& s = *state_;
  const MetricsQueue::Row& row = s.row;
  try {
    for (size_t i = 0; i < row.values.size(); ++i) report.series_[i].push_back(row.values[i]);
    report.float_status.push_back(row.float_status);
    if (outcome.stopped || outcome.thrown != nullptr) return;
    const auto begin = Clock::now();
    if (callbacks.on_step) {
      outcome.stopped =
          callbacks.on_step(row.step, row.values, row.float_status) == LoopControl::kStop;
    }
    if (callbacks.ends_launch && callbacks.ends_launch()) s.session->stop.store(true);
    if (callbacks.on_step) report.callback_ns += ns_since(begin);
  } catch (...) {
    if (outcome.thrown == nullptr) outcome.thrown = std::current_exception();
  }
  if (outcome.stopped || outcome.thrown != nullptr) s.session->stop.store(true);
}

// A loop that the host drives has the rank-0 fetches of its last step already, and waits for the
// device only where there are others.
void Loop::collect(LoopReport& report) {
  SessionState& session = *state_->session;
  const bool driven = report.kind == LoopKind::kHost;
  bool waits = !driven;
  for (size_t i = 0; i < report.tensors_.size(); ++i) {
    Tensor& tensor = report.tensors_[i];
    if (tensor.num_bytes() == 0 || (driven && report.columns_[i] >= 0)) continue;
    session.copy_to_host(tensor.raw(), state_->executable->output(i), tensor.num_bytes());
    waits = true;
  }
  if (waits) session.stream->synchronize();
  for (Tensor& tensor : report.tensors_) canonicalise_nans(tensor);
}

}  // namespace keel
