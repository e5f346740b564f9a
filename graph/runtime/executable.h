// Executable: a Program with the memory it is bound to, and the cache of them that a Session keeps.
// Executables are shared by the cache and by the loops sunk on them, so one that was evicted lives
// on with its loop. Used by the Session's thread only; one launch at a time.
#ifndef KEEL_GRAPH_RUNTIME_EXECUTABLE_H
#define KEEL_GRAPH_RUNTIME_EXECUTABLE_H

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "keel/graph/ir/update.h"
#include "keel/graph/runtime/compile.h"
#include "keel/graph/runtime/state_store.h"

namespace keel {

// Holds what a compiled program depends on, beside the graph and the session.
struct ProgramKey {
  Values fetches;
  Update update;
  std::vector<std::pair<Value, Type>> feeds;  // in node order
  bool sunk = false;
  std::optional<QueueSource> queue;
  Value stop_when = {};  // of a sunk step; invalid where it has none
  Precision precision = {};
  std::vector<std::string> disabled_passes = {};  // as select_passes() takes them
  PlacementPolicy placement = PlacementPolicy::kFull;
};
bool operator==(const ProgramKey& a, const ProgramKey& b);

class Executable {
 public:
  // Allocates inputs and outputs; finds the states' buffers, which must outlive it. Inputs that are
  // the queue's resident fields get no memory here: the launch's arguments are given those.
  Executable(ProgramKey key, Compiled compiled, Device device, StateStore& store);

  const ProgramKey& key() const noexcept { return key_; }
  Program& program() noexcept { return *compiled_.program; }
  const ProgramInfo& info() const noexcept { return compiled_.program->info(); }
  const Graph& graph() const noexcept { return *compiled_.graph; }
  const CompileReport& report() const noexcept { return compiled_.report; }
  // REQUIRES an input that is not resident.
  Buffer& input(size_t i) const { return *inputs_.at(i); }
  Buffer& output(size_t i) const { return *outputs_.at(i); }

  // Returns the arguments of a new launch: state buffers arranged as the program wants them. Throws
  // Error where a state is not valid.
  LaunchArgs& bind(StateStore& store, Buffer& scratch);
  // Takes the state buffers back after a launch has been synchronised. Returns how many steps are
  // known to be done. `failed`: an error came. States that the launch lost become invalid; where it
  // says nothing of itself, or what cannot be, all that the program updates. Where no error came it
  // throws one for a report that cannot be true or tells of a failure.
  int64_t take_back(StateStore& store, bool failed);

 private:
  // Moves the counts of updates and of skipped steps that were made after this was compiled: it
  // applied its own update in each step, and none of what they count.
  void count_for_newer_states(StateStore& store, int64_t steps);

  ProgramKey key_;
  Compiled compiled_;
  std::vector<StateStore::State*> states_;
  std::vector<std::shared_ptr<Buffer>> inputs_;
  std::vector<std::shared_ptr<Buffer>> outputs_;
  LaunchArgs args_;
};

// The most recently used executables, and one scratch arena for the largest that is alive.
class ProgramCache {
 public:
  ProgramCache(Device device, size_t capacity) : device_(device), capacity_(capacity) {}

  // nullptr where there is none.
  std::shared_ptr<Executable> find(const ProgramKey& key);
  // Evicts the least recently used one where the cache is full.
  void add(std::shared_ptr<Executable> executable);
  // Large enough for every executable alive, loops' included, or where there is no room for the
  // largest of them, for `program`. Throws Error naming the step, the task that needs most and the
  // user's line where there is no room for that either.
  Buffer& scratch(const Executable& program, StateStore& store);

 private:
  Device device_;
  size_t capacity_;
  std::vector<std::shared_ptr<Executable>> recent_;  // the last one used comes first
  std::vector<std::weak_ptr<Executable>> alive_;
  std::shared_ptr<Buffer> scratch_;
  size_t refused_ = 0;  // bytes for the largest that were not to be had
};

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_EXECUTABLE_H
