#include "keel/graph/runtime/checkpoint.h"

#include <charconv>
#include <limits>
#include <utility>
#include <vector>

#include "keel/core/base/environment.h"
#include "keel/graph/ir/skipped_steps.h"
#include "keel/graph/runtime/most_steps.h"
#include "keel/graph/runtime/safetensors.h"
#include "keel/version.h"

namespace keel {
namespace {

constexpr const char* kCursorEpoch = "cursor_epoch";
constexpr const char* kCursorPosition = "cursor_position";
constexpr const char* kCursorKey = "cursor_key";
constexpr const char* kSwitchedAt = "switched_at_step";

template <class Number>
Number number_in(const std::map<std::string, std::string>& metadata, const char* name,
                 const std::string& path) {
  const auto it = metadata.find(name);
  if (it == metadata.end()) {
    throw Error({.op = "resume",
                 .argument = path,
                 .message = std::string("does not say where in the data it was (no ") + name +
                            " in its metadata)",
                 .fix = "resume from a file that a Trainer or `keel train --save` wrote"});
  }
  const std::string& text = it->second;
  Number number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || end != text.data() + text.size() || text[0] == '-') {
    throw Error({.op = "resume",
                 .argument = path + ", " + name,
                 .expected = "a number of 64 bits, not negative",
                 .got = "'" + text + "'"});
  }
  return number;
}

// Throws Error unless the reserved state `name` and the metadata's `key` say the same. Files of
// older and of other programs may lack either.
void require_same(const Safetensors& file, const std::string& path, const char* name,
                  const char* key, int64_t least) {
  const auto tensor = file.tensors.find(name);
  if (tensor == file.tensors.end()) return;
  const auto value = tensor->second.item<int64_t>();
  const auto fail = [&](const std::string& expected) {
    throw Error({.op = "load",
                 .argument = path + ", tensor '" + name + "'",
                 .expected = expected,
                 .got = std::to_string(value),
                 .fix = "take another copy of the file; nothing was changed"});
  };
  if (value < least) fail("at least " + std::to_string(least));
  const auto entry = file.metadata.find(key);
  if (entry == file.metadata.end()) return;
  if (entry->second != std::to_string(value) &&
      entry->second != std::to_string(static_cast<uint64_t>(value)))
    fail("'" + entry->second + "', as '" + key + "' in the metadata says");
}

bool counts_some_steps(const std::string& name) {
  return name == kUpdatesState || counts_skipped_steps(name);
}

// No more updates were applied, and no more steps skipped, than steps executed.
void require_counted(const Safetensors& file, const std::string& path) {
  const int64_t steps = file.tensors.at(kStepState).item<int64_t>();
  for (const auto& [name, tensor] : file.tensors) {
    if (!counts_some_steps(name)) continue;
    if (tensor.type() != Type{i64, {}}) {
      throw Error({.op = "load",
                   .argument = path + ", tensor '" + name + "'",
                   .expected = to_string(Type{i64, {}}),
                   .got = to_string(tensor.type())});
    }
    const auto count = tensor.item<int64_t>();
    if (count >= 0 && count <= steps) continue;
    throw Error({.op = "load",
                 .argument = path + ", tensor '" + name + "'",
                 .expected = "0 to the " + std::to_string(steps) + " of " + kStepState,
                 .got = std::to_string(count)});
  }
}

}  // namespace

void add_cursor(std::map<std::string, std::string>& metadata, const Cursor& cursor) {
  metadata[kCursorEpoch] = std::to_string(cursor.epoch);
  metadata[kCursorPosition] = std::to_string(cursor.position);
  metadata[kCursorKey] = std::to_string(cursor.key);
}

Cursor cursor_in(const std::map<std::string, std::string>& metadata, const std::string& path) {
  return {.epoch = number_in<int64_t>(metadata, kCursorEpoch, path),
          .position = number_in<int64_t>(metadata, kCursorPosition, path),
          .key = number_in<uint64_t>(metadata, kCursorKey, path)};
}

void add_place(std::map<std::string, std::string>& metadata, const TrainingPlace& place) {
  add_cursor(metadata, place.cursor);
  if (place.switched_at) metadata[kSwitchedAt] = std::to_string(*place.switched_at);
}

