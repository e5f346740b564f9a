// AnchorGroups: which units are computed together with a product or a reduction. Of a product: how
// its operands are loaded (rows that are gathered, element-wise ops of one variable), an
// element-wise unit that alone uses it, then row-wise nodes on either. Of a reduction: its siblings
// that go over the same values, each with the unit that computes what it reduces; of one without
// siblings that unit, and the one that alone uses the result, with views in between.
// Products choose their epilogues before reductions are joined, and reductions before products take
// rows; later anchors choose before earlier ones: a cluster that could follow several anchors then
// follows the last, whose result is still in cache. The backend says which of it pays. Reads
// the graph, changes nothing. One thread.
#ifndef KEEL_GRAPH_PASSES_FUSE_ANCHORS_H
#define KEEL_GRAPH_PASSES_FUSE_ANCHORS_H

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "keel/graph/passes/fuse_body.h"
#include "keel/graph/passes/fuse_units.h"
#include "keel/graph/passes/passes.h"
#include "keel/graph/passes/shared_bodies.h"

namespace keel {

class AnchorGroups {
 public:
  static constexpr uint32_t kNone = FuseUnits::kNone;

  // REQUIRES that all outlive this. What stays apart is told to `report`, if there is one.
  AnchorGroups(const FuseUnits& units, SharedBodies& bodies, FuseReport* report);

  // Units go by their numbers, groups by their anchor's.

  // Returns the group that the unit is in, or is the anchor of; kNone where it is computed by
  // itself.
  uint32_t group_of(uint32_t unit) const { return group_of_[unit]; }
  // Returns whether the unit is no task of its own, nor in one group: the products that use its
  // values compute them as they load them.
  bool is_loaded(uint32_t unit) const { return loaded_[unit]; }
  // Returns whether products compute this value as they load it.
  bool is_loaded(const Value& v) const { return loads_.contains(v); }
  // Returns whether several reductions are computed together in the group.
  bool has_siblings(uint32_t group) const {
    const auto it = groups_.find(group);
    return it != groups_.end() && !it->second.siblings.empty();
  }
  // Returns the units of a group whose values leave it: its anchor, its siblings, its epilogue.
  std::vector<uint32_t> members(uint32_t group) const;
  // Returns all units that are computed in no other task: those, and what computes a reduction's
  // operand.
  std::vector<uint32_t> units(uint32_t group) const;
  const FusedNode& fused(uint32_t group) const { return groups_.at(group).fused; }

 private:
  struct Sibling {
    uint32_t reduction = kNone;
    uint32_t prologue = kNone;  // the unit that computes what it alone reduces
  };
  struct Group {
    uint32_t prologue = kNone;           // of a reduction
    std::vector<Sibling> siblings;       // reductions behind the group's anchor
    std::vector<uint32_t> views_before;  // between that and the reduction
    std::vector<uint32_t> views_behind;  // between the reduction and its epilogue
    uint32_t epilogue = kNone;
    std::vector<uint32_t> row_wise;
    FusedNode fused;  // what the backend was asked last
  };
  // Holds the unit that computes what a reduction alone reads, with the views between them; or the
  // node before the reduction, and why it stays apart.
  struct Prologue {
    uint32_t unit = kNone;
    std::vector<uint32_t> views;
    const Node* apart = nullptr;
    std::string why;
  };
  // Says how a product computes an operand from `source`.
  struct Load {
    Value source;
    std::vector<uint32_t> nodes;
    const Node* gather = nullptr;  // the node that would gather the source's rows
    Value stored() const { return gather == nullptr ? source : gather->input(0); }
  };

  const Node& anchor(uint32_t unit) const { return units_.first(unit); }
  bool is_product(uint32_t unit) const { return anchor(unit).has(kProduct) && is_anchor(unit); }
  bool is_anchor(uint32_t unit) const;

  std::string find_epilogue(uint32_t group);
  bool find_row_wise(uint32_t group);
  bool stands_beside(const Node& op, uint32_t last, uint32_t group) const;
  Prologue prologue_of(uint32_t reduction) const;
  void find_prologue(uint32_t group);

  void find_siblings();
  Values wide_values(uint32_t reduction, uint32_t prologue) const;
  void join_all(const Sibling& first, const std::set<uint32_t>& found,
                const std::unordered_map<uint32_t, uint32_t>& prologues);
  const Node* node_between(uint32_t first, const Sibling& sibling) const;
  bool join(const Sibling& first, const Sibling& sibling);

  void find_loads();
  std::optional<Load> load_of(const Value& v) const;
  bool only_products_use(const Value& v) const;
  bool loads_something(uint32_t group) const;
  void drop_refused_loads();
  Values refused_loads(uint32_t product);
  void gather_loaded_rows();
  void mark_loaded();

  FusedParts parts(uint32_t group, bool with_prologue, bool with_epilogue) const;
  const Support& ask(uint32_t group, bool with_prologue = true, bool with_epilogue = true);
  void decide_product(uint32_t group);
  void decide_reduction(uint32_t group);
  void drop_epilogue(uint32_t group);
  void drop_row_wise(uint32_t group);

  void tell(const Node& producer, const Node& consumer, const std::string& why) const;
  void tell_row_wise_apart() const;

  const FuseUnits& units_;
  SharedBodies& bodies_;
  FuseReport* report_;
  std::vector<uint32_t> products_, reductions_;
  std::unordered_map<uint32_t, Group> groups_;
  std::vector<uint32_t> group_of_;                    // by unit
  std::unordered_map<Value, Load, ValueHash> loads_;  // by what products read
  std::vector<bool> loaded_;                          // by unit
};

}  // namespace keel

#endif  // KEEL_GRAPH_PASSES_FUSE_ANCHORS_H
