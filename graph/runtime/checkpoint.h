// Checkpoints: all states of a session as one set, in memory or as a safetensors file with the
// place in the data in its metadata. Internal to graph/runtime; users call Session::save and load,
// or Trainer::save and resume.
#ifndef KEEL_GRAPH_RUNTIME_CHECKPOINT_H
#define KEEL_GRAPH_RUNTIME_CHECKPOINT_H

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "keel/core/device/element_spec.h"
#include "keel/graph/runtime/state_store.h"

namespace keel {

// The plain values of all states, counters among them, by name.
using StateValues = std::map<std::string, Tensor>;

// Throws Error where a state is not valid.
StateValues copy_states(const StateStore& store);
// Takes them as one set, the counters as they stand there: without keel/updates among them every
// step made an update. States of the store that are not among them stay. REQUIRES that dtypes and
// shapes are those of the states.
void put_states(StateStore& store, const StateValues& values);

// The content of a file of saved states. A plain value.
struct SavedStates {
  StateValues tensors;
  std::map<std::string, std::string> metadata;
};

// Copies what is to be saved: the states but counts of nothing, and `metadata` with keel_version,
// step and updates. Throws Error where a state is not valid.
SavedStates states_to_save(StateStore& store, std::map<std::string, std::string> metadata);
// Does that and writes it. Throws Error, too, where the file cannot be written.
void save_states(const std::string& path, StateStore& store,
                 const std::map<std::string, std::string>& metadata);

// Returns what is in a file of these states. Throws Error listing every state that does not fit,
// and where keel/step or keel/seed cannot be or is not what the metadata say.
SavedStates read_states(const std::string& path, const StateStore& store);
// Takes them; returns the file's metadata. Where it throws nothing has changed.
std::map<std::string, std::string> load_states(const std::string& path, StateStore& store);

// Adds the cursor as metadata: cursor_epoch, cursor_position, cursor_key.
void add_cursor(std::map<std::string, std::string>& metadata, const Cursor& cursor);
// Throws Error naming the file where they hold none that can be.
Cursor cursor_in(const std::map<std::string, std::string>& metadata, const std::string& path);

// Where a training stands beside its states. A plain value.
struct TrainingPlace {
  Cursor cursor;
  // Of an accelerated training: the step behind which its fast phase ended.
  std::optional<int64_t> switched_at = {};
};
// Adds the cursor, and switched_at_step where the phase has ended.
void add_place(std::map<std::string, std::string>& metadata, const TrainingPlace& place);
// Throws Error naming the file where they hold none that can be.
TrainingPlace place_in(const std::map<std::string, std::string>& metadata, const std::string& path);

// Returns the metadata of a file that a training can go on from. Throws Error for a damaged file
// and for one of another program: without checksums nobody can tell whether it is the one that was
// saved.
std::map<std::string, std::string> resumable_metadata(const std::string& path);

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_CHECKPOINT_H