TrainingPlace place_in(const std::map<std::string, std::string>& metadata,
                       const std::string& path) {
  TrainingPlace place{.cursor = cursor_in(metadata, path)};
  if (const auto it = metadata.find(kSwitchedAt); it != metadata.end())
    place.switched_at = parse_integer(it->second, path + ": " + kSwitchedAt, 0, kMostSteps);
  return place;
}

StateValues copy_states(const StateStore& store) {
  StateValues values;
  for (const auto& [name, state] : store.states()) values[name] = store.read(state);
  return values;
}

void put_states(StateStore& store, const StateValues& values) {
  const Tensor& step = values.at(kStepState);
  store.write(store.state(kStepState), step);
  // This is for counts that the values lack: where they say how many updates were applied, that
  // counts for all, otherwise every step did.
  const auto updates = values.find(kUpdatesState);
  store.count_from((updates == values.end() ? step : updates->second).item<int64_t>());
  for (const auto& [name, value] : values) {
    if (store.states().contains(name)) store.write(store.state(name), value);
  }
}

SavedStates states_to_save(StateStore& store, std::map<std::string, std::string> metadata) {
  SavedStates saved{{}, std::move(metadata)};
  for (const auto& [name, state] : store.states()) {
    if (!store.counts_nothing(state)) saved.tensors[name] = store.read(state);
  }
  saved.metadata["keel_version"] = KEEL_VERSION;
  saved.metadata["step"] = std::to_string(store.step());
  saved.metadata["updates"] = std::to_string(store.updates_applied());
  // The seed of the states replaces one in `metadata`, since loading refuses a file in which the
  // two differ.
  const auto seed = saved.tensors.find(kSeedState);
  if (seed != saved.tensors.end() && saved.metadata.contains("seed")) {
    const auto value = static_cast<uint64_t>(seed->second.item<int64_t>());
    saved.metadata["seed"] = std::to_string(value);
  }
  return saved;
}

void save_states(const std::string& path, StateStore& store,
                 const std::map<std::string, std::string>& metadata) {
  const SavedStates saved = states_to_save(store, metadata);
  write_safetensors(path, saved.tensors, saved.metadata);
}

SavedStates read_states(const std::string& path, const StateStore& store) {
  Safetensors file = read_safetensors(path);
  std::vector<std::string> problems;
  for (const auto& [name, state] : store.states()) {
    const auto it = file.tensors.find(name);
    if (it == file.tensors.end() && counts_some_steps(name)) continue;  // it skipped none
    if (it == file.tensors.end()) {
      problems.push_back("'" + name + "' is missing");
    } else if (it->second.type() != state.type) {
      problems.push_back("'" + name + "' is " + to_string(it->second.type()) + " instead of " +
                         to_string(state.type));
    }
  }
  for (const auto& [name, tensor] : file.tensors) {
    // A training that skipped some wrote it; a graph that skips none counts steps alone.
    if (counts_some_steps(name)) continue;
    if (!store.states().contains(name)) problems.push_back("'" + name + "' is not in the graph");
  }
  if (!problems.empty()) {
    std::string list;
    for (const std::string& problem : problems) list += (list.empty() ? "" : ", ") + problem;
    throw Error({.op = "load",
                 .argument = path,
                 .message = "the file does not hold the states of this graph: " + list,
                 .fix = "build the graph that saved it; nothing was changed"});
  }
  require_same(file, path, kStepState, "step", 0);
  require_same(file, path, kSeedState, "seed", std::numeric_limits<int64_t>::min());
  require_counted(file, path);
  return {std::move(file.tensors), std::move(file.metadata)};
}

std::map<std::string, std::string> load_states(const std::string& path, StateStore& store) {
  SavedStates saved = read_states(path, store);
  put_states(store, saved.tensors);
  return std::move(saved.metadata);
}

std::map<std::string, std::string> resumable_metadata(const std::string& path) {
  Safetensors file = read_safetensors(path);
  if (!file.has_checksums) {
    throw Error({.op = "resume",
                 .argument = path,
                 .message = "has no checksums: it is no file that Keel saved",
                 .fix = "load_weights puts what read_safetensors reads of it into a session"});
  }
  return std::move(file.metadata);
}

}  // namespace keel
