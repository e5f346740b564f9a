// Nodes If of a region: which Merges become one, and in which order.
#include <algorithm>
#include <map>
#include <set>

#include "keel/ops/exchange/graphdef/control_flow/region.h"

namespace keel::graphdef {

template <class Visit>
void Region::each_source(uint32_t node, const Visit& visit) const {
  for (const uint32_t control : flow_[node].controls) visit(control);
  const auto choice = choices_.find(node);
  if (choice == choices_.end()) {
    for (const FlowValue& input : flow_[node].inputs) visit(input.node);
    return;
  }
  visit(conditions_[choice->second.condition].node);
  for (const bool side : {false, true}) {
    visit(choice->second.values[side ? 1 : 0].node);
    if (flow_[node].index_is_read) visit(choice->second.indices[side ? 1 : 0].node);
  }
}

// Takes nodes in an order in which they can run, and all Merges of a condition that are ready as
// one If, for which none of them can depend on another. A condition all of whose Merges are ready
// goes first, so that they are not spread over several.
void Region::schedule() {
  order_.erase(
      std::remove_if(order_.begin(), order_.end(), [this](uint32_t node) { return !runs(node); }),
      order_.end());
  const std::vector<uint32_t> nodes = std::move(order_);
  order_.clear();
  for (uint32_t i = 0; i < nodes.size(); ++i) flow_[nodes[i]].slot = i;
  std::vector<std::vector<uint32_t>> readers(nodes.size());
  std::vector<uint32_t> pending(nodes.size(), 0);
  std::map<GroupKey, Group> groups;
  std::set<GroupKey> complete;
  std::vector<GroupKey> first_ready;  // in the order in which a Merge of it became ready
  std::vector<uint32_t> ready;
  const auto key_of = [&](uint32_t node) {
    return GroupKey{choices_.at(node).condition, flow_[node].context};
  };
  const auto make_ready = [&](uint32_t node) {
    if (choices_.count(node) == 0) {
      ready.push_back(node);
      return;
    }
    Group& group = groups[key_of(node)];
    if (group.ready.empty()) first_ready.push_back(key_of(node));
    group.ready.push_back(node);
    if (group.ready.size() == group.waiting) complete.insert(key_of(node));
  };
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    each_source(nodes[i], [&](uint32_t source) {
      readers[flow_[source].slot].push_back(i);
      ++pending[i];
    });
    if (choices_.count(nodes[i]) != 0) ++groups[key_of(nodes[i])].waiting;
  }
  for (uint32_t i = 0; i < nodes.size(); ++i)
    if (pending[i] == 0) make_ready(nodes[i]);

  const auto place = [&](uint32_t node) {
    flow_[node].position = static_cast<uint32_t>(order_.size());
    order_.push_back(node);
  };
  const auto release = [&](uint32_t node) {
    for (const uint32_t reader : readers[flow_[node].slot])
      if (--pending[reader] == 0) make_ready(nodes[reader]);
  };
  size_t next_ready = 0;
  size_t next_group = 0;
  for (;;) {
    for (; next_ready < ready.size(); ++next_ready) {
      place(ready[next_ready]);
      release(ready[next_ready]);
    }
    while (next_group < first_ready.size() && groups[first_ready[next_group]].ready.empty())
      ++next_group;
    if (complete.empty() && next_group == first_ready.size()) return;
    const GroupKey key = complete.empty() ? first_ready[next_group] : *complete.begin();
    complete.erase(key);
    std::vector<uint32_t> merges;
    merges.swap(groups[key].ready);
    groups[key].waiting -= merges.size();
    make_if(key, merges);
    for (const uint32_t merge : merges) place(merge);
    for (const uint32_t merge : merges) release(merge);
  }
}

std::vector<FlowValue> Region::results_of(const std::vector<uint32_t>& merges, bool side) const {
  std::vector<FlowValue> results;
  for (const uint32_t merge : merges) {
    const Choice& choice = choices_.at(merge);
    results.push_back(choice.values[side ? 1 : 0]);
    if (flow_[merge].index_is_read) results.push_back(choice.indices[side ? 1 : 0]);
  }
  return results;
}

void Region::make_if(GroupKey key, const std::vector<uint32_t>& merges) {
  const std::string name = flow_.name(merges.front());
  const uint32_t node = flow_.add("If", name + "/If");
  Captures captures;
  std::array<BodyParts, 2> sides;
  for (const bool side : {true, false})
    sides[side ? 1 : 0] = collect(
        flow_, results_of(merges, side),
        [&](uint32_t read) {
          return contexts_.holds(flow_[read].context, {key.first, side});
        },
        captures);
  const std::vector<std::string> arguments = captures.name_arguments(flow_);
  auto& attributes = flow_[node].definition.attributes;
  AttrValue then_branch = library_.add(flow_, node, flow_.name(node) + "/then", sides[1], arguments,
                                       captures, refusals_);
  AttrValue else_branch = library_.add(flow_, node, flow_.name(node) + "/else", sides[0], arguments,
                                       captures, refusals_);
  attributes["then_branch"] = std::move(then_branch);
  attributes["else_branch"] = std::move(else_branch);
  flow_[node].inputs = {conditions_[key.first]};
  flow_[node].inputs.insert(flow_[node].inputs.end(), captures.values().begin(),
                            captures.values().end());
  flow_[node].controls = captures.controls();
  flow_[node].context = key.second;
  flow_[node].position = static_cast<uint32_t>(order_.size());
  order_.push_back(node);
  uint32_t output = 0;
  for (const uint32_t merge : merges) {
    std::vector<FlowValue> values{{node, output++}};
    if (flow_[merge].index_is_read) values.push_back({node, output++});
    flow_.pass_on(merge, std::move(values));
    choices_.erase(merge);
  }
}

}  // namespace keel::graphdef
