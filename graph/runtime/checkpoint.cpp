#include "keel/graph/runtime/checkpoint.h"

#include <vector>

#include "keel/graph/runtime/safetensors.h"
#include "keel/version.h"

namespace keel {

void save_states(const std::string& path, StateStore& store,
                 const std::map<std::string, std::string>& metadata) {
  std::map<std::string, Tensor> tensors;
  for (const auto& [name, home] : store.homes()) tensors[name] = store.read(home);
  std::map<std::string, std::string> all = metadata;
  all["keel_version"] = KEEL_VERSION;
  all["step"] = std::to_string(store.step());
  write_safetensors(path, tensors, all);
}

std::map<std::string, std::string> load_states(const std::string& path, StateStore& store) {
  const Safetensors file = read_safetensors(path);
  std::vector<std::string> problems;
  for (const auto& [name, home] : store.homes()) {
    const auto it = file.tensors.find(name);
    if (it == file.tensors.end()) {
      problems.push_back("'" + name + "' is missing");
    } else if (it->second.type() != home.type) {
      problems.push_back("'" + name + "' is " + to_string(it->second.type()) + " instead of " +
                         to_string(home.type));
    }
  }
  for (const auto& [name, tensor] : file.tensors) {
    if (!store.homes().contains(name)) problems.push_back("'" + name + "' is not in the graph");
  }
  if (!problems.empty()) {
    std::string list;
    for (const std::string& problem : problems) list += (list.empty() ? "" : ", ") + problem;
    throw Error({.op = "load",
                 .argument = path,
                 .message = "the file does not hold the states of this graph: " + list,
                 .fix = "build the graph that saved it; nothing was changed"});
  }
  for (const auto& [name, tensor] : file.tensors) store.write(store.home(name), tensor);
  return file.metadata;
}

}  // namespace keel
