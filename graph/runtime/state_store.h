// StateStore: the homes of a Session's states: device buffers, how the bytes in them are arranged,
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
  struct Home {
    std::string name;
    Type type;
    Layout layout;                    // of the bytes in `current`; begins with the plain value
    size_t bytes = 0;                 // of a home in that layout; the buffers may be larger
    std::shared_ptr<Buffer> current;  // holds the value
    std::shared_ptr<Buffer> other;    // the second home, once a program asked for one
    bool valid = true;                // false after a step that failed half-way
  };

  // REQUIRES that `stream` outlives the store. Makes keel/step = 0 and keel/seed = seed.
  StateStore(Device device, Stream& stream, uint64_t seed);

  // Makes homes, with their initial values, for the graph's states that have none yet. A random
  // initialiser's key is fold_key(seed, name): it depends on nothing else.
  void add_states(const Graph& graph);

  // REQUIRES that there is one.
  Home& home(const std::string& name);
  // In name order.
  const std::map<std::string, Home>& homes() const noexcept { return homes_; }

  // The value, in plain order. Throws Error where the home is not valid.
  Tensor read(const Home& home) const;
  // Replaces the value, which makes the home valid. Throws Error for another dtype or shape.
  void write(Home& home, const Tensor& value);
  // The same by the user's hand, for states that load() will take: keel/step takes keel/updates
  // along, since counting begins anew there. Throws Error for a negative count too, and for more
  // updates than steps.
  void write_by_hand(Home& home, const Tensor& value);
  // Arranges the home as a program wants it; one that wants it plain and only reads takes it as it
  // is. Throws Error where it is not valid; then, and where memory runs out, nothing is lost.
  void prepare(Home& home, const StateInfo& wanted);

  // Throws Error naming the state where it is not valid.
  void require_valid(const Home& home) const;

  // The value of keel/step.
  int64_t step();
  // The value of keel/updates, or of keel/step where the graph has none.
  int64_t updates_applied();
  // Adds to keel/updates, where there is one.
  void count_updates(int64_t more);
  // `steps` more updates took place on the device; nullopt: it is not known how many.
  void advance_step(std::optional<int64_t> steps);

  // Whether it is keel/updates of a training that skipped none: then keel/step says it all, and
  // saved files and hashes are those of a graph without it.
  bool counts_nothing(const Home& home);
  // SHA-256 over all states but such a count, in name order: for each its name, a newline, its type
  // as text, a newline, and its bytes in plain order.
  std::string sha256();

 private:
  Home& add(const std::string& name, const Tensor& value);
  void arrange(Home& home, const StateInfo& wanted);
  std::shared_ptr<Buffer> allocate(const Home& home, const char* what) const;
  void upload(Home& home, const void* plain, Stream& stream) const;

  Device device_;
  Stream* stream_;
  std::unique_ptr<Stream> transfer_;  // for new homes, which no launch knows yet
  uint64_t seed_;
  std::map<std::string, Home> homes_;
  size_t graph_states_ = 0;  // how many of the graph's states have been looked at
  std::optional<int64_t> step_;
};

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_STATE_STORE_H
