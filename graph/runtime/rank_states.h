// The states of a session as all ranks of a group have them: taken from one rank before the first
// step, and compared where they have to be equal. All ranks of the group make the same calls; the
// session's thread.
#ifndef KEEL_GRAPH_RUNTIME_RANK_STATES_H
#define KEEL_GRAPH_RUNTIME_RANK_STATES_H

#include "keel/core/base/call_site.h"
#include "keel/core/base/export.h"
#include "keel/core/group/group.h"
#include "keel/graph/runtime/session.h"

namespace keel {

struct BroadcastOptions {
  int root = 0;
  // Without the others, such as moving averages and the step.
  bool trainable_only = false;
};

// Replaces the states of all ranks by those of the root. Throws Error for a root that is no rank,
// and RankLost where the ranks have not the same states.
KEEL_API void broadcast_states(Session& session, Group& group, const BroadcastOptions& options = {},
                               CallSite site = CallSite::here());

// Returns Session::state_sha256; throws RankLost, with both sides, where it is not the same on all
// ranks.
KEEL_API std::string require_equal_states(const Session& session, Group& group,
                                          CallSite site = CallSite::here());

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_RANK_STATES_H
