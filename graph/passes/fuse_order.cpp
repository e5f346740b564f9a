#include "keel/graph/passes/fuse_order.h"

#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "keel/graph/autodiff/recompute.h"
#include "keel/graph/control/step_failures.h"
#include "keel/graph/ir/views.h"

namespace keel {
namespace {

class FuseOrder {
 public:
  FuseOrder(const FuseUnits& units, const AnchorGroups& groups)
      : units_(units), groups_(groups), placed_(units.count(), false) {
    find_next_values();
    if (!next_values_.empty()) find_endings();
    for (uint32_t unit = 0; unit < units.count(); ++unit) {
      make_room_for_copies(unit);
      visit(unit);
      place_ready_updates();
    }
  }

  std::vector<FusedTask> finish() { return std::move(tasks_); }

 private:
  bool is_product_group(uint32_t group) const {
    return group != FuseUnits::kNone && units_.first(group).has(kProduct);
  }

  void visit(uint32_t unit) {
    if (placed_[unit] || groups_.is_loaded(unit)) return;
    const uint32_t group = groups_.group_of(unit);
    if (group == FuseUnits::kNone) return place_unit(unit);
    if (is_product_group(group)) {
      // It comes where its epilogue begins, or at the product where others may use that before.
      const Values& outputs = groups_.fused(group).outputs;
      const Value product = units_.first(group).output();
      const bool leaves = std::find(outputs.begin(), outputs.end(), product) != outputs.end();
      if (unit != group || leaves) place_product(group);
    } else if (groups_.has_siblings(group)) {
      if (unit == group) place_group(group);  // all that they read comes before the first of them
    } else {
      const std::vector<uint32_t> members = groups_.members(group);
      const bool is_last = unit == members.back();
      if (is_last || (unit == group && may_come_now(group, members))) place_group(group);
    }
    if (unit != group || placed_[unit]) return;
    waiting_.push_back(group);
    if (is_update(group)) ready_.push_back(group);
  }

  void place_unit(uint32_t unit) {
    set_placed(unit);
    tasks_.push_back({false, unit});
  }

  void set_placed(uint32_t unit) {
    placed_[unit] = true;
    const auto it = blocked_.find(unit);
    if (it == blocked_.end()) return;
    ready_.insert(ready_.end(), it->second.begin(), it->second.end());
    blocked_.erase(it);
  }

  void place_group(uint32_t group) {
    for (const uint32_t unit : groups_.units(group)) set_placed(unit);
    tasks_.push_back({true, group});
  }

  // Brings forward what the group reads and the order has later.
  void place_product(uint32_t group) {
    for (const uint32_t unit : groups_.units(group)) set_placed(unit);
    for (const uint32_t needed : missing_for(group)) {
      const uint32_t other = groups_.group_of(needed);
      if (!is_product_group(other))
        visit(needed);
      else if (!placed_[needed])
        place_product(other);
    }
    tasks_.push_back({true, group});
  }

  // Returns the units that a product's group waits for, but for what other products' groups bring
  // forward themselves.
  std::set<uint32_t> missing_for(uint32_t group) const {
    std::set<uint32_t> missing;
    std::vector<uint32_t> open = groups_.units(group);
    while (!open.empty()) {
      const uint32_t unit = open.back();
      open.pop_back();
      for_each_read(unit, [&](const Value& v) {
        const uint32_t needed = units_.of(v);
        if (needed == FuseUnits::kNone || needed == unit || placed_[needed]) return;
        if (!missing.insert(needed).second) return;
        const uint32_t other = groups_.group_of(needed);
        if (is_product_group(other)) return;
        open.push_back(needed);
        if (other == FuseUnits::kNone || !groups_.has_siblings(other)) return;
        for (const uint32_t beside : groups_.units(other)) {
          if (missing.insert(beside).second) open.push_back(beside);
        }
      });
    }
    return missing;
  }

