// StateStore: the states of a Session: their device buffers, how the bytes in them are arranged,
// and whether they can be trusted. Owned by the Session; used by its thread only. Buffers are
// swapped and laid out anew as programs need it; values enter and leave in the plain row-major
// order.
#ifndef KEEL_GRAPH_RUNTIME_STATE_STORE_H
#define KEEL_GRAPH_RUNTIME_STATE_STORE_H

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "keel/core/device/device.h"
#include "keel/graph/ir/graph.h"

namespace keel {

class StateStore {
 public:
  struct State {
    std::string name;
    Type type;
    Layout layout;     // of the bytes in `current`; begins with the plain value
    size_t bytes = 0;  // of a buffer in that layout; `current` and `other` may be larger
    std::shared_ptr<Buffer> current;  // holds the value
    std::shared_ptr<Buffer> other;    // the second buffer, once a program asked for one
    bool valid = true;                // false after a step that failed half-way
  };

  // REQUIRES that `stream` outlives the store. Makes keel/step = 0 and keel/seed = seed.
  StateStore(Device device, Stream& stream, uint64_t seed);

  // Makes states, with their initial values, for the graph's states that have none yet. A random
  // initialiser's key is fold_key(seed, name): it depends on nothing else.
  void add_states(const Graph& graph);

  // REQUIRES that there is one.
  State& state(const std::string& name);
  // Lists the states in name order.
  const std::map<std::string, State>& states() const noexcept { return states_; }

  // The value, in plain order. Throws Error where the state is not valid.
  Tensor read(const State& state) const;
  // Replaces the value, which makes the state valid. Throws Error for another dtype or shape.
  void write(State& state, const Tensor& value);
  // The same by the user's hand, for states that load() will take: keel/step takes keel/updates and
  // the counts of skipped steps along, since counting begins anew there. Throws Error for a
  // negative count too, and for more updates or skipped steps than steps.
  void write_by_hand(State& state, const Tensor& value);
  // Arranges the state as a program wants it; one that wants it plain and only reads takes it as it
  // is. Throws Error where it is not valid; then, and where memory runs out, nothing is lost.
  void prepare(State& state, const StateInfo& wanted);

  // Throws Error naming the state where it is not valid.
  void require_valid(const State& state) const;

  // Returns the value of keel/step.
  int64_t step();
  // Returns the value of keel/updates, or of keel/step where the graph has none.
  int64_t updates_applied();
  // Adds to keel/updates, where there is one.
  void count_updates(int64_t more);
  // Adds to a count of skipped steps.
  void count_skipped(State& skipped, int64_t more);
  // Says that of the steps done `updates` were applied: to keel/updates and the counts of skipped
  // steps.
  void count_from(int64_t updates);
  // `steps` more updates took place on the device; nullopt: it is not known how many.
  void advance_step(std::optional<int64_t> steps);

  // Returns whether it is keel/updates of a training that skipped none, or a count of skipped steps
  // that is 0: then keel/step says it all, and saved files and hashes are those of a graph without
  // it.
  bool counts_nothing(const State& state);
  // SHA-256 over all states but such a count, in name order: for each its name, a newline, its type
  // as text, a newline, and its bytes in plain order.
  std::string sha256();

 private:
  State& add(const std::string& name, const Tensor& value);
  void arrange(State& state, const StateInfo& wanted);
  std::shared_ptr<Buffer> allocate(const State& state, const char* what) const;
  void upload(State& state, const void* plain, Stream& stream) const;

  Device device_;
  Stream* stream_;
  std::unique_ptr<Stream> transfer_;  // for new states, which no launch knows yet
  uint64_t seed_;
  std::map<std::string, State> states_;
  size_t graph_states_ = 0;  // how many of the graph's states have been looked at
  std::optional<int64_t> step_;
};

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_STATE_STORE_H
