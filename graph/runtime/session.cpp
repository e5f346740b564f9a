#include "keel/graph/runtime/session.h"

#include <algorithm>

#include "keel/core/base/log.h"
#include "keel/core/base/parallel_for.h"
#include "keel/core/tensor/canonical_nan.h"
#include "keel/graph/control/step_boundary.h"
#include "keel/graph/runtime/checkpoint.h"
#include "keel/graph/runtime/loop_state.h"
#include "keel/graph/runtime/session_state.h"

namespace keel {
namespace {

const Node& input_node(const Graph& graph, const Value& value, const char* op,
                       const std::string& argument, CallSite site) {
  graph.require_own(value, op, argument, site, "the session's graph");
  const Node& node = value.node();
  if (node.is(OpRole::kInput)) return node;
  throw Error({.op = op,
               .argument = argument,
               .expected = "an input of the session's graph",
               .got = described(value) + made_at(value),
               .fix = "only what graph.input() made can be fed",
               .site = site});
}

// The feeds in node order, which is that of a program's key; made once for a run, since there may
// be tens of thousands.
class FeedTable {
 public:
  FeedTable(const Graph& graph, const Feeds& feeds, CallSite site) : site_(site) {
    entries_.reserve(feeds.size());
    for (const auto& [value, tensor] : feeds) add(graph, value, tensor);
    std::stable_sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
      return a.value.node_id() < b.value.node_id();
    });
    const auto twice =
        std::adjacent_find(entries_.begin(), entries_.end(),
                           [](const Entry& a, const Entry& b) { return a.value == b.value; });
    if (twice != entries_.end()) complain(*twice, "two tensors", "feed each input once");
  }

  std::vector<std::pair<Value, Type>> types() const {
    std::vector<std::pair<Value, Type>> types;
    types.reserve(entries_.size());
    for (const Entry& entry : entries_) types.emplace_back(entry.value, entry.tensor->type());
    return types;
  }

  // Returns what is fed to the graph's input of this name.
  const Tensor& of(const Graph& graph, const std::string& name) const {
    const Value input = graph.find_input(name);
    const auto at = std::lower_bound(
        entries_.begin(), entries_.end(), input.node_id(),
        [](const Entry& entry, uint32_t id) { return entry.value.node_id() < id; });
    if (!input.valid() || at == entries_.end() || at->value != input) {
      throw Error(
          {.op = "feed", .argument = "input '" + name + "'", .got = "nothing", .site = site_});
    }
    return *at->tensor;
  }

 private:
  struct Entry {
    Value value;
    const Tensor* tensor;
  };

  void add(const Graph& graph, const Value& value, const Tensor& tensor) {
    const std::string argument = "feed " + std::to_string(entries_.size());
    const Type& type = input_node(graph, value, "feed", argument, site_).type();
    entries_.push_back({value, &tensor});
    if (tensor.empty())
      complain(entries_.back(), "an empty Tensor", "give the tensor a dtype and a shape");
    if (tensor.dtype() != type.dtype || !matches(type.shape, tensor.shape()))
      complain(entries_.back(), to_string(tensor.type()), "");
  }

  [[noreturn]] void complain(const Entry& entry, const std::string& got,
                             const std::string& fix) const {
    const Node& node = entry.value.node();
    throw Error({.op = "feed",
                 .argument = "input '" + name_of(node) + "'",
                 .expected = to_string(node.type()),
                 .got = got,
                 .fix = fix,
                 .site = site_});
  }

  std::vector<Entry> entries_;
  CallSite site_;
};

[[noreturn]] void throw_stopped(SessionState& state, CallSite site) {
  state.requested.store(false);
  throw Error({.op = "run on " + state.device.name(),
               .message = "stopped by request_stop() before the step was done",
               .fix = "the states are as they were before it",
               .site = site});
}

