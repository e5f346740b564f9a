#include "keel/graph/runtime/session.h"

#include <algorithm>

#include "keel/core/base/log.h"
#include "keel/core/tensor/canonical_nan.h"
#include "keel/graph/runtime/checkpoint.h"
#include "keel/graph/runtime/loop_state.h"
#include "keel/graph/runtime/session_state.h"

namespace keel {
namespace {

const Node& input_node(const Graph& graph, const Value& value, const char* op, CallSite site) {
  const bool ours = value.valid() && &value.graph() == &graph;
  if (ours && value.node().op_name() == "input") return value.node();
  std::string got = "an empty Value";
  if (ours) {
    got = "the result of " + value.node().op_name();
  } else if (value.valid()) {
    got = "a value of another graph";
  }
  throw Error({.op = op, .expected = "an input of the session's graph", .got = got, .site = site});
}

// The types of the feeds, in node order.
std::vector<std::pair<Value, Type>> feed_types(const Graph& graph, const Feeds& feeds,
                                               CallSite site) {
  std::vector<std::pair<Value, Type>> types;
  for (const auto& feed : feeds) {
    const Value& value = feed.first;
    const Tensor& tensor = feed.second;
    const Node& node = input_node(graph, value, "feed", site);
    const auto complain = [&](const std::string& got, const std::string& fix) {
      throw Error({.op = "feed",
                   .argument = "input '" + name_of(node) + "'",
                   .expected = to_string(node.type()),
                   .got = got,
                   .fix = fix,
                   .site = site});
    };
    if (tensor.empty()) complain("an empty Tensor", "");
    if (tensor.dtype() != node.type().dtype || !matches(node.type().shape, tensor.shape()))
      complain(to_string(tensor.type()), "");
    const auto same = [&](const auto& entry) { return entry.first == value; };
    if (std::any_of(types.begin(), types.end(), same))
      complain("two tensors", "feed each input once");
    types.emplace_back(value, tensor.type());
  }
  std::sort(types.begin(), types.end(),
            [](const auto& a, const auto& b) { return a.first.node_id() < b.first.node_id(); });
  return types;
}

const Tensor& fed(const Feeds& feeds, const std::string& name) {
  const auto it = std::find_if(feeds.begin(), feeds.end(), [&](const auto& feed) {
    return name_of(feed.first.node()) == name;
  });
  if (it == feeds.end()) {
    throw Error({.op = "feed", .argument = "input '" + name + "'", .got = "nothing"});
  }
  return it->second;
}

[[noreturn]] void throw_stopped(SessionState& state, CallSite site) {
  state.requested.store(false);
  throw Error({.op = "run on " + state.device.name(),
               .message = "stopped by request_stop() before the step was done",
               .fix = "the states are as they were before it",
               .site = site});
}

StateStore::Home& home_of(SessionState& state, const Value& value, const char* op) {
  state.store.add_states(*state.graph);
  const bool ours = value.valid() && &value.graph() == state.graph;
  if (!ours || value.node().op_name() != "state") {
    throw Error({.op = op,
                 .expected = "a state of the session's graph",
                 .got = ours ? "the result of " + value.node().op_name() : "something else"});
  }
  return state.store.home(name_of(value.node()));
}

}  // namespace

namespace {

// What a user may look for in the log once a loop is compiled.
void tell(const CompileReport& report, const Device& device) {
  for (const InsertedOp& op : report.inserted_ops)
    log_info("Insert op success, name:" + op.name + ", type:" + op.type + ".");
  for (const PrecisionDecision& decision : report.precision.decisions)
    log_info("precision " + report.precision.mode + ": " + to_string(decision));
  if (report.loop.kind != LoopKind::kHost) return;
  log_warn("loop on " + device.name() +
           ": driven by the host, a launch and a synchronisation for " + "each step, because " +
           report.loop.reason + " (" + to_string(report.loop.site) + ")");
}

}  // namespace

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
  find_precision_mode(options.precision);
  if (options.loop_size) loop_size.set(*options.loop_size, "SessionOptions::loop_size");
  if (!graph->frozen()) {
    graph->step();
    graph->seed();
  }
  store.add_states(*graph);
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
    request.fuse = options.fuse;
    request.precision = options.precision;
    store.add_states(*graph);
    ++compiles;
    auto made = std::make_shared<Executable>(std::move(key), compile(device, std::move(request)),
                                             device, store);
    cache.add(made);
    tell(made->report(), device);
    return made;
  } catch (const Error& error) {
    throw error.with_site(site);
  }
}

