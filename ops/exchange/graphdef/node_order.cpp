#include "keel/ops/exchange/graphdef/node_order.h"

#include <queue>
#include <set>
#include <unordered_map>

#include "keel/core/base/error.h"
#include "keel/core/base/printable.h"
#include "keel/ops/exchange/graphdef/file/values.h"

namespace keel::graphdef {
namespace {

constexpr size_t kMostNamed = 8;

// The nodes that each node is an input of, control inputs included.
std::vector<std::vector<size_t>> users_of(const std::vector<NodeDef>& nodes) {
  std::unordered_map<std::string, size_t> index;
  for (size_t i = 0; i < nodes.size(); ++i) index.emplace(nodes[i].name, i);
  std::vector<std::vector<size_t>> users(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const std::string& input : nodes[i].inputs) {
      const auto before = index.find(parse_value(input).node);
      if (before != index.end()) users[before->second].push_back(i);
    }
  }
  return users;
}

}  // namespace

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
    if (waits[i] != 0 && ++waiting <= kMostNamed)
      names += (names.empty() ? "" : ", ") + printable(nodes[i].name, 200);
  throw Error({.op = source,
               .argument = std::to_string(waiting) + " nodes",
               .message = "wait for each other: " + names + (waiting > kMostNamed ? " ..." : "")});
}

void require_reads_before_assignments(const std::vector<NodeDef>& nodes, const OpRules& rules,
                                      const std::string& source) {
  const std::vector<std::vector<size_t>> users = users_of(nodes);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const OpRule* rule = rules.find(nodes[i].op);
    if (rule == nullptr || rule->assigns.empty()) continue;
    std::set<std::string> variables;
    for (const size_t operand : rule->assigns)
      if (operand < nodes[i].inputs.size())
        variables.insert(parse_value(nodes[i].inputs[operand]).node);
    std::vector<bool> seen(nodes.size(), false);
    std::vector<size_t> open(users[i]);
    while (!open.empty()) {
      const size_t node = open.back();
      open.pop_back();
      if (seen[node]) continue;
      seen[node] = true;
      open.insert(open.end(), users[node].begin(), users[node].end());
      for (const std::string& input : nodes[node].inputs) {
        const ValueName value = parse_value(input);
        if (value.control || variables.count(value.node) == 0) continue;
        throw Error({.op = source,
                     .argument = "node '" + printable(nodes[node].name) + "'",
                     .message = "reads the variable '" + printable(value.node) + "' behind '" +
                                printable(nodes[i].name) +
                                "', which assigns to it in the same step",
                     .fix = "read it before the assignment, or in the next step"});
      }
    }
  }
}

}  // namespace keel::graphdef