StateStore::State& state_of(SessionState& state, const Value& value, const char* op,
                            CallSite site) {
  state.store.add_states(*state.graph);
  state.graph->require_own(value, op, "state", site, "the session's graph");
  if (!value.node().is(OpRole::kState)) {
    throw Error({.op = op,
                 .argument = "state",
                 .expected = "a state of the session's graph",
                 .got = described(value) + made_at(value),
                 .fix = "fetch it with run()",
                 .site = site});
  }
  return state.store.state(name_of(value.node()));
}

// Does what `call` does; its errors get the user's line where they have none.
template <class Call>
decltype(auto) at_line_of_user(CallSite site, Call call) {
  try {
    return call();
  } catch (const Error& error) {
    throw error.with_site(site);
  }
}

}  // namespace

namespace {

// Returns what a warning of a rule without effect is about: the rule, by its line. What else the
// warning says is of one program. Other warnings are about what they say.
std::string subject_of(const std::string& warning, const DtypeOverrides& dtypes) {
  for (const auto* rules : {&dtypes.by_name, &dtypes.by_op}) {
    for (const auto& [name, rule] : *rules) {
      if (warning.starts_with(rule.where + ": ")) return rule.where;
    }
  }
  return warning;
}

// Logs what a user may look for in the log once a loop is compiled. Warnings of rules that are in
// `told` already are left out; the others are added to it.
void tell(const CompileReport& report, const Device& device, const SessionOptions& options,
          std::set<std::string>& told) {
  if (log_enabled(LogLevel::kInfo)) {
    for (const PrecisionDecision& decision : report.precision.decisions)
      log_info("precision " + report.precision.mode + ": " + to_string(decision));
  }
  for (const NodePlacement& placement : report.placement.nodes) {
    if (placement.on_host) log_info("placement " + to_string(placement));
  }
  if (report.loop.kind == LoopKind::kDevice && report.placement.host_tasks > 0)
    log_info("loop on " + device.name() + ": " + sunk_with_host_tasks(report.placement));
  for (const std::string& unused : report.precision.unused) {
    if (told.insert(subject_of(unused, options.precision.dtypes)).second) log_warn(unused);
  }
  if (report.loop.kind != LoopKind::kHost) return;
  const std::string line = "loop on " + device.name() +
                           ": driven by the host, a launch and a synchronisation for each step, "
                           "because " +
                           report.loop.reason + " (" + to_string(report.loop.site) + ")";
  // Whoever switches data_sink off asks for that.
  if (options.data_sink)
    log_warn(line);
  else
    log_info(line);
}

}  // namespace

StepDescription step_of(const Graph& graph, const SinkOptions& options, const char* op,
                        CallSite site) {
  if (!options.update.empty() || !options.fetches.empty())
    return {options.update, options.fetches, options.stop_when};
  if (options.stop_when.valid()) {
    throw Error({.op = op,
                 .argument = "stop_when",
                 .expected = "an update or fetches beside it",
                 .got = "neither",
                 .fix = "a graph that describes its own step is given its stop value by "
                        "prepare_loop()",
                 .site = site});
  }
  return described_step(graph, op, site);
}

SessionState::SessionState(Graph& graph_in, Device device_in, const SessionOptions& options_in)
    : graph(&graph_in),
      device(device_in),
      options(options_in),
      stream(device.backend().make_stream(device.index(), StreamKind::kCompute)),
      store(device, *stream, options.seed),
      cache(device, options.cached_programs) {
  if (options.cached_programs == 0) {
    throw Error({.op = "session",
                 .argument = "cached_programs",
                 .expected = "at least 1",
                 .got = "0",
                 .kind = ErrorKind::kInvalidArgument});
  }
  device.backend().require_options(options.device_options.get());
  resolve(options.precision, device.backend(), options.device_options.get());
  if (options.threads < 0 || options.threads > kMaxComputeThreads) {
    throw Error({.op = "session",
                 .argument = "threads",
                 .expected = "1 to " + std::to_string(kMaxComputeThreads) +
                             ", or 0 for those of the calling thread",
                 .got = std::to_string(options.threads),
                 .kind = ErrorKind::kInvalidArgument});
  }
  if (options.threads == 0) options.threads = compute_threads();
  if (options.loop_size) loop_size.set(*options.loop_size, "SessionOptions::loop_size");
  for (const std::string& notice : select_passes(options.disabled_passes, CallSite{}).notices)
    log_warn(notice);
  options.disabled_passes = in_one_order(std::move(options.disabled_passes));
  if (!options.data_sink) loop_size.without_data_sink("SessionOptions::data_sink = false");
  if (!graph->frozen()) {
    graph->step();
    graph->seed();
  }
  store.add_states(*graph);
}

