// Session: runs a graph on one device. It owns the state buffers, compiles a program for each
// combination of fetches, update and input types (kept in a cache), runs single steps driven by the
// host, and sinks loops. The graph must outlive it, and may grow between runs. One thread at a
// time; while a loop of the session runs, nothing else on it may be called. Loops may outlive the
// session. Every call on a session that was moved from throws Error.
#ifndef KEEL_GRAPH_RUNTIME_SESSION_H
#define KEEL_GRAPH_RUNTIME_SESSION_H

#include <concepts>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "keel/core/device/device.h"
#include "keel/core/group/agreement.h"
#include "keel/core/queue/feeder.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/placement.h"
#include "keel/graph/precision/precision.h"
#include "keel/graph/runtime/loop.h"

namespace keel {

struct SessionOptions {
  uint64_t seed = 0;  // of initial values, dropout and the like
  // Compiler passes that are switched off, by their names in pass_table.h: {"fuse"} makes each op a
  // task of its own. No bit of a training depends on them, but where the table says so.
  std::vector<std::string> disabled_passes = {};
  // In which dtypes the session's programs compute: "mixed_bf16", {.mode = ...}. Without any, as
  // the device's default says. States and updates have the dtypes of the graph under every mode.
  Precision precision = {};
  // Says what becomes of ops that the device lacks: under kFull they are an error that lists them,
  // under kMixed (mix_compile_mode) the host computes them, inside a launch too.
  PlacementPolicy placement = PlacementPolicy::kFull;
  // Compute threads of a launch; 0: those of the thread that makes the session (ComputeThreads).
  int threads = 0;
  // Says what the device is asked for, such as npu::options("ascend910"); null: nothing.
  std::shared_ptr<const DeviceOptions> device_options = {};
  size_t cached_programs = 16;         // at least 1
  std::optional<int64_t> loop_size{};  // steps per launch where Loop::run() does not say; else
                                       // NPU_LOOP_SIZE, else 1
  // Ascend's enable_data_pre_proc. On: a device queue, filled ahead of the steps, feeds them. Off:
  // the host makes each batch when its step comes, copies it to the device and launches the step,
  // also in Loop::run() and in evaluations, with the same bits. The loop size is 1 then.
  bool data_sink = true;
};

// Says where a loop's elements come from: nowhere (a step without inputs), a feeder's queue, which
// is open, or a queue.
using LoopSource =
    std::variant<std::monostate, std::shared_ptr<Feeder>, std::shared_ptr<DeviceQueue>>;

// Says what to sink. Without an update it evaluates; without update and fetches it is the step that
// the graph itself describes (Graph::prepare_loop), also where that is frozen or came from text:
// its updates, its outputs as fetches, its boundary's stop value.
struct SinkOptions {
  Update update = {};
  Values fetches = {};
  LoopSource source = {};
  // A bool scalar of the step: the launch ends after the first step in which it is true, that
  // step's update included, and its report says so; a later launch goes on. Invalid: none.
  Value stop_when = {};
  // Names with whom the loop leaves: it runs a further step only where all parties do. None: null.
  std::shared_ptr<LoopAgreement> agreement = {};
  // In which dtypes this loop computes, instead of the session's precision.
  std::optional<Precision> precision = {};
  // Passes that are off beside those of SessionOptions::disabled_passes.
  std::vector<std::string> disabled_passes = {};
};

using Feeds = std::vector<std::pair<Value, Tensor>>;

class KEEL_API Session {
 public:
  // Makes the reserved states keel/step and keel/seed, and memory for all states with their
  // initial values. Throws Error where the device is short of memory, and for wrong options.
  Session(Graph& graph, Device device, SessionOptions options = {},
          CallSite site = CallSite::here());
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  // Runs one step: the fetches' values, computed from the states as they were before. `feeds` gives
  // a tensor for each input that is needed; their shapes choose (or make) the program. Throws Error
  // for feeds that are missing, wrong or given twice, for what the device cannot run, for states
  // that a failed step left invalid, and for what happens on the device.
  std::vector<Tensor> run(const Values& fetches, const Feeds& feeds = {},
                          CallSite site = CallSite::here());
  // Runs the same, and takes the update's next values in place of the states.
  std::vector<Tensor> run(const Update& update, const Values& fetches, const Feeds& feeds = {},
                          CallSite site = CallSite::here());

