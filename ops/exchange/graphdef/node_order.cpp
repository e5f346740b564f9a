#include "keel/ops/exchange/graphdef/node_order.h"

#include <queue>
#include <unordered_map>

#include "keel/core/base/error.h"
#include "keel/core/base/printable.h"
#include "keel/ops/exchange/graphdef/file/values.h"

namespace keel::graphdef {
namespace {

constexpr size_t kMostWaitingNamed = 8;
constexpr size_t kUnknown = SIZE_MAX, kNowhere = SIZE_MAX - 1;

// The nodes that each node is an input of in the same turn, control inputs included.
std::vector<std::vector<size_t>> users_of(const std::vector<NodeDef>& nodes) {
  std::unordered_map<std::string, size_t> index;
  for (size_t i = 0; i < nodes.size(); ++i) index.emplace(nodes[i].name, i);
  std::vector<std::vector<size_t>> users(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const std::string& input : nodes[i].inputs) {
      const auto before = index.find(parse_value(input).node);
      if (before != index.end() && !leads_back(nodes[before->second].op))
        users[before->second].push_back(i);
    }
  }
  return users;
}

}  // namespace

bool leads_back(std::string_view op) { return op == "NextIteration" || op == "RefNextIteration"; }

std::vector<size_t> node_order(const std::vector<NodeDef>& nodes, const std::string& source) {
  const std::vector<std::vector<size_t>> users = users_of(nodes);
  std::vector<size_t> waits(nodes.size(), 0);
  for (const std::vector<size_t>& of_node : users)
    for (const size_t user : of_node) ++waits[user];
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t i = 0; i < nodes.size(); ++i)
    if (waits[i] == 0) ready.push(i);
  std::vector<size_t> order;
  while (!ready.empty()) {
    order.push_back(ready.top());
    ready.pop();
    for (const size_t user : users[order.back()])
      if (--waits[user] == 0) ready.push(user);
  }
  if (order.size() == nodes.size()) return order;
  std::string names;
  size_t waiting = 0;
  for (size_t i = 0; i < nodes.size(); ++i)
    if (waits[i] != 0 && ++waiting <= kMostWaitingNamed)
      names += (names.empty() ? "" : ", ") + printable(nodes[i].name, 200);
  throw Error(
      {.op = source,
       .argument = std::to_string(waiting) + " nodes",
       .message = "wait for each other: " + names + (waiting > kMostWaitingNamed ? " ..." : "")});
}

Origins::Origins(const std::vector<NodeDef>& nodes, const std::vector<std::string>* arguments)
    : nodes_(nodes), arguments_(arguments), origins_(nodes.size(), kUnknown) {
  for (size_t i = 0; i < nodes.size(); ++i) index_.emplace(nodes[i].name, i);
  for (size_t i = 0; arguments != nullptr && i < arguments->size(); ++i) {
    index_.emplace((*arguments)[i], nodes.size() + i);
    origins_.push_back(nodes.size() + i);
  }
}

size_t Origins::find(const std::string& node) {
  const auto index_of = [&](const std::string& name) {
    const auto entry = index_.find(name);
    return entry == index_.end() ? kNowhere : entry->second;
  };
  std::vector<size_t> chain;
  size_t at = index_of(node);
  while (at != kNowhere && origins_[at] == kUnknown) {
    chain.push_back(at);
    // A chain that comes back to itself ends nowhere.
    origins_[at] = kNowhere;
    if (nodes_[at].op != "Identity") {
      origins_[at] = at;
      break;
    }
    at = nodes_[at].inputs.empty() ? kNowhere : index_of(parse_value(nodes_[at].inputs[0]).node);
  }
  const size_t origin = at == kNowhere ? kNowhere : origins_[at];
  for (const size_t passed : chain) origins_[passed] = origin;
  return origin;
}

const NodeDef* Origins::of(const std::string& node) {
  const size_t origin = find(node);
  return origin < nodes_.size() ? &nodes_[origin] : nullptr;
}

const std::string* Origins::argument_of(const std::string& node) {
  const size_t origin = find(node);
  return origin == kNowhere || origin < nodes_.size() ? nullptr
                                                      : &(*arguments_)[origin - nodes_.size()];
}

}  // namespace keel::graphdef