void SessionState::copy_to_device(Buffer& to, const void* from, size_t bytes) {
  stream->copy_to_device(to, 0, from, bytes);
  ++transfers.to_device;
  transfers.to_device_bytes += static_cast<int64_t>(bytes);
}

void SessionState::copy_to_host(void* to, const Buffer& from, size_t bytes) {
  stream->copy_to_host(to, from, 0, bytes);
  ++transfers.to_host;
  transfers.to_host_bytes += static_cast<int64_t>(bytes);
}

std::shared_ptr<Executable> SessionState::executable(ProgramKey key, CallSite site) {
  if (auto found = cache.find(key)) return found;
  try {
    CompileRequest request;
    request.step = {graph, key.fetches, key.update, {}, {}};
    for (const auto& [input, type] : key.feeds)
      request.step.input_types[name_of(input.node())] = type;
    request.sink = key.sunk;
    request.queue = key.queue;
    if (key.sunk) request.step.boundary = {key.stop_when, site};
    request.disabled_passes = key.disabled_passes;
    request.precision = key.precision;
    request.placement = key.placement;
    request.threads = options.threads;
    request.device_options = options.device_options;
    request.data_sink = options.data_sink;
    store.add_states(*graph);
    ++compiles;
    auto made = std::make_shared<Executable>(std::move(key), compile(device, std::move(request)),
                                             device, store);
    cache.add(made);
    tell(made->report(), device, options, told);
    return made;
  } catch (const Error& error) {
    throw error.with_site(site);
  }
}

namespace {

// The guards that this thread holds, the last one first.
thread_local const SessionGuard* held_here = nullptr;

}  // namespace

bool SessionState::is_party(const LoopAgreement* agreement) {
  const std::lock_guard<std::mutex> lock(call_lock);
  return agreement != nullptr && party == agreement;
}

SessionGuard::SessionGuard(SessionState& state, const char* call, CallSite site,
                           LoopAgreement* agreement)
    : state_(state), outer_(held_here) {
  const char* running = nullptr;
  bool same_party = false;
  {
    const std::lock_guard<std::mutex> lock(state_.call_lock);
    running = state_.call;
    same_party = state_.party == agreement;
    if (running == nullptr) {
      state_.call = call;
      state_.party = agreement;
    }
  }
  if (running == nullptr) {
    held_here = this;
    return;
  }
  if (!same_party) LoopParty(agreement).fail();
  const SessionGuard* own = held_here;
  while (own != nullptr && &own->state_ != &state_) own = own->outer_;
  if (own == nullptr) {
    throw Error({.op = call,
                 .message = std::string("another thread is in ") + running +
                            ", and a session serves one thread at a time",
                 .fix = "give each thread a session of its own, or hold a lock around the calls",
                 .site = site});
  }
  throw Error({.op = call,
               .message = std::string("a loop of this session is running: it is in ") + running +
                          ", which called this function",
               .fix = "use the Trainer's hooks (on_epoch_end, every_n_steps), which run between "
                      "launches, instead of a step callback",
               .site = site});
}

SessionGuard::~SessionGuard() {
  held_here = outer_;
  const std::lock_guard<std::mutex> lock(state_.call_lock);
  state_.call = nullptr;
  state_.party = nullptr;
}

