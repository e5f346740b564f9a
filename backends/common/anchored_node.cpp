#include "keel/backends/common/anchored_node.h"

#include <algorithm>
#include <cstddef>
#include <memory_resource>
#include <numeric>

#include "keel/backends/common/uses.h"
#include "keel/graph/ir/rewriter.h"

namespace keel {
namespace {

using Part = FusedBody::Part;

std::optional<size_t> number_in(const Values& values, const Value& v) {
  const auto it = std::find(values.begin(), values.end(), v);
  if (it == values.end()) return std::nullopt;
  return static_cast<size_t>(it - values.begin());
}

// Copies nodes of a body in their order, and the constants that they read.
void clone_nodes(const std::vector<const Node*>& nodes, Rewriter& rewriter) {
  for (const Node* node : nodes) {
    for (const Value& v : node->inputs()) {
      if (v.node().is(OpRole::kConstant) && !rewriter.mapped(v)) rewriter.clone(v.node());
    }
    rewriter.clone(*node);
  }
}

}  // namespace

AnchoredNode::AnchoredNode(const Node& node) : node_(node), anchor_(&node) {
  find_anchor();
  if (!is_product()) return;
  why_no_matrices_ = keel::why_no_matrices(*anchor_);
  if (why_no_matrices_.empty()) matrices_ = product_matrices(*anchor_);
}

void AnchoredNode::find_anchor() {
  if (!is_fused_node(node_)) {
    if (!is_anchor(node_)) return;
    prologue_inputs_.resize(node_.inputs().size());
    std::iota(prologue_inputs_.begin(), prologue_inputs_.end(), size_t{0});
    return;
  }
  parts_ = FusedBody(body());
  if (parts_.anchor == nullptr) return;
  anchor_ = parts_.anchor;
  const Values& outputs = body().outputs();
  has_epilogue_ =
      parts_.siblings.empty() && (!parts_.epilogue.empty() || !parts_.row_wise.empty() ||
                                  outputs.size() != 1 || outputs[0] != anchor_->output());
  const size_t operands = anchor_->inputs().size() + parts_.siblings.size();
  sources_.reserve(operands);
  for (size_t i = 0; i < operands; ++i) sources_.push_back(source_of(operand(i)));
  find_inputs();
}

const Value& AnchoredNode::operand(size_t i) const {
  const size_t of_anchor = anchor_->inputs().size();
  return i < of_anchor ? anchor_->input(i) : parts_.siblings.at(i - of_anchor)->input(0);
}

bool AnchoredNode::is_elementwise() const noexcept {
  return node_.has(kElementwise) || (is_fused_node(node_) && !is_fused());
}

std::optional<size_t> AnchoredNode::source(size_t operand) const {
  return is_fused() ? sources_.at(operand).stored : operand;
}

std::optional<size_t> AnchoredNode::row_numbers_of(size_t operand) const {
  return is_fused() ? sources_.at(operand).row_numbers : std::nullopt;
}

bool AnchoredNode::has_prologue(size_t operand) const {
  return is_fused() && parts_.part_of(root_of(this->operand(operand))) == Part::kPrologue;
}

size_t AnchoredNode::computed_operands() const {
  size_t computed = 0;
  for (size_t i = 0; i < reductions(); ++i) computed += has_prologue(i) ? 1 : 0;
  return computed;
}

bool AnchoredNode::is_cast(size_t operand) const {
  const Node& last = this->operand(operand).node();
  return has_prologue(operand) && last.has(kConversion) && last.input(0).node().is(OpRole::kInput);
}

std::optional<size_t> AnchoredNode::input_number(const Value& inner) const {
  return number_in(body().inputs(), inner);
}

std::optional<size_t> AnchoredNode::output_number(const Value& inner) const {
  return number_in(body().outputs(), inner);
}

AnchoredNode::Source AnchoredNode::source_of(const Value& operand) const {
  struct Step {
    Value value;
    bool gathered;  // whether its rows are taken on the way to the operand
  };
  // Nodes are looked at by the ten thousand while a graph is compiled, and most bodies are small.
  alignas(std::max_align_t) std::byte room[1024];
  std::pmr::monotonic_buffer_resource memory(room, sizeof(room));
  const std::pmr::vector<bool> none(body().size(), false, &memory);
  std::pmr::vector<bool> seen[2] = {{none, &memory}, {none, &memory}};
  std::pmr::vector<Step> open({{operand, false}}, &memory);
  std::pmr::vector<Value> stored(&memory), numbers(&memory);
  bool known = true, as_stored = false;
  while (!open.empty()) {
    const auto [v, gathered] = open.back();
    const Node& node = v.node();
    open.pop_back();
    if (seen[gathered][node.id()] || node.is(OpRole::kConstant)) continue;
    seen[gathered][node.id()] = true;
    if (node.has(kSource)) {
      if (std::find(stored.begin(), stored.end(), v) == stored.end()) stored.push_back(v);
      as_stored = as_stored || !gathered;
    } else if (is_gather(node)) {
      known = known && !gathered && gathers_rows(node) && node.input(1).node().is(OpRole::kInput);
      open.push_back({node.input(0), true});
      numbers.push_back(node.input(1));
    } else {
      for (const Value& input : node.inputs()) open.push_back({input, gathered});
    }
  }
  if (!known || stored.size() != 1 || numbers.size() > 1) return {};
  if (numbers.empty()) return {input_number(stored[0]), std::nullopt};
  // A value that is read as it is stored, and by rows as well, is two.
  if (as_stored) return {};
  return {input_number(stored[0]), input_number(numbers[0])};
}

void AnchoredNode::find_inputs() {
  const Values& inputs = body().inputs();
  alignas(std::max_align_t) std::byte room[256];
  std::pmr::monotonic_buffer_resource memory(room, sizeof(room));
  std::pmr::vector<bool> before(body().size(), false, &memory);
  std::pmr::vector<bool> behind(body().size(), false, &memory);
  for (const Node& node : body().nodes()) {
    const Part part = parts_.part[node.id()];
    std::pmr::vector<bool>& read =
        part == Part::kPrologue || part == Part::kAnchor ? before : behind;
    for (const Value& v : node.inputs()) read[v.node_id()] = true;
  }
  for (const Value& v : body().outputs()) behind[v.node_id()] = true;
  prologue_inputs_.reserve(inputs.size());
  epilogue_inputs_.reserve(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (before[inputs[i].node_id()]) prologue_inputs_.push_back(i);
    if (behind[inputs[i].node_id()]) epilogue_inputs_.push_back(i);
  }
}

std::unique_ptr<Graph> AnchoredNode::prologue_graph() const {
  auto result = std::make_unique<Graph>(body().ops());
  Rewriter rewriter(body(), *result);
  for (const size_t i : prologue_inputs_) rewriter.clone(body().inputs()[i].node());
  clone_nodes(parts_.prologue, rewriter);
  Values operands;
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (has_prologue(i)) operands.push_back(rewriter(root_of(operand(i))));
  }
  result->set_outputs(operands);
  return result;
}

