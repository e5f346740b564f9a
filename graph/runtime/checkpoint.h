// Checkpoints: all states of a session as one safetensors file. Internal to graph/runtime; users
// call Session::save and Session::load.
#ifndef KEEL_GRAPH_RUNTIME_CHECKPOINT_H
#define KEEL_GRAPH_RUNTIME_CHECKPOINT_H

#include <map>
#include <string>

#include "keel/graph/runtime/state_store.h"

namespace keel {

// Throws Error where a state is not valid or the file cannot be written.
void save_states(const std::string& path, StateStore& store,
                 const std::map<std::string, std::string>& metadata);

// Returns the file's metadata. Throws Error listing every state that does not fit; then nothing has
// changed.
std::map<std::string, std::string> load_states(const std::string& path, StateStore& store);

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_CHECKPOINT_H
