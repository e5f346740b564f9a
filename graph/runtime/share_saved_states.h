// Hands saved states that the first rank of a group has read to all of them: the file may be on its
// machine alone. Internal to graph/runtime; the session's thread.
#ifndef KEEL_GRAPH_RUNTIME_SHARE_SAVED_STATES_H
#define KEEL_GRAPH_RUNTIME_SHARE_SAVED_STATES_H

#include "keel/core/group/group.h"
#include "keel/graph/runtime/checkpoint.h"

namespace keel {

// Replaces `saved` by that of rank 0, which read_states() returned. All ranks call it, with stores
// of the same states. Throws RankLost.
void share_saved_states(Group& group, const StateStore& store, SavedStates& saved);

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_SHARE_SAVED_STATES_H
