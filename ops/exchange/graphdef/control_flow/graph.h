// The nodes of one graph or body with their edges as numbers: what functionalise works on. Edges
// may lead back (NextIteration). Whoever converts owns it; one thread.
#ifndef KEEL_OPS_EXCHANGE_GRAPHDEF_CONTROL_FLOW_GRAPH_H
#define KEEL_OPS_EXCHANGE_GRAPHDEF_CONTROL_FLOW_GRAPH_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "keel/ops/exchange/graphdef/control_flow/refusals.h"
#include "keel/ops/exchange/graphdef/file/graph_def.h"
#include "keel/ops/exchange/graphdef/file/values.h"

namespace keel::graphdef {

// Deeper nesting of conditionals and loops is refused: what reads the bodies recurses into them.
constexpr uint32_t kDeepestNesting = 64;

enum class FlowKind : uint8_t {
  kPlain,
  kArgument,
  kSwitch,
  kMerge,
  kEnter,
  kExit,
  kNextIteration,
  kLoopCond,
  kControlTrigger,
};

// Returns the kind, of reference forms (RefSwitch) as well.
FlowKind flow_kind(std::string_view op);
bool is_reference_form(std::string_view op);
// Returns true for ops that change what later steps find, such as variables and queues. What a node
// calls is not looked at.
bool has_effects(std::string_view op);
// Returns true for ops whose second run gives or does something else: effects, what is printed or
// checked, and random numbers.
bool runs_once(std::string_view op);

struct FlowValue {
  uint32_t node = 0;
  uint32_t port = 0;

  uint64_t key() const noexcept { return uint64_t{node} << 32 | port; }
  friend bool operator==(const FlowValue& a, const FlowValue& b) { return a.key() == b.key(); }
};

struct FlowNode {
  NodeDef definition;  // its inputs are those below
  FlowKind kind = FlowKind::kPlain;
  std::vector<FlowValue> inputs;
  std::vector<uint32_t> controls;
  uint32_t frame = 0;
  uint32_t context = 0;   // when it runs, in the contexts of its region
  uint32_t position = 0;  // behind the positions of all that it reads
  uint32_t slot = 0;      // its place in the list that is being ordered
  uint32_t height = 0;    // how deep the bodies of an If or While are nested
  uint32_t entries = 0;   // the inputs of a While that start it, which have to come together
  uint32_t copies = 0;    // the bodies it was written to
  bool pivot = false;     // it only says which way a condition went
  bool index_is_read = false;
  bool runs_once = false;  // an If or While with nodes that run once
};

class FlowGraph {
 public:
  // Reads nodes and what they read. `results` are names of values that count as read.
  FlowGraph(const std::vector<NodeDef>& definitions, const std::vector<std::string>& arguments,
            const std::vector<std::string>& results, Refusals& refusals);

  std::vector<FlowNode> nodes;
  std::vector<FlowValue> results;
  bool malformed = false;  // edges or attributes are missing, so that there is nothing to convert

  FlowNode& operator[](uint32_t node) { return nodes[node]; }
  const FlowNode& operator[](uint32_t node) const { return nodes[node]; }
  const std::string& name(uint32_t node) const { return nodes[node].definition.name; }

  // Adds a node; its name becomes the given one, with a number behind it if that is taken.
  uint32_t add(const std::string& op, const std::string& name);
  uint32_t add_argument(const std::string& name);  // of a body, where names begin anew
  uint32_t add_index(const std::string& name, int64_t value);
  std::string free_name(const std::string& wanted);

  // Lets readers of `from` read `to`, and says what they read.
  void forward(FlowValue from, FlowValue to) { forwarded_[from.key()] = to; }
  void forward_no_more(FlowValue from) { forwarded_.erase(from.key()); }
  FlowValue resolved(FlowValue value) const;

  // Makes a node hand on `values`, which are of the type that the node's attribute T says (a second
  // one is an index).
  void pass_on(uint32_t node, std::vector<FlowValue> values);

  // Returns the nodes, each behind those of the list that it reads; nodes on cycles are refused.
  std::vector<uint32_t> topological_order(const std::vector<uint32_t>& listed, Refusals& refusals);

 private:
  void read_inputs(uint32_t node, Refusals& refusals);
  std::optional<FlowValue> find(const ValueName& name, const std::string& reader,
                                std::string_view text, Refusals& refusals);
  void check(uint32_t node, Refusals& refusals);
  void refuse_malformed(const std::string& node, const std::string& reason, Refusals& refusals);
  void refuse_cycles(const std::vector<uint32_t>& listed, const std::vector<uint32_t>& pending,
                     Refusals& refusals);

  std::unordered_map<std::string, uint32_t> index_;
  std::unordered_map<std::string, uint64_t> taken_;  // and the last number behind the name
  std::unordered_map<uint64_t, FlowValue> forwarded_;
};

}  // namespace keel::graphdef

#endif  // KEEL_OPS_EXCHANGE_GRAPHDEF_CONTROL_FLOW_GRAPH_H
