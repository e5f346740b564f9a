#include "keel/graph/passes/fuse_order.h"

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "keel/graph/autodiff/recompute.h"
#include "keel/graph/control/step_failures.h"
#include "keel/graph/ir/views.h"

namespace keel {
namespace {

// Bounds the time that a long list of groups takes which wait for the end, as behind a norm of all
// gradients.
constexpr size_t kTriedAtOnce = 16;

class FuseOrder {
 public:
  FuseOrder(const FuseUnits& units, const AnchorGroups& groups)
      : units_(units), groups_(groups), placed_(units.count(), false) {
    find_endings();
    for (uint32_t unit = 0; unit < units.count(); ++unit) {
      make_room_for_copies(unit);
      const size_t before = tasks_.size() + waiting_.size();
      visit(unit);
      const bool changed = tasks_.size() + waiting_.size() != before;
      if (changed && !may_still_end()) place_waiting(kTriedAtOnce);
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
    if (unit == group && !placed_[unit]) waiting_.push_back(group);
  }

  void place_unit(uint32_t unit) {
    placed_[unit] = true;
    tasks_.push_back({false, unit});
  }

  void place_group(uint32_t group) {
    for (const uint32_t unit : groups_.units(group)) placed_[unit] = true;
    tasks_.push_back({true, group});
  }

  // Brings forward what the group reads and the order has later.
  void place_product(uint32_t group) {
    for (const uint32_t unit : groups_.units(group)) placed_[unit] = true;
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
      if (is_still_read(v, group)) may = false;
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

  // Says whether others than the group are still to read a state.
  bool is_still_read(const Value& v, uint32_t group) const {
    const Value root = root_of(v);
    return root.node().is(OpRole::kState) && is_read_later(root, group);
  }
  bool is_read_later(const Value& v, uint32_t group) const {
    const auto users = units_.users().of(v);
    return std::any_of(users.begin(), users.end(), [&](uint32_t user) {
      if (groups_.group_of(user) == group) return false;
      if (!is_done(user)) return true;
      const Node& node = units_.first(user);
      return node.has(kView) && is_read_later(node.output(), group);
    });
  }

  // Before a block is computed again, all groups that can come do, so that what one block kept is
  // gone when the next one needs the room, even if a state then has a second buffer.
  void make_room_for_copies(uint32_t unit) {
    const std::string* block = copied_block(units_.first(unit));
    if (block == nullptr || *block == copied_block_) return;
    copied_block_ = *block;
    place_waiting(waiting_.size());
  }

  // A group that waits for its epilogue, mostly an update, keeps alive what its anchor reads, which
  // at first a cache still has. So of the last `most` that wait those come for which nothing but
  // scalars (learning rates) is missing.
  void place_waiting(size_t most) {
    const size_t first = waiting_.size() - std::min(most, waiting_.size());
    size_t left = first;
    for (size_t i = first; i < waiting_.size(); ++i) {
      const uint32_t group = waiting_[i];
      if (placed_[group]) continue;
      if (const std::optional<std::set<uint32_t>> missing = scalars_missing_for(group)) {
        for (const uint32_t scalar : *missing) visit(scalar);
        if (is_product_group(group))
          place_product(group);
        else
          place_group(group);
      } else {
        waiting_[left++] = group;
      }
    }
    waiting_.resize(left);
  }

  void find_endings() {
    const Graph& graph = units_.graph();
    std::vector<bool> live;
    for (const Node& node : graph.nodes()) live.push_back(units_.of(node) != FuseUnits::kNone);
    const StepFailures failures(graph, live);
    for (const uint32_t id : failures.endings()) endings_.push_back(units_.of(graph.node(id)));
    std::sort(endings_.begin(), endings_.end());
  }

  // Says whether what is still to come may end the step: until then, states are not written in
  // place.
  bool may_still_end() {
    while (!endings_.empty() && is_done(endings_.back())) endings_.pop_back();
    return !endings_.empty();
  }

  // Returns what is still to be computed for a group, where that is scalars alone (learning rates);
  // nothing where it is more, or where others are still to read a state that the group reads.
  std::optional<std::set<uint32_t>> scalars_missing_for(uint32_t group) const {
    std::set<uint32_t> missing;
    std::vector<uint32_t> open = groups_.units(group);
    std::set<uint32_t> members(open.begin(), open.end());
    bool scalars = true;
    while (scalars && !open.empty()) {
      const uint32_t unit = open.back();
      open.pop_back();
      for_each_read(unit, [&](const Value& v) {
        const uint32_t needed = units_.of(v);
        if (needed == FuseUnits::kNone) {
          if (members.contains(unit) && is_still_read(v, group)) scalars = false;
          return;
        }
        if (members.contains(needed) || placed_[needed]) return;
        if (groups_.is_loaded(needed)) {  // computed in the group itself
          members.insert(needed);
          open.push_back(needed);
          return;
        }
        if (!missing.insert(needed).second) return;
        if (groups_.group_of(needed) != FuseUnits::kNone ||
            units_.last(needed).type().shape.rank() != 0) {
          scalars = false;
        }
        open.push_back(needed);
      });
    }
    return scalars ? std::optional(missing) : std::nullopt;
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
  std::vector<uint32_t> endings_;  // units that may end the step; those at the end are not done
  std::string copied_block_;       // the last one of which copies were met
};

}  // namespace

std::vector<FusedTask> fuse_order(const FuseUnits& units, const AnchorGroups& groups) {
  return FuseOrder(units, groups).finish();
}

}  // namespace keel