EpilogueGraph::EpilogueGraph(const AnchoredNode& node) {
  const Graph& body = *node.node().bodies()[0];
  for (size_t i = 0; i < body.outputs().size(); ++i) {
    const Value& v = body.outputs()[i];
    if (node.part_of(v) != Part::kRowWise) outputs.push_back({v, i});
  }
  for (const Node* op : node.row_wise()) {
    for (const Value& v : op->inputs()) {
      const bool known = std::any_of(outputs.begin(), outputs.end(),
                                     [&](const Output& output) { return output.inner == v; });
      if (!known && node.part_of(v) == Part::kEpilogue) outputs.push_back({v, std::nullopt});
    }
  }
  if (outputs.empty()) return;
  graph = std::make_unique<Graph>(body.ops());
  Rewriter rewriter(body, *graph);
  const Node& anchor = node.anchor();
  rewriter.map(anchor.output(),
               graph->input("anchor", anchor.type().dtype, anchor.type().shape, anchor.site()));
  for (const size_t i : node.epilogue_inputs()) rewriter.clone(body.inputs()[i].node());
  clone_nodes(node.epilogue(), rewriter);
  Values results;
  for (const Output& output : outputs) {
    if (!rewriter.mapped(output.inner)) rewriter.clone(output.inner.node());  // a constant
    results.push_back(rewriter(output.inner));
  }
  graph->set_outputs(results);
}

}  // namespace keel