  // Returns whether a reduction's epilogue can be computed where the reduction is. That is where it
  // is put, since what is reduced is mostly larger than what comes of it and need not live on; but
  // not where others are still to read a state that it reads: its next value may be what is
  // computed here.
  bool may_come_now(uint32_t group, std::span<const uint32_t> members) const {
    bool may = true;
    for_each_read(members.back(), [&](const Value& v) {
      const uint32_t unit = units_.of(v);
      const bool is_member = std::find(members.begin(), members.end(), unit) != members.end();
      if (unit != FuseUnits::kNone && !is_member && !placed_[unit]) may = false;
      if (later_reader_of_state(v, group) != FuseUnits::kNone) may = false;
    });
    return may;
  }

  // Returns whether all tasks that compute the unit are placed.
  bool is_done(uint32_t unit) const {
    if (!groups_.is_loaded(unit)) return placed_[unit];
    for (const Value& v : units_.outputs(unit)) {
      for (const uint32_t user : units_.users().of(v)) {
        if (!is_done(user)) return false;
      }
    }
    return true;
  }

  // Where the value shows a state, returns the last unit outside of the group that is still to read
  // that; else, or where there is none, kNone.
  uint32_t later_reader_of_state(const Value& v, uint32_t group) const {
    const Value root = root_of(v);
    return root.node().is(OpRole::kState) ? later_reader(root, group) : FuseUnits::kNone;
  }
  // Returns the last unit that others than the group have yet to compute of those that read the
  // value, or its views; kNone where all are done.
  uint32_t later_reader(const Value& v, uint32_t group) const {
    const auto users = units_.users().of(v);
    for (auto user = users.rbegin(); user != users.rend(); ++user) {
      if (groups_.group_of(*user) == group) continue;
      if (!is_done(*user)) return open_unit(*user);
      const Node& node = units_.first(*user);
      if (!node.has(kView)) continue;
      const uint32_t reader = later_reader(node.output(), group);
      if (reader != FuseUnits::kNone) return reader;
    }
    return FuseUnits::kNone;
  }
  // Returns the unit to wait for where `unit` is not done: itself, or of one that is loaded a user.
  uint32_t open_unit(uint32_t unit) const {
    if (!groups_.is_loaded(unit)) return unit;
    for (const Value& v : units_.outputs(unit)) {
      for (const uint32_t user : units_.users().of(v)) {
        if (!is_done(user)) return open_unit(user);
      }
    }
    return unit;
  }

  // A group that waits for its epilogue, mostly an update, keeps alive what its anchor reads.
  // Before a block is computed again, the groups that can come do, so that what one block kept is
  // gone when the next one needs the room, even if a state then has a second buffer.
  void make_room_for_copies(uint32_t unit) {
    const std::string* block = copied_block(units_.first(unit));
    if (block == nullptr || *block == copied_block_) return;
    copied_block_ = *block;
    std::erase_if(waiting_, [&](uint32_t group) {
      return placed_[group] || place_unless_blocked(group) == FuseUnits::kNone;
    });
  }

  // An update comes as soon as it can: its product's operands are still in the caches then, and
  // live no longer. Not before what may end the step, since a state would need a second buffer. One
  // that is blocked is tried again when what blocks it is placed.
  void place_ready_updates() {
    while (!ready_.empty()) {
      const std::vector<uint32_t> groups = std::exchange(ready_, {});
      for (const uint32_t group : groups) {
        if (placed_[group]) continue;
        uint32_t blocker = next_ending();
        if (blocker == FuseUnits::kNone) blocker = place_unless_blocked(group);
        if (blocker != FuseUnits::kNone) blocked_[blocker].push_back(group);
      }
    }
  }

  bool is_update(uint32_t group) const {
    const std::vector<uint32_t> members = groups_.members(group);
    return std::any_of(members.begin(), members.end(),
                       [&](uint32_t unit) { return next_values_.contains(unit); });
  }

  void find_next_values() {
    for (const Assignment& a : units_.graph().updates()) {
      const uint32_t unit = units_.of(a.next);
      if (unit != FuseUnits::kNone) next_values_.insert(unit);
    }
  }

