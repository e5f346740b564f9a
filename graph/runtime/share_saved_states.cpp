#include "keel/graph/runtime/share_saved_states.h"

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "keel/core/base/json.h"

namespace keel {
namespace {

// A file also has counts that the graph lacks.
Tensor make_room(const StateStore& store, const std::string& name) {
  const auto state = store.states().find(name);
  if (state == store.states().end()) return Tensor::scalar<int64_t>(0);
  return {state->second.type.dtype, state->second.type.shape};
}

std::string describe_saved(const SavedStates& saved) {
  std::vector<std::string> names;
  for (const auto& [name, value] : saved.tensors) names.push_back(name);
  return write_json({{"states", names}, {"metadata", saved.metadata}});
}

// The values are zeros.
SavedStates saved_as_described(const std::string& text, const StateStore& store) {
  const Json described = parse_json(text, "the saved states of rank 0");
  SavedStates saved;
  for (const auto& name : described.at("states").get<std::vector<std::string>>())
    saved.tensors[name] = make_room(store, name);
  saved.metadata = described.at("metadata").get<std::map<std::string, std::string>>();
  return saved;
}

}  // namespace

void share_saved_states(Group& group, const StateStore& store, SavedStates& saved) {
  if (group.size() == 1) return;
  const bool reads = group.rank() == 0;
  const std::vector<std::string> texts = group.all_gather(reads ? describe_saved(saved) : "");
  if (!reads) saved = saved_as_described(texts.front(), store);
  for (auto& [name, value] : saved.tensors) group.broadcast(value.raw(), value.num_bytes(), 0);
}

}  // namespace keel
