// dump_layers: which ops of a training's programs DumpOptions::layers mean. Names are those of the
// user's graph; what has none of them any more, as the backend runs it in parts, is found by the
// part that gives its value. Pure, on the session's thread. Internal to graph/runtime.
#ifndef KEEL_GRAPH_RUNTIME_DUMP_LAYERS_H
#define KEEL_GRAPH_RUNTIME_DUMP_LAYERS_H

#include <string>
#include <vector>

#include "keel/graph/runtime/dump_options.h"
#include "keel/graph/runtime/loop.h"
#include "keel/graph/runtime/session_state.h"

namespace keel {

// Returns the names of the ops that the layers stand for; none where there are no layers. Throws
// Error for a layer that no program computes, naming near ones, and where the device shows no ops.
// `steps`: the loops of each phase that run op by op.
std::vector<std::string> dumped_ops(const DumpOptions& options, const SessionState& session,
                                    const std::vector<const Loop*>& steps);

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_DUMP_LAYERS_H