// Whoever asks for a stop sets its request before it looks at `running`: one of the two sides sees
// the other.
StopScope::StopScope(SessionState& state, const void* loop, const std::atomic<bool>* loop_requested)
    : state_(state) {
  state.stop.store(false);
  state.running.store(loop);
  const bool asked = loop_requested != nullptr && loop_requested->load();
  if (asked || state.requested.load()) state.stop.store(true);
}

void quiesce(Stream& stream) noexcept {
  try {
    stream.synchronize();
  } catch (...) {
    // The caller is about to throw an error that came before this one.
  }
}

Error current_error(const std::string& context, CallSite site) {
  try {
    throw;
  } catch (const Error& error) {
    return error.with_context(context).with_site(site);
  } catch (const std::exception& error) {
    return Error({.op = context, .message = error.what(), .site = site});
  } catch (...) {
    return Error({.op = context, .message = "an unknown exception", .site = site});
  }
}

Session::Session(Graph& graph, Device device, SessionOptions options, CallSite site)
    : state_(at_line_of_user(
          site, [&] { return std::make_shared<SessionState>(graph, device, options); })) {}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

SessionState& Session::state(const char* call, CallSite site) const {
  if (state_ != nullptr) return *state_;
  throw Error({.op = std::string("Session::") + call,
               .message = "the session was moved from, so it has no states and no device",
               .fix = "use the session that it was moved to",
               .site = site});
}

std::vector<Tensor> Session::run(const Values& fetches, const Feeds& feeds, CallSite site) {
  return run(Update{}, fetches, feeds, site);
}

std::vector<Tensor> Session::run(const Update& update, const Values& fetches, const Feeds& feeds,
                                 CallSite site) {
  SessionState& s = state("run", site);
  const SessionGuard guard(s, "Session::run", site);
  const StopScope scope(s, nullptr, nullptr);
  const FeedTable fed(*s.graph, feeds, site);
  const auto executable = s.executable({.fetches = fetches,
                                        .update = update,
                                        .feeds = fed.types(),
                                        .precision = s.options.precision,
                                        .disabled_passes = s.options.disabled_passes,
                                        .placement = s.options.placement},
                                       site);
  const ProgramInfo& info = executable->info();
  LaunchArgs& args = executable->bind(s.store, s.cache.scratch(*executable, s.store));
  std::vector<Tensor> results;
  for (const Type& type : info.outputs) results.emplace_back(type.dtype, type.shape);
  if (s.stop.load()) throw_stopped(s, site);
  args.stop = &s.stop;

  bool launched = false;
  try {
    for (size_t i = 0; i < info.inputs.size(); ++i) {
      const Tensor& tensor = fed.of(*s.graph, info.inputs[i].name);
      if (tensor.num_bytes() > 0)
        s.copy_to_device(executable->input(i), tensor.raw(), tensor.num_bytes());
    }
    executable->program().launch(*s.stream, args);
    launched = true;
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i].num_bytes() > 0)
        s.copy_to_host(results[i].raw(), executable->output(i), results[i].num_bytes());
    }
    s.stream->synchronize();
  } catch (...) {
    const Error error = current_error("run on " + s.device.name(), site);
    quiesce(*s.stream);
    if (launched) executable->take_back(s.store, true);
    throw Error(error);
  }
  try {
    executable->take_back(s.store, false);
  } catch (...) {
    throw current_error("run on " + s.device.name(), site);
  }
  if (args.report.step_given_up) throw_stopped(s, site);
  s.requested.store(false);
  for (Tensor& result : results) canonicalise_nans(result);
  return results;
}

void Session::request_stop() noexcept {
  if (state_ == nullptr) return;
  state_->requested.store(true);
  state_->stop.store(true);
}

