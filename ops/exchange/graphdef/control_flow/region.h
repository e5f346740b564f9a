// Conditionals of one region (the nodes of a frame, whose inner loops are nodes While already):
// under which conditions each node has a value, and the Merges made outputs of nodes If. One
// thread.
#ifndef KEEL_OPS_EXCHANGE_GRAPHDEF_CONTROL_FLOW_REGION_H
#define KEEL_OPS_EXCHANGE_GRAPHDEF_CONTROL_FLOW_REGION_H

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "keel/ops/exchange/graphdef/control_flow/bodies.h"
#include "keel/ops/exchange/graphdef/control_flow/contexts.h"
#include "keel/ops/exchange/graphdef/control_flow/graph.h"

namespace keel::graphdef {

class Region {
 public:
  Region(FlowGraph& flow, std::vector<uint32_t> members, BodyLibrary& library, Refusals& refusals)
      : flow_(flow), members_(std::move(members)), library_(library), refusals_(refusals) {}

  // Afterwards no Switch is read, and a Merge hands an output of an If on. Nodes that run under
  // conditions are still there, for a loop's condition is one of them. Returns false where
  // something was refused.
  bool convert();

  // Returns the context of a value as it stood, of a Switch's outputs too.
  Context context_of(FlowValue value) const;
  Context context_of(FlowValue condition, bool side);

  // Returns the nodes that run in any case, in an order in which they can.
  std::vector<uint32_t> unconditional() const;

 private:
  // A Merge of two values, of which a condition chooses one.
  struct Choice {
    uint32_t condition = 0;             // its number
    std::array<FlowValue, 2> values{};  // where it is false, and where it is true
    std::array<FlowValue, 2> indices{};
  };
  // An input of a Merge with what its context has beside that of the Merge.
  struct Option {
    std::vector<uint32_t> codes;
    FlowValue value, index;
  };
  // Merges with one condition in one context, which may become one If.
  struct Group {
    std::vector<uint32_t> ready;
    size_t waiting = 0;  // Merges that are not ready, or not yet converted
  };
  using GroupKey = std::pair<uint32_t, Context>;

  // ---- contexts
  void find_context(uint32_t node);
  Context joined_inputs(uint32_t node);
  void find_switch(uint32_t node);
  void find_merge(uint32_t node);
  void choose(uint32_t merge, std::vector<Option> options, Context common);
  std::optional<uint32_t> splitting_condition(const std::vector<Option>& options) const;
  std::optional<Option> decide(uint32_t merge, std::vector<Option> options, Context context,
                               bool is_outermost);
  FlowValue index_value(uint32_t merge, size_t input, Context context);
  void check_entries(uint32_t node);
  void note_identity(uint32_t node);
  void drop_controls(uint32_t node);
  uint32_t condition_number(FlowValue condition);
  FlowValue root(FlowValue value) const;
  void append(uint32_t node, Context context);
  bool runs(uint32_t node) const;

  // ---- nodes If
  void schedule();
  template <class Visit>
  void each_source(uint32_t node, const Visit& visit) const;
  void make_if(GroupKey key, const std::vector<uint32_t>& merges);
  std::vector<FlowValue> results_of(const std::vector<uint32_t>& merges, bool side) const;

  FlowGraph& flow_;
  std::vector<uint32_t> members_;
  BodyLibrary& library_;
  Refusals& refusals_;

  Contexts contexts_;
  std::vector<uint32_t> order_;
  std::vector<FlowValue> conditions_;  // by number: a value that has no Identity in front of it
  std::unordered_map<uint64_t, uint32_t> condition_numbers_;
  std::unordered_map<uint32_t, FlowValue> roots_;  // of nodes Identity
  std::unordered_map<uint32_t, std::array<Context, 2>> switch_contexts_;
  std::unordered_map<uint32_t, Choice> choices_;  // of Merges
};

}  // namespace keel::graphdef

#endif  // KEEL_OPS_EXCHANGE_GRAPHDEF_CONTROL_FLOW_REGION_H
