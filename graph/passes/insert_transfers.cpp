#include <algorithm>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "keel/graph/ir/fused_body.h"
#include "keel/graph/ir/op_table.h"
#include "keel/graph/ir/rewriter.h"
#include "keel/graph/ir/transfer.h"
#include "keel/graph/passes/passes.h"

namespace keel {
namespace {

enum class Memory : uint8_t { kDevice, kHost, kBoth };

// A loop or a branch in whose bodies the policy placed a node was moved to the host whole.
bool is_region_on_host(const Node& node) {
  return !is_fused_node(node) && placed_by_policy_in(node) != nullptr;
}

class Transfers {
 public:
  // Inputs and outputs of the graph are in `around`: those of a body are where its region is.
  Transfers(const Graph& from, Graph& to, Memory around)
      : from_(from), to_(to), around_(around), rewriter_(from, to), memory_(from) {}

  void run() {
    for (const Value& input : from_.inputs()) {
      rewriter_.clone(input.node());
      memory_[input] = around_;
    }
    const std::vector<bool> live = live_nodes(from_);
    for (const Node& node : from_.nodes()) {
      if (live[node.id()] && !node.is(OpRole::kInput)) copy(node);
    }
    Values outputs;
    for (const Value& output : from_.outputs()) outputs.push_back(in(around_, output));
    to_.set_outputs(std::move(outputs));
    for (const Assignment& update : from_.updates())
      to_.add_update(rewriter_(update.state), in(Memory::kDevice, update.next));
  }

 private:
  void copy(const Node& node) {
    if (node.has(kSource | kView) || node.is(OpRole::kToken)) {
      rewriter_.clone(node);
      const bool everywhere = node.is(OpRole::kConstant);
      remember(node, node.has(kView) ? memory_[node.input(0)]
                     : everywhere    ? Memory::kBoth
                                     : Memory::kDevice);
      return;
    }
    const bool region = is_region_on_host(node) || (around_ == Memory::kHost &&
                                                    !node.bodies().empty() && !is_fused_node(node));
    const Memory own = region || works_on_host(node) ? Memory::kHost : Memory::kDevice;
    Values operands;
    for (const Value& operand : node.data_inputs()) operands.push_back(in(own, operand));
    std::vector<std::shared_ptr<Graph>> bodies = node.bodies();
    if (region) {
      for (auto& body : bodies) {
        auto moved = std::make_shared<Graph>(body->ops());
        Transfers(*body, *moved, Memory::kHost).run();
        body = std::move(moved);
      }
    }
    rewriter_.clone(node, std::move(operands), node.attributes(), std::move(bodies));
    remember(node, own);
  }

  // A node that a HostScope placed works wherever its operands are, so that nothing is copied for
  // it.
  bool works_on_host(const Node& node) {
    if (is_placed_by_policy(node)) return true;
    const auto is_there = [&](const Value& v) { return memory_[v] != Memory::kDevice; };
    const NodeList<Value> operands = node.data_inputs();
    return is_on_host(node) && !operands.empty() &&
           std::all_of(operands.begin(), operands.end(), is_there);
  }

  void remember(const Node& node, Memory memory) {
    for (size_t i = 0; i < node.data_types().size(); ++i) memory_[node.output(i)] = memory;
  }

  // Returns the new value for an old one, copied where it is in the other memory.
  Value in(Memory memory, const Value& old) {
    if (memory_[old] == Memory::kBoth || memory_[old] == memory) return rewriter_(old);
    const auto [entry, fresh] = copies_.emplace(old, Value());
    if (fresh) {
      const OpDef& op = from_.ops().at("transfer");
      const std::string to = memory == Memory::kHost ? kToHost : kToDevice;
      const Node& made =
          to_.add(op, {rewriter_(old)}, op.attributes->parse({{"to", to}}), old.node().site());
      to_.relabel(made, label_of_copy(old.node(), memory));
      entry->second = made.output();
    }
    return entry->second;
  }

  // A copy belongs to the scope of what it copies, and to no place. Profiles show it by its name.
  static NodeLabelPtr label_of_copy(const Node& node, Memory memory) {
    NodeLabel label;
    if (node.shared_label() != nullptr) label.scope = node.shared_label()->scope;
    label.name = memory == Memory::kHost ? "D2H" : "H2D";
    return std::make_shared<const NodeLabel>(std::move(label));
  }

  const Graph& from_;
  Graph& to_;
  const Memory around_;
  Rewriter rewriter_;
  ValueTable<Memory> memory_;
  std::unordered_map<Value, Value, ValueHash> copies_;
};

}  // namespace

std::unique_ptr<Graph> insert_transfers(const Graph& graph) {
  const auto& nodes = graph.nodes();
  const bool any = std::any_of(nodes.begin(), nodes.end(), [](const Node& node) {
    return is_placed_by_policy(node) || is_region_on_host(node);
  });
  if (!any) return nullptr;
  auto result = std::make_unique<Graph>(graph.ops());
  Transfers(graph, *result, Memory::kDevice).run();
  return result;
}

}  // namespace keel
