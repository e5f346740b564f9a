#include "keel/backends/common/fused_product.h"

#include <algorithm>
#include <string>

#include "keel/backends/common/uses.h"

namespace keel {
namespace {

bool is_identity(const Graph& body) {
  return body.outputs().size() == 1 && body.outputs()[0] == body.inputs()[0];
}

}  // namespace

bool is_product(const Node& node) {
  return node.has(kProduct) || node.op_name() == "fused_product";
}

FusedProduct::FusedProduct(const Node& node) : node_(node), product_(&node) {
  if (node.op_name() != "fused_product") return;
  product_ = &node.bodies()[0]->outputs()[0].node();
  if (!is_identity(*node.bodies()[1])) epilogue_ = node.bodies()[1].get();
}

size_t FusedProduct::product_inputs() const noexcept {
  return &node_ == product_ ? node_.inputs().size() : node_.bodies()[0]->inputs().size();
}

std::optional<size_t> FusedProduct::rows_of(size_t operand) const {
  if (&node_ == product_) return std::nullopt;
  const Values& inputs = node_.bodies()[0]->inputs();
  const auto number = [&](const Value& v) {
    return static_cast<size_t>(std::find(inputs.begin(), inputs.end(), v) - inputs.begin());
  };
  for (const Node& inner : node_.bodies()[0]->nodes()) {
    if (inner.op_name() == "gather" && number(inner.input(0)) == operand) {
      return number(inner.input(1));
    }
  }
  return std::nullopt;
}

bool FusedProduct::has_load(size_t operand) const {
  return &node_ != product_ && product_->input(operand).node().op_name() != "input";
}

Support supports_epilogue(const FusedProduct& product, const InstructionLookup& lookup) {
  if (product.epilogue() == nullptr) return {true, ""};
  const Graph& body = *product.epilogue();
  const size_t arguments = body.inputs().size() + body.outputs().size();
  if (arguments > kMostEpilogueArguments) {
    return {false, std::to_string(arguments) + " inputs and outputs, more than " +
                       std::to_string(kMostEpilogueArguments)};
  }
  return supports_tiles(body, lookup);
}

ProductEpilogue::ProductEpilogue(const FusedProduct& product, const InstructionLookup& lookup)
    : program_(*product.epilogue(), lookup), before_(product.product_inputs()) {
  const Graph& body = *product.epilogue();
  arguments_ = body.inputs().size() + body.outputs().size();
  const Node& node = product.node();
  for (const auto& pair : program_.in_place()) {
    if (pair.input == 0) continue;
    const size_t input = before_ + pair.input - 1;
    const Value root = root_of(node.input(input));
    const auto begin = node.inputs().begin();
    const bool is_operand = std::any_of(begin, begin + static_cast<std::ptrdiff_t>(before_),
                                        [&](const Value& v) { return root_of(v) == root; });
    if (!is_operand) in_place_.push_back({pair.output, input});
  }
}

uint32_t ProductEpilogue::run(void* const* args, void* values, const TileRectangle& piece,
                              int64_t stride) const {
  void* arguments[kMostEpilogueArguments];
  arguments[0] = values;
  // The kernel's outputs follow its inputs, as the program's do.
  std::copy_n(args + before_, arguments_ - 1, arguments + 1);
  return program_.run_piece(arguments, piece, stride);
}

}  // namespace keel