SessionGuard::SessionGuard(SessionState& state, const char* call) : state_(state) {
  if (!state_.busy.exchange(true, std::memory_order_acquire)) return;
  throw Error({.op = std::string("session ") + call,
               .message = "a loop of this session is running",
               .fix = "use the Trainer's hooks (on_epoch_end, every_n_steps), which run between "
                      "launches, instead of a step callback"});
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

Session::Session(Graph& graph, Device device, SessionOptions options)
    : state_(std::make_shared<SessionState>(graph, device, options)) {}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

std::vector<Tensor> Session::run(const Values& fetches, const Feeds& feeds, CallSite site) {
  return run(Update{}, fetches, feeds, site);
}

std::vector<Tensor> Session::run(const Update& update, const Values& fetches, const Feeds& feeds,
                                 CallSite site) {
  SessionState& s = *state_;
  const SessionGuard guard(s, "run");
  const StopScope scope(s, nullptr, nullptr);
  const auto executable = s.executable(
      {.fetches = fetches, .update = update, .feeds = feed_types(*s.graph, feeds, site)}, site);
  const ProgramInfo& info = executable->info();
  LaunchArgs& args = executable->bind(s.store, s.cache.scratch(*executable, s.store));
  std::vector<Tensor> results;
  for (const Type& type : info.outputs) results.emplace_back(type.dtype, type.shape);
  if (s.stop.load()) throw_stopped(s, site);
  args.stop = &s.stop;

  bool launched = false;
  try {
    for (size_t i = 0; i < info.inputs.size(); ++i) {
      const Tensor& tensor = fed(feeds, info.inputs[i].name);
      if (tensor.num_bytes() > 0)
        s.stream->copy_to_device(executable->input(i), 0, tensor.raw(), tensor.num_bytes());
    }
    executable->program().launch(*s.stream, args);
    launched = true;
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i].num_bytes() > 0)
        s.stream->copy_to_host(results[i].raw(), executable->output(i), 0, results[i].num_bytes());
    }
    s.stream->synchronize();
  } catch (...) {
    const Error error = current_error("run on " + s.device.name(), site);
    quiesce(*s.stream);
    if (launched) executable->settle(s.store, true);
    throw error;
  }
  executable->settle(s.store, false);
  if (args.report.step_given_up) throw_stopped(s, site);
  s.requested.store(false);
  for (Tensor& result : results) canonicalise_nans(result);
  return results;
}

void Session::request_stop() noexcept {
  state_->requested.store(true);
  state_->stop.store(true);
}

FeedSpec Session::spec(const Values& inputs) const {
  FeedSpec spec{state_->device, {}};
  for (const Value& input : inputs) {
    const Node& node = input_node(*state_->graph, input, "spec", {});
    spec.element.fields.push_back({name_of(node), node.type()});
  }
  return spec;
}

Loop Session::sink(const Update& update, const Values& fetches, std::shared_ptr<DeviceQueue> queue,
                   SinkOptions options, CallSite site) {
  return Loop(std::make_unique<Loop::State>(state_, Loop::State::Source{.queue = std::move(queue)},
                                            StepDescription{update, fetches, options.stop_when},
                                            site));
}

Loop Session::sink(const Update& update, const Values& fetches, std::shared_ptr<Feeder> feeder,
                   SinkOptions options, CallSite site) {
  return Loop(
      std::make_unique<Loop::State>(state_, Loop::State::Source{.feeder = std::move(feeder)},
                                    StepDescription{update, fetches, options.stop_when}, site));
}

