#include "keel/backends/common/product_epilogue.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "keel/backends/common/origin.h"
#include "keel/core/base/checked.h"
#include "keel/core/tensor/buffer.h"

namespace keel {
namespace {

size_t row_bytes_of(const Type& type) {
  return static_cast<size_t>(type.shape.back()) * size_of(type.dtype);
}

}  // namespace

Support supports_epilogue(const AnchoredNode& product, const InstructionLookup& lookup,
                          const RowOpFactory& make_row_op) {
  if (!product.has_epilogue()) return {true, ""};
  const EpilogueGraph elementwise(product);
  size_t arguments = 1 + product.epilogue_inputs().size() + elementwise.outputs.size();
  for (const Node* op : product.row_wise()) arguments += op->inputs().size() + 1;
  if (arguments > kMostTileArguments) {
    return {false, std::to_string(arguments) + " inputs and outputs, more than " +
                       std::to_string(kMostTileArguments)};
  }
  for (const Node* op : product.row_wise()) {
    if (make_row_op({&op, 1}) == nullptr) {
      return {false, "no " + op->op_name() + " of these types on rows that a product leaves"};
    }
  }
  return elementwise.graph == nullptr ? Support{true, ""}
                                      : supports_tiles(*elementwise.graph, lookup);
}

ProductEpilogue::ProductEpilogue(const AnchoredNode& product, const InstructionLookup& lookup,
                                 const RowOpFactory& make_row_op, int64_t columns)
    : columns_(columns),
      columns_are_rows_(columns == product.anchor().type().shape.back()),
      element_size_(size_of(product.anchor().type().dtype)) {
  const Node& node = product.node();
  const EpilogueGraph elementwise(product);
  Numbers numbers;
  const auto number = [&](const Value& v, const Place& place) {
    numbers.emplace(v, places_.size());
    places_.push_back(place);
  };
  const auto place_behind = [&](const Value& v, std::optional<size_t> output) -> Place {
    if (!output) return {std::nullopt, row_bytes_of(v.type())};
    return {node.inputs().size() + *output, 0};
  };
  const Value result = product.anchor().output();
  number(result, {});
  for (const size_t i : product.epilogue_inputs()) number(node.bodies()[0]->inputs()[i], {i, 0});
  for (const auto& [inner, output] : elementwise.outputs) {
    number(inner, place_behind(inner, output));
  }
  for (const Node* op : product.row_wise()) {
    number(op->output(), place_behind(op->output(), product.output_number(op->output())));
  }
  product_row_bytes_ = row_bytes_of(result.type());
  if (elementwise.graph != nullptr) program_.emplace(*elementwise.graph, lookup);
  add_rows(product.row_wise(), numbers, make_row_op);
  if (product.row_wise().empty()) find_in_place(product);
  find_wide(product);
}

// Groups those with the same operand, which are done together as far as the backend has that.
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
    for (const Node* member : together) {
      for (const Value& v : member->inputs()) arguments.push_back(numbers.at(v));
    }
    for (const Node* member : together) arguments.push_back(numbers.at(member->output()));
  }
}

// Finds nothing beside row-wise ops, which read operands of the body when the tile program is done.
void ProductEpilogue::find_in_place(const AnchoredNode& product) {
  const std::vector<size_t>& operands = product.prologue_inputs();
  for (const auto& pair : program_->in_place()) {
    if (pair.input == 0) continue;
    const size_t input = product.epilogue_inputs()[pair.input - 1];
    const bool is_operand = std::find(operands.begin(), operands.end(), input) != operands.end();
    if (!is_operand) in_place_.push_back({pair.output, input});
  }
}

void ProductEpilogue::find_wide(const AnchoredNode& product) {
  const Node& node = product.node();
  const int64_t elements = product.anchor().type().shape.num_elements();
  const auto add = [&](const Type& type, size_t argument, PrefetchList::Use use) {
    if (type.shape.num_elements() != elements) return;
    wide_.push_back({argument, static_cast<size_t>(columns_) * size_of(type.dtype), use});
  };
  for (const size_t i : product.epilogue_inputs())
    add(node.input(i).type(), i, PrefetchList::Use::kRead);
  for (size_t i = 0; i < node.types().size(); ++i)
    add(node.type(i), node.inputs().size() + i, PrefetchList::Use::kWrite);
}

void ProductEpilogue::add_ahead(void* const* args, int64_t row, int64_t rows,
                                PrefetchList& ahead) const {
  for (const Wide& wide : wide_) {
    ahead.add(
        static_cast<const char*>(args[wide.argument]) + static_cast<size_t>(row) * wide.row_bytes,
        static_cast<size_t>(rows) * wide.row_bytes, wide.use);
  }
}

// A piece of a matrix whose rows are no rows of the iteration shape: they run over several of it.
uint32_t ProductEpilogue::run_rows(void** args, const TileRectangle& piece, int64_t stride) const {
  uint32_t status = 0;
  auto* values = static_cast<char*>(args[0]);
  for (int64_t i = 0; i < piece.rows; ++i) {
    const int64_t begin = (piece.row + i) * columns_ + piece.column;
    args[0] = values + static_cast<size_t>(i * stride) * element_size_;
    status |= program_->run_from_piece(args, begin, begin + piece.columns);
  }
  return status;
}

uint32_t ProductEpilogue::run(void* const* args, void* values, const TileRectangle& piece,
                              int64_t stride, void* scratch) const {
  void* at[kMostTileArguments];
  at[0] = values;
  char* free = static_cast<char*>(scratch);
  for (size_t i = 1; i < places_.size(); ++i) {
    const Place& place = places_[i];
    if (place.argument) {
      at[i] = args[*place.argument];
    } else {
      at[i] = origin_of(free, piece.row, place.row_bytes);
      free += align_up(static_cast<size_t>(piece.rows) * place.row_bytes, Buffer::kAlignment);
    }
  }
  uint32_t status = 0;
  if (program_) {
    status =
        columns_are_rows_ ? program_->run_piece(at, piece, stride) : run_rows(at, piece, stride);
  }
  at[0] = origin_of(values, piece.row, product_row_bytes_);
  for (const Rows& rows : rows_) {
    void* arguments[kMostTileArguments];
    for (size_t i = 0; i < rows.arguments.size(); ++i) arguments[i] = at[rows.arguments[i]];
    rows.op->run(arguments, piece.row, piece.row + piece.rows, /*scratch=*/nullptr);
  }
  return status;
}

size_t ProductEpilogue::scratch_bytes(size_t rows) const {
  size_t bytes = 0;
  for (const Place& place : places_) {
    if (!place.argument) bytes += align_up(rows * place.row_bytes, Buffer::kAlignment);
  }
  return bytes;
}

}  // namespace keel
