#include "keel/graph/passes/fuse_anchors.h"

#include <algorithm>
#include <set>
#include <utility>

#include "keel/graph/autodiff/recompute.h"
#include "keel/graph/ir/fused_body.h"

namespace keel {
namespace {

// Nodes between a product and what its rows read: a handful where a loss is a mean.
constexpr size_t kMostSeen = 500;
// Siblings of one reduction that the backend declines before the others are left alone. Mostly it
// declines how many there are, and a group only grows; a few may have a reason of their own. Asking
// for all would take time with the square of how many reductions read one value.
constexpr size_t kMostDeclined = 4;
// Siblings of one reduction of which the report says that they cannot be computed where it is.
constexpr size_t kMostTold = 4;

template <class List, class T>
bool holds(const List& list, const T& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

// Returns whether two nodes are copies for one recomputed block, or neither is for any.
bool same_block(const Node& a, const Node& b) {
  const std::string* of_a = copied_block(a);
  const std::string* of_b = copied_block(b);
  return of_a == nullptr || of_b == nullptr ? of_a == of_b : *of_a == *of_b;
}

}  // namespace

AnchorGroups::AnchorGroups(const FuseUnits& units, SharedBodies& bodies, FuseReport* report)
    : units_(units),
      bodies_(bodies),
      report_(report),
      group_of_(units.count(), kNone),
      loaded_(units.count(), false) {
  for (uint32_t unit = 0; unit < units.count(); ++unit) {
    if (is_anchor(unit)) (is_product(unit) ? products_ : reductions_).push_back(unit);
  }
  // Reductions are joined before products take rows: how the units are numbered then says what
  // joined reductions may follow from, and rows are walked to with those known.
  std::unordered_map<uint32_t, std::string> without_epilogue;  // why, by product
  for (auto product = products_.rbegin(); product != products_.rend(); ++product) {
    without_epilogue[*product] = find_epilogue(*product);
  }
  find_siblings();
  for (auto product = products_.rbegin(); product != products_.rend(); ++product) {
    const std::string& why = without_epilogue.at(*product);
    if (find_row_wise(*product) || why.empty()) continue;
    const Value result = anchor(*product).output();
    tell(anchor(*product), units_.user(units_.users().of(result)[0], result), why);
  }
  find_loads();
  for (const uint32_t product : products_) decide_product(product);
  tell_row_wise_apart();
  for (auto reduction = reductions_.rbegin(); reduction != reductions_.rend(); ++reduction) {
    find_epilogue(*reduction);
  }
  for (const uint32_t reduction : reductions_) find_prologue(reduction);
  for (const uint32_t reduction : reductions_) decide_reduction(reduction);
}

bool AnchorGroups::is_anchor(uint32_t unit) const {
  const Node& node = anchor(unit);
  return keel::is_anchor(node) && node.type().shape.known() && node.input(0).shape().known();
}

std::vector<uint32_t> AnchorGroups::members(uint32_t group) const {
  const auto it = groups_.find(group);
  if (it == groups_.end()) return {group};
  const Group& g = it->second;
  std::vector<uint32_t> units;
  units.reserve(2 + g.siblings.size() + g.views_behind.size() + g.row_wise.size());
  units.push_back(group);
  for (const Sibling& sibling : g.siblings) units.push_back(sibling.reduction);
  units.insert(units.end(), g.views_behind.begin(), g.views_behind.end());
  if (g.epilogue != kNone) units.push_back(g.epilogue);
  units.insert(units.end(), g.row_wise.begin(), g.row_wise.end());
  return units;
}

std::vector<uint32_t> AnchorGroups::units(uint32_t group) const {
  std::vector<uint32_t> units = members(group);
  const Group& g = groups_.at(group);
  if (g.prologue != kNone) units.push_back(g.prologue);
  for (const Sibling& sibling : g.siblings) {
    if (sibling.prologue != kNone) units.push_back(sibling.prologue);
  }
  units.insert(units.end(), g.views_before.begin(), g.views_before.end());
  return units;
}

// ---- what follows an anchor

// Takes the element-wise unit that alone uses what the anchor makes. Returns why there is none;
// empty where there is one, where nobody uses the result, and where it is told already.
std::string AnchorGroups::find_epilogue(uint32_t group) {
  const bool product = is_product(group);
  std::vector<uint32_t> views;
  Value result = anchor(group).output();
  uint32_t user = kNone;
  std::string why;
  for (;;) {
    const auto users = units_.users().of(result);
    if (users.empty()) return "";
    user = users[0];
    why = units_.why_stored(result);
    const Node& using_node = units_.first(user);
    if (product || !why.empty() || !using_node.has(kView) || using_node.types().size() != 1) break;
    views.push_back(user);
    result = using_node.output();
  }
  const Node& using_node = units_.user(user, result);
  if (why.empty() && !units_.is_elementwise(user))
    why = using_node.op_name() + " is not element-wise";
  if (why.empty() && using_node.type().shape != result.shape()) {
    why = "the shapes " + to_string(result.shape()) + " and " + to_string(using_node.type().shape) +
          " differ";
  }
  if (why.empty() && (group_of_[user] != kNone || loaded_[user])) {
    const bool other = loaded_[user] || is_product(group_of_[user]);
    why = std::string("another ") + (other ? "product" : "reduction") + " is computed with it";
  }
  if (!why.empty()) {
    if (product) return why;
    tell(anchor(group), using_node, why);
    return "";
  }
  Group& g = groups_[group];
  g.epilogue = user;
  g.views_behind = std::move(views);
  for (const uint32_t unit : members(group)) group_of_[unit] = group;
  return "";
}

// Takes row-wise nodes on the product's result, or on what its epilogue makes of it. Returns true
// if there are any.
bool AnchorGroups::find_row_wise(uint32_t group) {
  const auto it = groups_.find(group);
  const uint32_t last = it == groups_.end() ? group : it->second.epilogue;
  std::set<uint32_t> users;
  for (const Value& v : units_.outputs(last)) {
    const auto of_output = units_.users().of(v);
    users.insert(of_output.begin(), of_output.end());
  }
  bool any = false;
  for (const uint32_t user : users) {
    const Node& op = units_.first(user);
    if (!op.has(kRowWise) || group_of_[user] != kNone) continue;
    if (!stands_beside(op, last, group)) {
      tell(units_.last(last), op, "what else it reads may follow from these rows");
      continue;
    }
    groups_[group].row_wise.push_back(user);
    group_of_[group] = group_of_[user] = group;
    any = true;
  }
  return any;
}

// Returns true if every other input of the row-wise op can be computed before the product. Gives
// up, and returns false, after a bounded number of units. Groups of later products and joined
// reductions are known already and count as one; no unit before the product follows from it, for
// joined reductions read nothing behind the first of them.
bool AnchorGroups::stands_beside(const Node& op, uint32_t last, uint32_t group) const {
  std::unordered_set<uint32_t> seen;
  std::vector<uint32_t> open;
  const auto visit = [&](const Value& v) {
    const uint32_t unit = units_.of(v);
    if (unit != kNone && unit >= group && seen.insert(unit).second) open.push_back(unit);
  };
  for (size_t i = 0; i < op.inputs().size(); ++i) {
    if (i != 0 || units_.of(op.input(0)) != last) visit(op.input(i));
  }
  while (!open.empty()) {
    if (seen.size() > kMostSeen) return false;
    const uint32_t unit = open.back();
    open.pop_back();
    if (unit == group || units_.first(unit).ordered()) return false;
    const uint32_t with = group_of_[unit];
    for (const uint32_t one : with == kNone ? std::vector{unit} : units(with)) {
      for (const uint32_t id : units_.nodes(one)) {
        for (const Value& v : units_.graph().node(id).inputs()) {
          if (units_.of(v) != one) visit(v);
        }
      }
    }
  }
  return true;
}

// ---- what a reduction reads

AnchorGroups::Prologue AnchorGroups::prologue_of(uint32_t reduction) const {
  std::vector<uint32_t> views;
  Value v = anchor(reduction).input(0);
  std::string why;
  for (;;) {
    if (why.empty()) why = units_.why_stored(v);
    const uint32_t unit = units_.of(v);
    if (unit == kNone) return {};
    if (!v.node().has(kView)) break;
    views.insert(views.begin(), unit);
    v = v.node().input(0);
  }
  const uint32_t unit = units_.of(v);
  if (!units_.is_elementwise(unit)) return {};
  const bool single = units_.nodes(unit).size() == 1;
  const bool one_result = units_.outputs(unit).size() == 1 && v.node().types().size() == 1;
  if (group_of_[unit] != kNone) {
    const bool product = is_product(group_of_[unit]);
    why = std::string("it is computed with ") + (product ? "a product" : "another reduction");
  } else if (v.node().has(kMovement) && single) {
    why = "it only moves elements";
  } else if (why.empty() && !one_result) {
    why = "it has other results, too";
  }
  if (!why.empty()) return {kNone, {}, &v.node(), why};
  return {unit, std::move(views), nullptr, ""};
}

void AnchorGroups::find_prologue(uint32_t group) {
  Prologue prologue = prologue_of(group);
  if (prologue.apart != nullptr) tell(*prologue.apart, anchor(group), prologue.why);
  if (prologue.unit == kNone) return;
  Group& g = groups_[group];
  g.prologue = prologue.unit;
  g.views_before = std::move(prologue.views);
}

// ---- reductions that go over the same values

// Joins each reduction with later ones of its kind that read a value of the operands' size which it
// reads, too, so that all of them read it once. They are computed where the first is. A reduction
// that is computed again for its gradient joins none outside of its copied block: its result would
// be kept.
void AnchorGroups::find_siblings() {
  std::unordered_map<uint32_t, uint32_t> prologues;     // by reduction
  std::unordered_map<uint32_t, uint32_t> reduction_of;  // by prologue
  for (const uint32_t reduction : reductions_) {
    const Prologue prologue = prologue_of(reduction);
    const bool plain = prologue.unit != kNone && prologue.views.empty();
    prologues[reduction] = plain ? prologue.unit : kNone;
    if (plain) reduction_of[prologue.unit] = reduction;
  }
  for (const uint32_t first : reductions_) {
    if (group_of_[first] != kNone) continue;
    const uint32_t prologue = prologues.at(first);
    std::set<uint32_t> found;
    for (const Value& v : wide_values(first, prologue)) {
      for (const uint32_t user : units_.users().of(v)) {
        const auto behind = reduction_of.find(user);
        const uint32_t reduction = behind == reduction_of.end() ? user : behind->second;
        const bool joins = reduction > first && is_anchor(reduction) && !is_product(reduction) &&
                           group_of_[reduction] == kNone &&
                           are_siblings(anchor(first), anchor(reduction)) &&
                           same_block(anchor(first), anchor(reduction));
        if (joins) found.insert(reduction);
      }
    }
    join_all({first, prologue}, found, prologues);
  }
  std::erase_if(reductions_, [&](uint32_t reduction) { return group_of_[reduction] != kNone; });
}

// Joins those of the reductions that were found which can be computed where the first is.
void AnchorGroups::join_all(const Sibling& first, const std::set<uint32_t>& found,
                            const std::unordered_map<uint32_t, uint32_t>& prologues) {
  size_t declined = 0, told = 0;
  for (const uint32_t reduction : found) {
    const Sibling sibling{reduction, prologues.at(reduction)};
    if (const Node* between = node_between(first.reduction, sibling)) {
      if (++told <= kMostTold) {
        tell(anchor(first.reduction), anchor(reduction),
             "they are siblings, but " + described(*between) + " comes between them");
      }
    } else if (!join(first, sibling) && ++declined == kMostDeclined) {
      return;
    }
  }
}

// Returns what a reduction and its prologue read that has as many elements as it reduces.
Values AnchorGroups::wide_values(uint32_t reduction, uint32_t prologue) const {
  const Value& operand = anchor(reduction).input(0);
  if (prologue == kNone) return {operand};
  Values wide;
  for (const uint32_t id : units_.nodes(prologue)) {
    for (const Value& v : units_.graph().node(id).inputs()) {
      const bool outside = units_.of(v) != prologue && !holds(wide, v);
      if (outside && v.shape().num_elements() == operand.shape().num_elements()) wide.push_back(v);
    }
  }
  return wide;
}

// Returns what a reduction or its prologue reads that is not there yet when `first` is computed;
// null where all is there, as it is for those that are joined. So joined reductions follow from
// units with smaller numbers than the first has, and what reads them has larger ones: in the order
// of these numbers nothing waits in a circle. That holds beside products with an epilogue, which
// alone uses their result: these count as their epilogue.
const Node* AnchorGroups::node_between(uint32_t first, const Sibling& sibling) const {
  const uint32_t reader = sibling.prologue == kNone ? sibling.reduction : sibling.prologue;
  for (const uint32_t id : units_.nodes(reader)) {
    for (const Value& v : units_.graph().node(id).inputs()) {
      const uint32_t unit = units_.of(v);
      if (unit != kNone && unit != reader && unit >= first) return &v.node();
    }
  }
  return nullptr;
}

// Takes a reduction into the group of the first one. Returns false where the backend declines that.
bool AnchorGroups::join(const Sibling& first, const Sibling& sibling) {
  const uint32_t group = first.reduction;
  groups_[group].prologue = first.prologue;
  groups_[group].siblings.push_back(sibling);
  const Support support = ask(group);
  if (support.supported) {
    for (const uint32_t unit : units(group)) group_of_[unit] = group;
    return true;
  }
  tell(anchor(group), anchor(sibling.reduction), "the backend declines: " + support.reason);
  groups_[group].siblings.pop_back();
  if (groups_[group].siblings.empty())
    groups_.erase(group);
  else
    ask(group);  // which was accepted
  return false;
}

// ---- what the backend takes

FusedParts AnchorGroups::parts(uint32_t group, bool with_prologue, bool with_epilogue) const {
  static const Group kAlone;
  const auto it = groups_.find(group);
  const Group& g = it == groups_.end() ? kAlone : it->second;
  FusedParts parts;
  parts.anchor = &anchor(group);
  const auto add = [&](std::vector<uint32_t>& to, const std::vector<uint32_t>& nodes) {
    for (const uint32_t id : nodes) {
      if (!holds(to, id)) to.push_back(id);
    }
  };
  if (is_product(group)) {
    Values rows;
    for (const Value& v : parts.anchor->inputs()) {
      const auto load = loads_.find(v);
      parts.sources.push_back(load == loads_.end() ? v : load->second.stored());
      if (load == loads_.end()) continue;
      if (const Node* gather = load->second.gather) {
        add(parts.prologue, {gather->id()});
        rows.push_back(gather->input(1));
      }
      add(parts.prologue, load->second.nodes);
    }
    parts.sources.insert(parts.sources.end(), rows.begin(), rows.end());
  } else if (with_prologue && g.prologue != kNone) {
    add(parts.prologue, units_.nodes(g.prologue));
    for (const uint32_t view : g.views_before) add(parts.prologue, units_.nodes(view));
  } else {
    parts.sources = {parts.anchor->input(0)};
  }
  for (const Sibling& sibling : g.siblings) {
    parts.siblings.push_back(&anchor(sibling.reduction));
    if (sibling.prologue != kNone) add(parts.prologue, units_.nodes(sibling.prologue));
  }
  if (!g.siblings.empty()) {
    parts.outputs = {parts.anchor->output()};
    for (const Node* sibling : parts.siblings) parts.outputs.push_back(sibling->output());
    return parts;
  }
  std::vector<uint32_t> units{group};
  if (with_epilogue) units = members(group);
  for (size_t i = 1; i < units.size(); ++i) add(parts.epilogue, units_.nodes(units[i]));
  for (const uint32_t unit : units) {
    for (const Value& v : units_.outputs(unit)) {
      const auto users = units_.users().of(v);
      const bool outside = std::any_of(users.begin(), users.end(),
                                       [&](uint32_t user) { return !holds(units, user); });
      if (outside || units_.users().leaves(v)) parts.outputs.push_back(v);
    }
  }
  return parts;
}

const Support& AnchorGroups::ask(uint32_t group, bool with_prologue, bool with_epilogue) {
  FusedNode& fused = groups_[group].fused;
  fused = bodies_.fuse(units_.graph(), parts(group, with_prologue, with_epilogue));
  return bodies_.ask(fused);
}

void AnchorGroups::decide_product(uint32_t group) {
  const auto it = groups_.find(group);
  if (it == groups_.end()) return;
  Group& g = it->second;
  if (!g.row_wise.empty()) {
    const Support& support = ask(group);
    if (support.supported) return;
    tell(anchor(group), units_.first(g.row_wise.front()),
         "the backend declines: " + support.reason);
    drop_row_wise(group);
  }
  if (g.epilogue != kNone) {
    const Support& support = ask(group);
    if (support.supported) return;
    tell(anchor(group), units_.first(g.epilogue), "the backend declines: " + support.reason);
    drop_epilogue(group);
  }
  if (loads_something(group)) {
    group_of_[group] = group;
    ask(group);  // which was accepted
  } else {
    group_of_[group] = kNone;
    groups_.erase(it);
  }
}

// Fuses as much of it as the backend takes.
void AnchorGroups::decide_reduction(uint32_t group) {
  const auto it = groups_.find(group);
  if (it == groups_.end()) return;
  Group& g = it->second;
  const bool prologue = g.prologue != kNone, epilogue = g.epilogue != kNone;
  const Support& all = ask(group);
  const bool both = !all.supported && prologue && epilogue;
  const bool behind = all.supported ? epilogue : both && ask(group, false, true).supported;
  const bool before =
      all.supported ? prologue : both && !behind && ask(group, true, false).supported;
  const std::string why = all.supported ? "" : "the backend declines: " + all.reason;
  if (prologue && !before) {
    tell(units_.last(g.prologue), anchor(group), why);
    g.prologue = kNone;
    g.views_before.clear();
  }
  if (epilogue && !behind) {
    tell(anchor(group), units_.first(g.epilogue), why);
    drop_epilogue(group);
  }
  if (!before && !behind) {
    group_of_[group] = kNone;
    groups_.erase(it);
    return;
  }
  group_of_[group] = group;
  if (g.prologue != kNone) group_of_[g.prologue] = group;
  for (const uint32_t view : g.views_before) group_of_[view] = group;
}

void AnchorGroups::drop_row_wise(uint32_t group) {
  Group& g = groups_.at(group);
  for (const uint32_t unit : g.row_wise) group_of_[unit] = kNone;
  g.row_wise.clear();
}

void AnchorGroups::drop_epilogue(uint32_t group) {
  Group& g = groups_.at(group);
  for (const uint32_t unit : members(group)) group_of_[unit] = kNone;
  g.epilogue = kNone;
  g.views_behind.clear();
}

// ---- report

void AnchorGroups::tell(const Node& producer, const Node& consumer, const std::string& why) const {
  if (report_ == nullptr) return;
  report_->add(described(producer) + " -> " + described(consumer) + ": " + why, line_of(consumer));
}

// Reports why row-wise ops behind element-wise units stay separate. Those directly behind a product
// were reported when they were matched.
void AnchorGroups::tell_row_wise_apart() const {
  for (uint32_t unit = 0; unit < units_.count(); ++unit) {
    const Node& op = units_.first(unit);
    if (!op.has(kRowWise) || group_of_[unit] != kNone) continue;
    const uint32_t maker = units_.of(op.input(0));
    if (maker == kNone || !units_.is_elementwise(maker) || group_of_[maker] != kNone) continue;
    tell(op.input(0).node(), op, "no product makes these rows");
  }
}

}  // namespace keel
