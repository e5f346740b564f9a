// GlooEngine: collectives over connections of its own between the ranks, which Gloo makes. It has
// two contexts: one in asynchronous mode for Gloo's collectives, which are rare; one in synchronous
// mode, where Gloo reads nothing by itself, so that the reductions run on its sockets (SocketSum),
// unless the ranks share memory (SharedSum).
// Gloo's own reductions take eight messages between two ranks where one each way is enough, cannot
// carry which sum they belong to, and block both ends for ever where buffers are small. Calls come
// from one thread at a time, shut() from any.
#ifndef KEEL_CORE_GROUP_GLOO_ENGINE_H
#define KEEL_CORE_GROUP_GLOO_ENGINE_H

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "keel/core/group/group.h"

namespace keel {

struct GlooEngineOptions {
  int rank = 0;
  int size = 1;
  std::string address = {};                       // where this rank listens for the others
  std::chrono::milliseconds connect_patience{0};  // for the connections
  std::chrono::milliseconds patience{0};          // of each wait in a call afterwards
  bool shares_memory = true;                      // where all ranks can
  // `get` waits until a rank has put something under the key. Both throw where the others will not
  // come.
  std::function<void(const std::string& key, const std::string& value)> put = {};
  std::function<std::string(const std::string& key)> get = {};
  // Told the name of each reduction before it runs.
  std::function<void(const std::string& name)> begin = {};
  // Told when each reduction began, had all ranks there, and ended.
  std::function<void(const std::string& name, CollectiveTimes::Clock::time_point begin,
                     CollectiveTimes::Clock::time_point met,
                     CollectiveTimes::Clock::time_point end)>
      ran = {};
  // Throws for a call that failed; `what` is what Gloo says of it.
  std::function<void(const std::string& what)> explain = {};
  // Throws for ranks that do not do the same.
  std::function<void(const std::string& what)> diverge = {};
};

class GlooEngine {
 public:
  virtual ~GlooEngine();
  virtual std::unique_ptr<Reduction> make_reduction(const std::string& name, size_t count) = 0;
  virtual std::vector<std::string> all_gather(const std::string& own) = 0;
  virtual void broadcast(void* bytes, size_t count, int root) = 0;
  virtual void barrier() = 0;
  // How the values of sums travel: "shared memory", or "sockets" with the reason in brackets.
  virtual std::string transport() const = 0;
  // Ends all calls, now and later, here and at the other ends of the sockets.
  virtual void shut() noexcept = 0;
};

// Returns whether this build has Gloo.
KEEL_API bool has_gloo() noexcept;
// Throws Error, naming the package, where this build has no Gloo.
KEEL_API void require_gloo();
// Connects with all ranks.
std::unique_ptr<GlooEngine> make_gloo_engine(const GlooEngineOptions& options);

}  // namespace keel

#endif  // KEEL_CORE_GROUP_GLOO_ENGINE_H