Loop Session::sink(const Values& fetches, std::shared_ptr<DeviceQueue> queue, SinkOptions options,
                   CallSite site) {
  return sink(Update{}, fetches, std::move(queue), options, site);
}

Loop Session::sink(const Values& fetches, std::shared_ptr<Feeder> feeder, SinkOptions options,
                   CallSite site) {
  return sink(Update{}, fetches, std::move(feeder), options, site);
}

Loop Session::sink(const Update& update, const Values& fetches, SinkOptions options,
                   CallSite site) {
  return Loop(std::make_unique<Loop::State>(state_, Loop::State::Source{.none = true},
                                            StepDescription{update, fetches, options.stop_when},
                                            site));
}

Loop Session::sink(std::shared_ptr<DeviceQueue> queue, CallSite site) {
  return Loop(std::make_unique<Loop::State>(state_, Loop::State::Source{.queue = std::move(queue)},
                                            described_step(*state_->graph, "sink", site), site));
}

Loop Session::sink(std::shared_ptr<Feeder> feeder, CallSite site) {
  return Loop(std::make_unique<Loop::State>(state_,
                                            Loop::State::Source{.feeder = std::move(feeder)},
                                            described_step(*state_->graph, "sink", site), site));
}

Loop Session::sink(CallSite site) {
  return Loop(std::make_unique<Loop::State>(state_, Loop::State::Source{.none = true},
                                            described_step(*state_->graph, "sink", site), site));
}

LoopPlacement Session::loop_placement(const Update& update, const Values& fetches,
                                      std::shared_ptr<DeviceQueue> queue, SinkOptions options,
                                      CallSite site) {
  try {
    return sink(update, fetches, std::move(queue), options, site).placement();
  } catch (const Error& error) {
    return {LoopKind::kNone, error.what(), error.info().site.known() ? error.info().site : site};
  }
}

LoopPlacement Session::loop_placement(std::shared_ptr<DeviceQueue> queue, CallSite site) {
  try {
    return sink(std::move(queue), site).placement();
  } catch (const Error& error) {
    return {LoopKind::kNone, error.what(), error.info().site.known() ? error.info().site : site};
  }
}

Tensor Session::read(Value state) const {
  const SessionGuard guard(*state_, "read");
  return state_->store.read(home_of(*state_, state, "read"));
}

void Session::write(Value state, const Tensor& value) {
  const SessionGuard guard(*state_, "write");
  state_->store.write(home_of(*state_, state, "write"), value);
}

void Session::save(const std::string& path,
                   const std::map<std::string, std::string>& metadata) const {
  const SessionGuard guard(*state_, "save");
  state_->store.add_states(*state_->graph);
  save_states(path, state_->store, metadata);
}

std::map<std::string, std::string> Session::load(const std::string& path) {
  const SessionGuard guard(*state_, "load");
  state_->store.add_states(*state_->graph);
  return load_states(path, state_->store);
}

std::string Session::state_sha256() const {
  const SessionGuard guard(*state_, "state_sha256");
  state_->store.add_states(*state_->graph);
  return state_->store.sha256();
}

int64_t Session::step() const {
  const SessionGuard guard(*state_, "step");
  return state_->store.step();
}

int64_t Session::compiles() const noexcept { return state_->compiles; }

void Session::set_loop_size(int64_t steps) { state_->loop_size.change(steps); }
const LoopSize& Session::loop_size() const noexcept { return state_->loop_size; }
LoopSize& Session::loop_size() noexcept { return state_->loop_size; }

const Graph& Session::graph() const noexcept { return *state_->graph; }
const Device& Session::device() const noexcept { return state_->device; }

std::string Session::describe(const Update& update, const Values& fetches, const Feeds& feeds,
                              CallSite site) const {
  const SessionGuard guard(*state_, "describe");
  return state_
      ->executable(
          {.fetches = fetches, .update = update, .feeds = feed_types(*state_->graph, feeds, site)},
          site)
      ->program()
      .describe();
}

}  // namespace keel
