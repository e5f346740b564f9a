#include "keel/backends/common/product_epilogue.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "keel/core/base/checked.h"
#include "keel/graph/passes/cloner.h"

namespace keel {
namespace {

constexpr size_t kAlignment = 64;

// An epilogue's body taken apart.
struct EpilogueBody {
  explicit EpilogueBody(const Graph& body) {
    for (const Node& node : body.nodes()) {
      if (node.has(kRowWise)) rows.push_back(&node);
    }
    for (const Value& v : body.outputs()) {
      if (!v.node().has(kRowWise)) left.push_back(v);
    }
    for (const Node* row : rows) {
      for (const Value& v : row->inputs()) {
        const bool known = std::find(left.begin(), left.end(), v) != left.end();
        if (!known && v.node().op_name() != "input") left.push_back(v);
      }
    }
    if (left.empty()) return;
    elementwise = std::make_unique<Graph>(body.ops());
    Cloner cloner(body, *elementwise);
    cloner.clone_inputs();
    for (const Node& node : body.nodes()) {
      if (!node.has(kRowWise) && node.op_name() != "input") cloner.clone(node);
    }
    elementwise->set_outputs(cloner(left));
  }

  std::unique_ptr<Graph> elementwise;  // the body's inputs to `left`; null where that is empty
  Values left;                         // outputs of the body, then what only row-wise ops read
  std::vector<const Node*> rows;
};

// Where row 0 would be of rows that begin at `at` with row `first`.
void* row_zero(void* at, int64_t first, size_t row_bytes) {
  return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(at) -
                                 static_cast<size_t>(first) * row_bytes);
}

size_t row_bytes_of(const Type& type) {
  return static_cast<size_t>(type.shape.back()) * size_of(type.dtype);
}

}  // namespace

bool wants_rows(const FusedProduct& product) {
  if (product.epilogue() == nullptr) return false;
  const auto& nodes = product.epilogue()->nodes();
  return std::any_of(nodes.begin(), nodes.end(), [](const Node& n) { return n.has(kRowWise); });
}

Support supports_epilogue(const FusedProduct& product, const InstructionLookup& lookup,
                          const RowOpFactory& make_row_op) {
  if (product.epilogue() == nullptr) return {true, ""};
  const Graph& body = *product.epilogue();
  const EpilogueBody parts(body);
  size_t arguments = body.inputs().size() + parts.left.size();
  for (const Node* row : parts.rows) arguments += row->inputs().size() + 1;
  if (arguments > kMostEpilogueArguments) {
    return {false, std::to_string(arguments) + " inputs and outputs, more than " +
                       std::to_string(kMostEpilogueArguments)};
  }
  for (const Node* row : parts.rows) {
    if (make_row_op({&row, 1}) == nullptr) {
      return {false, "no " + row->op_name() + " of these types on rows that a product leaves"};
    }
  }
  return parts.elementwise == nullptr ? Support{true, ""}
                                      : supports_tiles(*parts.elementwise, lookup);
}

ProductEpilogue::ProductEpilogue(const FusedProduct& product, const InstructionLookup& lookup,
                                 const RowOpFactory& make_row_op) {
  const Graph& body = *product.epilogue();
  const EpilogueBody parts(body);
  const size_t first_input = product.product_inputs();
  const size_t first_output = first_input + body.inputs().size() - 1;
  Numbers numbers;
  const auto number = [&](const Value& v, const Place& place) {
    numbers.emplace(v, places_.size());
    places_.push_back(place);
  };
  const auto place_behind = [&](const Value& v) -> Place {
    const auto it = std::find(body.outputs().begin(), body.outputs().end(), v);
    if (it == body.outputs().end()) return {std::nullopt, row_bytes_of(v.type())};
    return {first_output + static_cast<size_t>(it - body.outputs().begin()), 0};
  };
  number(body.inputs()[0], {});
  for (size_t i = 1; i < body.inputs().size(); ++i) {
    number(body.inputs()[i], {first_input + i - 1, 0});
  }
  for (const Value& v : parts.left) number(v, place_behind(v));
  for (const Node* row : parts.rows) number(row->output(), place_behind(row->output()));
  product_row_bytes_ = row_bytes_of(body.inputs()[0].type());
  if (parts.elementwise != nullptr) program_.emplace(*parts.elementwise, lookup);
  add_rows(parts.rows, numbers, make_row_op);
  if (parts.rows.empty()) find_in_place(product);
}

// Those with the same operand are done together as far as the backend has that.
void ProductEpilogue::add_rows(const std::vector<const Node*>& nodes, const Numbers& numbers,
                               const RowOpFactory& make_row_op) {
  std::vector<const Node*> together;
  for (const Node* node : nodes) {
    together.push_back(node);
    const bool same = together.front()->input(0) == node->input(0);
    std::unique_ptr<RowOp> op = same ? make_row_op(together) : nullptr;
    if (op == nullptr) {
      together = {node};
      op = make_row_op(together);
    }
    if (together.size() == 1) rows_.emplace_back();
    rows_.back() = {std::move(op), {}};
    std::vector<size_t>& arguments = rows_.back().arguments;
    for (const Node* row : together) {
      for (const Value& v : row->inputs()) arguments.push_back(numbers.at(v));
    }
    for (const Node* row : together) arguments.push_back(numbers.at(row->output()));
  }
}

// Not beside row-wise ops, which read operands of the body when the tile program is done.
void ProductEpilogue::find_in_place(const FusedProduct& product) {
  for (const auto& pair : program_->in_place()) {
    if (pair.input == 0) continue;
    in_place_.push_back({pair.output, product.product_inputs() + pair.input - 1});
  }
}

uint32_t ProductEpilogue::run(void* const* args, void* values, const TileRectangle& piece,
                              int64_t stride, void* scratch) const {
  void* at[kMostEpilogueArguments];
  at[0] = values;
  char* free = static_cast<char*>(scratch);
  for (size_t i = 1; i < places_.size(); ++i) {
    const Place& place = places_[i];
    if (place.argument) {
      at[i] = args[*place.argument];
    } else {
      at[i] = row_zero(free, piece.row, place.row_bytes);
      free += align_up(static_cast<size_t>(piece.rows) * place.row_bytes, kAlignment);
    }
  }
  const uint32_t status = program_ ? program_->run_piece(at, piece, stride) : 0;
  at[0] = row_zero(values, piece.row, product_row_bytes_);
  for (const Rows& rows : rows_) {
    void* arguments[kMostEpilogueArguments];
    for (size_t i = 0; i < rows.arguments.size(); ++i) arguments[i] = at[rows.arguments[i]];
    rows.op->run(arguments, piece.row, piece.row + piece.rows);
  }
  return status;
}

size_t ProductEpilogue::scratch_bytes(size_t rows) const {
  size_t bytes = 0;
  for (const Place& place : places_) {
    if (!place.argument) bytes += align_up(rows * place.row_bytes, kAlignment);
  }
  return bytes;
}

}  // namespace keel
