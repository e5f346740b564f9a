// The part of AnchorGroups that finds which ops products compute as they load their operands.
#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>
#include <utility>

#include "keel/graph/ir/fused_body.h"
#include "keel/graph/passes/fuse_anchors.h"

namespace keel {

void AnchorGroups::find_loads() {
  std::unordered_set<Value, ValueHash> asked;
  for (const uint32_t product : products_) {
    for (const Value& v : anchor(product).inputs()) {
      if (!asked.insert(v).second || !only_products_use(v)) continue;
      if (auto load = load_of(v)) loads_[v] = std::move(*load);
    }
  }
  drop_refused_loads();
  gather_loaded_rows();
  mark_loaded();
}

bool AnchorGroups::only_products_use(const Value& v) const {
  const uint32_t unit = units_.of(v);
  if (unit == kNone || units_.users().leaves(v) || !units_.is_elementwise(unit)) return false;
  if (group_of_[unit] != kNone) return false;
  const bool moves = units_.nodes(unit).size() == 1 && v.node().has(kMovement);
  const auto users = units_.users().of(v);
  return !moves &&
         std::all_of(users.begin(), users.end(), [&](uint32_t user) { return is_product(user); });
}

// Returns how a value would be computed from one variable of its shape; nothing where it has
// several.
std::optional<AnchorGroups::Load> AnchorGroups::load_of(const Value& v) const {
  const uint32_t unit = units_.of(v);
  Load load;
  std::set<uint32_t> needed{v.node_id()};
  Values sources;
  for (auto id = needed.rbegin(); id != needed.rend(); ++id) {
    for (const Value& read : units_.graph().node(*id).inputs()) {
      if (units_.of(read) == unit) {
        needed.insert(read.node_id());
      } else if (!is_scalar_constant(read) &&
                 std::find(sources.begin(), sources.end(), read) == sources.end()) {
        sources.push_back(read);
      }
    }
  }
  if (sources.size() != 1 || sources[0].shape() != v.shape()) return std::nullopt;
  load.source = sources[0];
  load.nodes.assign(needed.begin(), needed.end());
  return load;
}

bool AnchorGroups::loads_something(uint32_t group) const {
  const auto& inputs = anchor(group).inputs();
  return std::any_of(inputs.begin(), inputs.end(), [&](const Value& v) { return is_loaded(v); });
}

// All products that use a value load it, or none does: it has to be stored for one anyway. So where
// one cannot, those beside it are asked again.
void AnchorGroups::drop_refused_loads() {
  std::vector<uint32_t> open = products_;
  for (size_t i = 0; i < open.size(); ++i) {
    const uint32_t product = open[i];
    if (!loads_something(product)) continue;
    const Support support = ask(product, true, false);
    if (support.supported) continue;
    for (const Value& v : refused_loads(product)) {
      loads_.erase(v);
      tell(v.node(), anchor(product), "the backend declines: " + support.reason);
      for (const uint32_t user : units_.users().of(v)) {
        if (user != product) open.push_back(user);
      }
    }
  }
}

// Returns the one load of a product without which the backend takes the others, or all of them.
Values AnchorGroups::refused_loads(uint32_t product) {
  Values loaded;
  for (const Value& v : anchor(product).inputs()) {
    if (is_loaded(v) && std::find(loaded.begin(), loaded.end(), v) == loaded.end())
      loaded.push_back(v);
  }
  for (const Value& v : loaded) {
    auto load = loads_.extract(v);
    const bool takes_others = ask(product, true, false).supported;
    loads_.insert(std::move(load));
    if (takes_others) return {v};
  }
  return loaded;
}

// Rows that only loads use are gathered as the products load them, by all of these or by none.
void AnchorGroups::gather_loaded_rows() {
  std::map<uint32_t, std::vector<Load*>> loads_from;  // by the unit that gathers
  for (auto& [v, load] : loads_) {
    const uint32_t unit = units_.of(load.source);
    if (unit != kNone && gathers_rows(units_.first(unit))) loads_from[unit].push_back(&load);
  }
  mark_loaded();
  for (auto& [unit, loads] : loads_from) {
    const Node& gather = units_.first(unit);
    const auto users = units_.users().of(gather.output());
    if (units_.users().leaves(gather.output()) ||
        !std::all_of(users.begin(), users.end(), [&](uint32_t user) { return loaded_[user]; })) {
      continue;
    }
    for (Load* load : loads) load->gather = &gather;
    std::set<uint32_t> products;
    for (const uint32_t user : users) {
      for (const Value& v : units_.outputs(user)) {
        const auto of_value = units_.users().of(v);
        products.insert(of_value.begin(), of_value.end());
      }
    }
    for (const uint32_t product : products) {
      const Support& support = ask(product, true, false);
      if (support.supported) continue;
      tell(gather, anchor(product), "the backend declines: " + support.reason);
      for (Load* load : loads) load->gather = nullptr;
      break;
    }
  }
}

// Units all of whose values are loaded, and gathers that go along.
void AnchorGroups::mark_loaded() {
  for (const auto& [v, load] : loads_) {
    const Values outputs = units_.outputs(units_.of(v));
    loaded_[units_.of(v)] = std::all_of(outputs.begin(), outputs.end(),
                                        [&](const Value& out) { return is_loaded(out); });
    if (load.gather != nullptr) loaded_[units_.of(*load.gather)] = true;
  }
}

}  // namespace keel
