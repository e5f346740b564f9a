// Writes parts of a graph as bodies of If and While: which nodes a body needs, what it takes from
// outside, and the nodes as a GraphDef has them. Whoever converts owns it; one thread.
#ifndef KEEL_OPS_EXCHANGE_GRAPHDEF_CONTROL_FLOW_BODIES_H
#define KEEL_OPS_EXCHANGE_GRAPHDEF_CONTROL_FLOW_BODIES_H

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "keel/ops/exchange/graphdef/control_flow/graph.h"

namespace keel::graphdef {

// The values that the bodies of one If or While take from outside, in the order in which they were
// met.
class Captures {
 public:
  void add(FlowValue value);
  void add_control(uint32_t node);

  const std::vector<FlowValue>& values() const noexcept { return values_; }
  const std::vector<uint32_t>& controls() const noexcept { return controls_; }

  // Returns the arguments' names: those of the nodes where that says it all.
  std::vector<std::string> name_arguments(FlowGraph& flow);
  const std::string* argument(FlowValue value) const;

 private:
  std::vector<FlowValue> values_;
  std::vector<uint32_t> controls_;
  std::unordered_map<uint64_t, std::string> names_;  // of the arguments
  std::unordered_set<uint32_t> known_controls_;
};

struct BodyParts {
  std::vector<uint32_t> nodes;  // in an order in which they can run
  std::vector<FlowValue> results;
};

// Returns the nodes for which `is_inside` holds that `results` depend on; `captures` gets what else
// they read.
BodyParts collect(const FlowGraph& flow, const std::vector<FlowValue>& results,
                  const std::function<bool(uint32_t)>& is_inside, Captures& captures);

// Visits the names by which a node may call bodies: its op, and those that its attributes have.
void for_each_call(const NodeDef& node, const std::function<void(const std::string&)>& visit);

// Returns the names of the bodies that lists of nodes call, be it in each other. Bodies for which
// `is_meant` does not hold are neither returned nor looked into.
std::unordered_set<std::string> called_bodies(
    const std::map<std::string, Body>& bodies, std::vector<const std::vector<NodeDef>*> lists,
    const std::function<bool(const std::string&)>& is_meant);

void remove_uncalled_bodies(GraphDef& graph);

// The bodies that a conversion makes.
class BodyLibrary {
 public:
  BodyLibrary(std::map<std::string, Body>& bodies, size_t nodes_of_graph);

  // Writes a body, and returns the attribute that names it. `maker` is the If or While.
  AttrValue add(FlowGraph& flow, uint32_t maker, const std::string& wanted, const BodyParts& parts,
                const std::vector<std::string>& arguments, const Captures& captures,
                Refusals& refusals);

  // Returns the names of its bodies that lists of nodes need, be it in each other.
  std::unordered_set<std::string> needed_by(std::vector<const std::vector<NodeDef>*> lists) const;

  // Takes those away again that neither `nodes` nor bodies need which were there before.
  void remove_unused(const std::vector<NodeDef>& nodes);

 private:
  std::map<std::string, Body>& bodies_;
  std::unordered_map<std::string, uint64_t> last_number_;
  std::unordered_set<std::string> added_;
  size_t nodes_left_;
};

// Returns the nodes as a graph or body has them. An edge to none of them that only orders is left
// out; a value of none of them is one of the captures.
std::vector<NodeDef> write_nodes(const FlowGraph& flow, const std::vector<uint32_t>& nodes,
                                 const Captures& captures);

}  // namespace keel::graphdef

#endif  // KEEL_OPS_EXCHANGE_GRAPHDEF_CONTROL_FLOW_BODIES_H