  void find_endings() {
    const Graph& graph = units_.graph();
    std::vector<bool> live;
    for (const Node& node : graph.nodes()) live.push_back(units_.of(node) != FuseUnits::kNone);
    const StepFailures failures(graph, live);
    for (const uint32_t id : failures.endings()) endings_.push_back(units_.of(graph.node(id)));
    std::sort(endings_.begin(), endings_.end());
  }

  // Returns a unit that may end the step and is still to come; kNone where there is none.
  uint32_t next_ending() {
    while (!endings_.empty() && is_done(endings_.back())) endings_.pop_back();
    return endings_.empty() ? FuseUnits::kNone : open_unit(endings_.back());
  }

  // Places a group for which nothing but scalars (learning rates) is still to be computed, these
  // first, unless others have yet to read a state that it reads. Returns the unit that it waits
  // for; kNone where it is placed.
  uint32_t place_unless_blocked(uint32_t group) {
    const auto known = waits_for_.find(group);
    if (known != waits_for_.end() && !is_done(known->second)) return known->second;
    std::set<uint32_t> missing;
    const uint32_t blocker = find_missing_scalars(group, missing);
    if (blocker != FuseUnits::kNone) {
      waits_for_[group] = blocker;
      for (const uint32_t scalar : missing) waits_for_[scalar] = blocker;
      return blocker;
    }
    for (const uint32_t scalar : missing) visit(scalar);
    if (is_product_group(group))
      place_product(group);
    else
      place_group(group);
    return FuseUnits::kNone;
  }

  uint32_t find_missing_scalars(uint32_t group, std::set<uint32_t>& missing) const {
    std::vector<uint32_t> open = groups_.units(group);
    std::set<uint32_t> members(open.begin(), open.end());
    uint32_t blocker = FuseUnits::kNone;
    while (blocker == FuseUnits::kNone && !open.empty()) {
      const uint32_t unit = open.back();
      open.pop_back();
      for_each_read(unit, [&](const Value& v) {
        if (blocker != FuseUnits::kNone) return;
        const uint32_t needed = units_.of(v);
        if (members.contains(unit)) blocker = later_reader_of_state(v, group);
        if (blocker != FuseUnits::kNone || needed == FuseUnits::kNone) return;
        if (members.contains(needed) || placed_[needed]) return;
        if (groups_.is_loaded(needed)) {  // computed in the group itself
          members.insert(needed);
          open.push_back(needed);
          return;
        }
        const auto known = waits_for_.find(needed);
        if (known != waits_for_.end() && !is_done(known->second)) {
          blocker = known->second;
          return;
        }
        if (groups_.group_of(needed) != FuseUnits::kNone ||
            units_.last(needed).type().shape.rank() != 0) {
          blocker = needed;
        } else if (missing.insert(needed).second) {
          open.push_back(needed);
        }
      });
    }
    return blocker;
  }

  // Calls f with each value that the nodes of a unit read.
  template <class F>
  void for_each_read(uint32_t unit, const F& f) const {
    for (const uint32_t id : units_.nodes(unit)) {
      for (const Value& v : units_.graph().node(id).inputs()) f(v);
    }
  }

  const FuseUnits& units_;
  const AnchorGroups& groups_;
  std::vector<FusedTask> tasks_;
  std::vector<bool> placed_;       // by unit
  std::vector<uint32_t> waiting_;  // groups whose anchor was met and whose epilogue was not
  std::unordered_set<uint32_t> next_values_;  // units that make the next value of a state
  std::vector<uint32_t> endings_;  // units that may end the step; those at the end are not done
  std::vector<uint32_t> ready_;    // updates to look at
  std::unordered_map<uint32_t, std::vector<uint32_t>> blocked_;  // by the unit that blocks them
  // By group, or scalar in no group: the unit that it was found to wait for.
  std::unordered_map<uint32_t, uint32_t> waits_for_;
  std::string copied_block_;  // the last one of which copies were met
};

}  // namespace

std::vector<FusedTask> fuse_order(const FuseUnits& units, const AnchorGroups& groups) {
  return FuseOrder(units, groups).finish();
}

}  // namespace keel
