// The order in which a graph's nodes can run, and the cycles that have none.
#include <algorithm>
#include <vector>

#include "keel/ops/exchange/graphdef/control_flow/graph.h"

namespace keel::graphdef {

std::vector<uint32_t> FlowGraph::topological_order(const std::vector<uint32_t>& listed,
                                                   Refusals& refusals) {
  for (uint32_t i = 0; i < listed.size(); ++i) nodes[listed[i]].slot = i;
  std::vector<std::vector<uint32_t>> readers(listed.size());
  std::vector<uint32_t> pending(listed.size(), 0);
  for (uint32_t i = 0; i < listed.size(); ++i) {
    const auto count = [&](uint32_t read) {
      const FlowNode& source = nodes[read];
      const bool is_listed = source.slot < listed.size() && listed[source.slot] == read;
      if (!is_listed || source.kind == FlowKind::kNextIteration) return;
      readers[source.slot].push_back(i);
      ++pending[i];
    };
    for (const FlowValue& input : nodes[listed[i]].inputs) count(input.node);
    for (const uint32_t control : nodes[listed[i]].controls) count(control);
  }
  std::vector<uint32_t> order;
  order.reserve(listed.size());
  for (uint32_t i = 0; i < listed.size(); ++i)
    if (pending[i] == 0) order.push_back(i);
  for (size_t next = 0; next < order.size(); ++next)
    for (const uint32_t reader : readers[order[next]])
      if (--pending[reader] == 0) order.push_back(reader);
  if (order.size() < listed.size()) refuse_cycles(listed, pending, refusals);
  for (uint32_t& i : order) i = listed[i];
  return order;
}

void FlowGraph::refuse_cycles(const std::vector<uint32_t>& listed,
                              const std::vector<uint32_t>& pending, Refusals& refusals) {
  // Nodes that only come behind a cycle have a place when the order is taken from its end.
  std::vector<uint32_t> readers(listed.size(), 0);
  const auto on_cycle = [&](uint32_t node) {
    const uint32_t slot = nodes[node].slot;
    return slot < listed.size() && listed[slot] == node && pending[slot] != 0 &&
           nodes[node].kind != FlowKind::kNextIteration;
  };
  const auto each_source = [&](uint32_t i, const auto& visit) {
    for (const FlowValue& input : nodes[listed[i]].inputs)
      if (on_cycle(input.node)) visit(nodes[input.node].slot);
    for (const uint32_t control : nodes[listed[i]].controls)
      if (on_cycle(control)) visit(nodes[control].slot);
  };
  for (uint32_t i = 0; i < listed.size(); ++i)
    if (pending[i] != 0) each_source(i, [&](uint32_t source) { ++readers[source]; });
  std::vector<uint32_t> ends;
  for (uint32_t i = 0; i < listed.size(); ++i)
    if (pending[i] != 0 && readers[i] == 0) ends.push_back(i);
  std::vector<bool> behind(listed.size(), false);
  for (size_t next = 0; next < ends.size(); ++next) {
    behind[ends[next]] = true;
    each_source(ends[next], [&](uint32_t source) {
      if (--readers[source] == 0) ends.push_back(source);
    });
  }
  for (uint32_t i = 0; i < listed.size(); ++i)
    if (pending[i] != 0 && !behind[i])
      refusals.add(name(listed[i]), "is on a cycle that is no loop");
}

}  // namespace keel::graphdef