FeedSpec Session::spec(const Values& inputs, CallSite site) const {
  const SessionState& s = state("spec", site);
  FeedSpec spec{s.device, {}, s.options.device_options, s.options.data_sink};
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Node& node = input_node(*s.graph, inputs[i], "spec", "input " + std::to_string(i), site);
    spec.element.fields.push_back({name_of(node), node.type()});
  }
  return spec;
}

Loop Session::sink(const SinkOptions& step, CallSite site) {
  const Graph& graph = *state("sink", site).graph;
  return Loop(
      std::make_unique<Loop::State>(state_, step, step_of(graph, step, "sink", site), site));
}

LoopPlacement Session::loop_placement(const SinkOptions& step, CallSite site) {
  try {
    return sink(step, site).placement();
  } catch (const Error& error) {
    return {LoopKind::kNone, error.what(), error.info().site.known() ? error.info().site : site};
  }
}

Tensor Session::read(Value value, CallSite site) const {
  SessionState& s = state("read", site);
  const SessionGuard guard(s, "Session::read", site);
  return at_line_of_user(site, [&] { return s.store.read(state_of(s, value, "read", site)); });
}

void Session::write(Value value, const Tensor& tensor, CallSite site) {
  SessionState& s = state("write", site);
  const SessionGuard guard(s, "Session::write", site);
  at_line_of_user(site, [&] { s.store.write_by_hand(state_of(s, value, "write", site), tensor); });
}

void Session::save(const std::string& path, const std::map<std::string, std::string>& metadata,
                   CallSite site) const {
  SessionState& s = state("save", site);
  const SessionGuard guard(s, "Session::save", site);
  at_line_of_user(site, [&] {
    s.store.add_states(*s.graph);
    save_states(path, s.store, metadata);
  });
}

std::map<std::string, std::string> Session::load(const std::string& path, CallSite site) {
  SessionState& s = state("load", site);
  const SessionGuard guard(s, "Session::load", site);
  return at_line_of_user(site, [&] {
    s.store.add_states(*s.graph);
    return load_states(path, s.store);
  });
}

std::string Session::state_sha256(CallSite site) const {
  SessionState& s = state("state_sha256", site);
  const SessionGuard guard(s, "Session::state_sha256", site);
  return at_line_of_user(site, [&] {
    s.store.add_states(*s.graph);
    return s.store.sha256();
  });
}

int64_t Session::step(CallSite site) const {
  SessionState& s = state("step", site);
  const SessionGuard guard(s, "Session::step", site);
  return at_line_of_user(site, [&] { return s.store.step(); });
}

int64_t Session::updates_applied(CallSite site) const {
  SessionState& s = state("updates_applied", site);
  const SessionGuard guard(s, "Session::updates_applied", site);
  return at_line_of_user(site, [&] {
    s.store.add_states(*s.graph);
    return s.store.updates_applied();
  });
}

int64_t Session::compiles(CallSite site) const { return state("compiles", site).compiles; }

void Session::set_loop_size(int64_t steps, CallSite site) {
  at_line_of_user(site, [&] { state("set_loop_size", site).loop_size.change(steps); });
}
const LoopSize& Session::loop_size(CallSite site) const {
  return state("loop_size", site).loop_size;
}
LoopSize& Session::loop_size(CallSite site) { return state("loop_size", site).loop_size; }

const Graph& Session::graph(CallSite site) const { return *state("graph", site).graph; }
const Device& Session::device(CallSite site) const { return state("device", site).device; }

std::string Session::describe(const Update& update, const Values& fetches, const Feeds& feeds,
                              CallSite site) const {
  SessionState& s = state("describe", site);
  const SessionGuard guard(s, "Session::describe", site);
  const FeedTable fed(*s.graph, feeds, site);
  return s
      .executable({.fetches = fetches,
                   .update = update,
                   .feeds = fed.types(),
                   .precision = s.options.precision,
                   .disabled_passes = s.options.disabled_passes,
                   .placement = s.options.placement},
                  site)
      ->program()
      .describe();
}

}  // namespace keel