  // Returns the tensor of one fetch that is given as a Value and not as a list.
  template <std::same_as<Value> V>
  Tensor run(V fetch, const Feeds& feeds = {}, CallSite site = CallSite::here()) {
    return run(Values{fetch}, feeds, site).front();
  }
  template <std::same_as<Value> V>
  Tensor run(const Update& update, V fetch, const Feeds& feeds = {},
             CallSite site = CallSite::here()) {
    return run(update, Values{fetch}, feeds, site).front();
  }

  // The run() or the loop that is under way ends as soon as it can, or else the next one at once:
  // before a step, at the queue, or at the next turn of a loop inside a step, which is given up
  // then. run() throws an Error if it gave up its step; a loop reports it like
  // Loop::request_stop(). In any case the states are what the last complete step left. Any thread,
  // and signal handlers.
  void request_stop() noexcept;

  // Returns what these inputs ask of whoever feeds them; unknown dimensions are still -1.
  FeedSpec spec(const Values& inputs, CallSite site = CallSite::here()) const;

  // Sinks the step as the body of a While on the device, its inputs taken from the queue's fields
  // of the same names. Compiles now. A backend that declines to loop gets a loop driven by the
  // host, which says so (Loop::placement, a warning in the log), and so does a session whose
  // data_sink is off. Throws Error for inputs without a matching field, naming both, for a source
  // that is null or not open or whose data_sink is not the session's, for a stop_when that is no
  // bool scalar, and NO_STEP_BOUNDARY where a graph that is to describe its step does not.
  Loop sink(const SinkOptions& step = {}, CallSite site = CallSite::here());
  // Returns where sink() would loop and why, without an Error: kNone with the reason where it
  // throws one.
  LoopPlacement loop_placement(const SinkOptions& step = {}, CallSite site = CallSite::here());

  // Returns a state's value. Throws Error where a failed step left it invalid.
  Tensor read(Value state, CallSite site = CallSite::here()) const;
  // Replaces it; with keel/step, keel/updates becomes the same number. Throws Error for another
  // dtype or shape, and for a step or a number of updates that no training can have.
  void write(Value state, const Tensor& value, CallSite site = CallSite::here());

  // Saves all states as a safetensors file, with keel_version and step beside `metadata`. Atomic.
  void save(const std::string& path, const std::map<std::string, std::string>& metadata = {},
            CallSite site = CallSite::here()) const;
  // Takes all states from a file that save() wrote; returns its metadata. States that the file
  // lacks, that the graph lacks, or that differ in dtype or shape are listed in one Error, and
  // nothing is changed. keel/updates may be in either alone: a graph without it counts steps.
  std::map<std::string, std::string> load(const std::string& path,
                                          CallSite site = CallSite::here());
  // Over all states in name order: for each its name, "\n", its type as text ("f32[784, 10]"),
  // "\n", and its bytes in row-major order.
  std::string state_sha256(CallSite site = CallSite::here()) const;

  // Steps executed with an update so far: the value of keel/step.
  int64_t step(CallSite site = CallSite::here()) const;
  // Returns the number of those whose update was applied: the value of keel/updates, or of
  // keel/step in a graph that skips none.
  int64_t updates_applied(CallSite site = CallSite::here()) const;
  // Returns how often a program was compiled.
  int64_t compiles(CallSite site = CallSite::here()) const;
  // Sets the steps of Loop::run() from the next launch on. Throws Error for n < 1; then the old
  // value stays.
  void set_loop_size(int64_t steps, CallSite site = CallSite::here());
  const LoopSize& loop_size(CallSite site = CallSite::here()) const;
  LoopSize& loop_size(CallSite site = CallSite::here());

  const Graph& graph(CallSite site = CallSite::here()) const;
  const Device& device(CallSite site = CallSite::here()) const;
  // Returns the task list of the program that run() with these arguments uses, one task a line.
  std::string describe(const Update& update, const Values& fetches, const Feeds& feeds = {},
                       CallSite site = CallSite::here()) const;

 private:
  friend class Trainer;
  // Throws Error where the session was moved from.
  SessionState& state(const char* call, CallSite site) const;
  std::shared_ptr<SessionState> state_;
};

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_SESSION_H
