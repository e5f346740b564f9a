// SessionState: what a Session and the loops sunk on it share. Internal to graph/runtime.
#ifndef KEEL_GRAPH_RUNTIME_SESSION_STATE_H
#define KEEL_GRAPH_RUNTIME_SESSION_STATE_H

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "keel/graph/control/step_boundary.h"
#include "keel/graph/runtime/executable.h"
#include "keel/graph/runtime/loop_size.h"
#include "keel/graph/runtime/session.h"

namespace keel {

struct SessionState {
  SessionState(Graph& graph, Device device, const SessionOptions& options);

  // Returns the program for the key, from the cache or compiled now.
  std::shared_ptr<Executable> executable(ProgramKey key, CallSite site);

  // Copies on the stream, and counts it.
  void copy_to_device(Buffer& to, const void* from, size_t bytes);
  void copy_to_host(void* to, const Buffer& from, size_t bytes);

  Graph* graph;
  Device device;
  SessionOptions options;
  std::unique_ptr<Stream> stream;
  StateStore store;
  ProgramCache cache;
  LoopSize loop_size;
  int64_t compiles = 0;
  Transfers transfers;  // of these copies, since whoever counts them set it to nothing
  std::atomic<bool> requested{false};         // request_stop() that no call has obeyed yet
  std::atomic<bool> stop{false};              // what the device looks at during a call
  std::atomic<const void*> running{nullptr};  // the loop whose run() is under way

  // Says whether the call that is under way is this party.
  bool is_party(const LoopAgreement* agreement);

  // The call that is under way, and the party that it is, if any: changed together by SessionGuard.
  std::mutex call_lock;
  const char* call = nullptr;
  const LoopAgreement* party = nullptr;

  std::set<std::string> told;  // warnings of rules without effect: once, not for each program
};

// Returns the step that the options ask for, or that the graph describes where they name none.
// Throws Error in the name of `op`.
StepDescription step_of(const Graph& graph, const SinkOptions& options, const char* op,
                        CallSite site);

// Held during every call on a session: throws Error where another one is under way, be it of
// another thread or the one whose callback makes this one. `call` lives as long as the program.
// `agreement`: whose party the call is. One that is refused tells the other parties that it fails,
// but not where the call under way is the same party: that one goes on, and votes itself.
class SessionGuard {
 public:
  SessionGuard(SessionState& state, const char* call, CallSite site,
               LoopAgreement* agreement = nullptr);
  ~SessionGuard();
  SessionGuard(const SessionGuard&) = delete;
  SessionGuard& operator=(const SessionGuard&) = delete;

 private:
  SessionState& state_;
  const SessionGuard* outer_;  // that the same thread holds, of other sessions
};

// Held while a call runs steps: what it looks at to stop is this call's, and asks for nothing but
// what was asked of it or of the session before.
class StopScope {
 public:
  // `loop`: the one that runs, and whether it was asked to stop; nullptr for Session::run.
  StopScope(SessionState& state, const void* loop, const std::atomic<bool>* loop_requested);
  ~StopScope() { state_.running.store(nullptr); }
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

 private:
  SessionState& state_;
};

// Waits until the stream is idle, whatever happened on it: before memory that its copies use goes.
void quiesce(Stream& stream) noexcept;

// Returns the exception being handled as an Error with the context and the user's line.
Error current_error(const std::string& context, CallSite site);

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_SESSION_STATE_H
