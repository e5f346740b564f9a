// BodyPlan: what the body of a `fused` node would hold, from nodes of the graph that is fused.
// Layers that repeat have equal plans, so one body serves them all and is made once
// (shared_bodies.h). Reads the graph, changes nothing. A plan must not outlive its graph. One
// thread.
#ifndef KEEL_GRAPH_PASSES_FUSE_BODY_H
#define KEEL_GRAPH_PASSES_FUSE_BODY_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <span>
#include <unordered_map>
#include <vector>

#include "keel/graph/ir/graph.h"

namespace keel {

// Node ids, each behind those that it reads. A prologue node may also be computed elsewhere.
struct FusedParts {
  Values sources;  // what the anchor's operands are made from: the body's first inputs
  std::vector<uint32_t> prologue;
  const Node* anchor = nullptr;       // null in a cluster, which is an epilogue alone
  std::vector<const Node*> siblings;  // of a reduction; the prologue is that of all
  std::vector<uint32_t> epilogue;
  Values outputs;
};

struct FusedNode {
  std::shared_ptr<Graph> body;
  Values inputs;   // of the graph, paired with the body's
  Values outputs;  // of the graph, paired with the body's
  CallSite site;
  NodeLabelPtr label;  // the members' labels, and what these have in common
};

class BodyPlan {
 public:
  // Scalar constants are copied into the body, except where the anchor or a row-wise node reads
  // them: those take their operands from memory.
  BodyPlan(const Graph& from, const FusedParts& parts);
  BodyPlan(const BodyPlan&) = delete;
  BodyPlan& operator=(const BodyPlan&) = delete;

  // Hashes what most often differs between bodies.
  size_t hash() const;
  // Returns whether a body, made by another plan, has the nodes that this one would make, their
  // lines and scoped attributes included.
  bool matches(const Graph& body) const;
  std::shared_ptr<Graph> make() const;
  // Returns the node of the planned parts. REQUIRES a body that matches.
  FusedNode node_with(std::shared_ptr<Graph> body) const;

 private:
  // A value of the body.
  struct Place {
    uint32_t node = 0;
    uint32_t output = 0;
    bool operator==(const Place&) const = default;
  };
  // A node of the body: an input, which stands for a value of the graph, or a copy of a node.
  struct Planned {
    const Node* from = nullptr;  // the node that is copied, or that makes the input's value
    bool is_input = false;
    uint32_t output = 0;  // the number of the input's value
    uint32_t first_operand = 0;
    uint32_t operand_count = 0;
    // Has the scoped attributes that the copy keeps; null where there are none.
    NodeLabelPtr marks = nullptr;

    const Type& type() const { return from->type(output); }
  };
  using Places = std::pmr::unordered_map<Value, Place, ValueHash>;  // of values of the graph

  void copy(const Node& node, const Places& read, Places& made);
  const Planned* equal_node(const Node& node, std::span<const Place> operands) const;
  Place input(const Value& v);
  Place constant(const Value& v);
  Place add(Planned planned, std::span<const Place> operands);
  bool matches(const Planned& planned, const Node& node) const;
  std::span<const Place> operands_of(const Planned& planned) const {
    return {operands_.data() + planned.first_operand, planned.operand_count};
  }
  NodeLabelPtr label() const;

  const Graph& from_;
  bool has_siblings_;
  CallSite site_;
  Values inputs_, outputs_;  // of the graph
  // Plans are made by the thousand, most of them of a few nodes.
  std::array<std::byte, 4096> room_;
  std::pmr::monotonic_buffer_resource memory_{room_.data(), room_.size()};
  std::pmr::vector<Planned> nodes_{&memory_};
  std::pmr::vector<Place> operands_{&memory_};  // of all nodes
  std::pmr::vector<Place> results_{&memory_};
  Places stand_ins_{&memory_};  // inputs and constants of the body
};

}  // namespace keel

#endif  // KEEL_GRAPH_PASSES_FUSE_BODY_H
