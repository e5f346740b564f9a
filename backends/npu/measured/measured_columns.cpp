// Rows that name their op, and what OP types are described with.
#include <algorithm>
#include <utility>

#include "keel/backends/npu/kernels/device_passes.h"
#include "keel/backends/npu/measured/measured_types.h"
#include "keel/core/base/checked.h"
#include "keel/core/base/environment.h"
#include "keel/core/base/error.h"
#include "keel/graph/passes/passes.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/loss.h"
#include "keel/ops/matmul.h"
#include "keel/ops/reduce.h"
#include "keel/ops/shape.h"

namespace keel::npu {
namespace {

std::vector<std::string> words_of(const std::string& text, char separator) {
  std::vector<std::string> words;
  for (size_t from = 0; from < text.size();) {
    const size_t to = std::min(text.size(), text.find(separator, from));
    if (to > from) words.push_back(text.substr(from, to - from));
    from = to + 1;
  }
  return words;
}

std::vector<int64_t> axes_of(const std::string& text, size_t rank) {
  std::vector<int64_t> axes;
  for (const std::string& word : words_of(text, ',')) {
    axes.push_back(parse_integer(word, "axis", 0, static_cast<int64_t>(rank) - 1));
  }
  return axes;
}

// The graph with what it can fuse fused, as the NPU would.
std::shared_ptr<const Graph> fused(const Graph& graph) {
  return fuse(graph, [](const Node&) { return Support{true, ""}; });
}

MeasuredOp mean_op(const Type& x, const std::vector<int64_t>& axes) {
  Graph graph;
  // A mean is the sum, times what the number of elements says.
  graph.set_outputs({mul(sum(graph.input("x", x.dtype, x.shape), axes), 0.5)});
  return {MeasuredClass::kReduce, fused(graph)};
}

const MeasuredTensor& input_of(const std::vector<MeasuredTensor>& inputs, size_t i) {
  if (i < inputs.size()) return inputs[i];
  throw Error("fewer operands than the op has");
}

}  // namespace

Type type_of(const MeasuredTensor& tensor) {
  if (!tensor.dtype) throw Error("no dtype like " + tensor.dtype_text);
  if (tensor.dims.size() <= Shape::kMaxRank) return {*tensor.dtype, Shape(tensor.dims)};
  return {*tensor.dtype, Shape{tensor.elements()}};
}

MeasuredOp elementwise_op(MeasuredClass kind, std::vector<std::string> instructions,
                          const std::vector<MeasuredTensor>& inputs,
                          const std::vector<MeasuredTensor>& outputs) {
  VectorRecipe recipe;
  recipe.instructions = std::move(instructions);
  for (const MeasuredTensor& tensor : inputs) {
    recipe.inputs.push_back(type_of(tensor));
    recipe.elements = std::max(recipe.elements, tensor.elements());
  }
  for (const MeasuredTensor& tensor : outputs) {
    recipe.outputs.push_back(type_of(tensor));
    recipe.elements = std::max(recipe.elements, tensor.elements());
  }
  return {kind, std::move(recipe)};
}

std::vector<int64_t> plain_dims(const MeasuredTensor& tensor) {
  std::vector<int64_t> dims = tensor.dims;
  if (tensor.format != "FRACTAL_NZ") return dims;
  const size_t rank = dims.size();
  if (rank < 4) throw Error("fractal operands of fewer than 4 dimensions");
  const int64_t rows = checked_mul(dims[rank - 3], dims[rank - 2]);
  const int64_t columns = checked_mul(dims[rank - 4], dims[rank - 1]);
  dims.resize(rank - 4);
  dims.push_back(rows);
  dims.push_back(columns);
  return dims;
}

MeasuredOp product_op(const MeasuredTensor& a, const MeasuredTensor& b,
                      const ProductOptions& options) {
  Graph graph;
  const Value x = graph.input("a", type_of(a).dtype, Shape(plain_dims(a)));
  const Value y = graph.input("b", type_of(b).dtype, Shape(plain_dims(b)));
  graph.set_outputs({matmul(x, y,
                            {.transpose_a = options.transpose_a,
                             .transpose_b = options.transpose_b,
                             .wide = options.wide})});
  MeasuredOp op(MeasuredClass::kProduct, fused(graph));
  op.set_fractal(a.format == "FRACTAL_NZ", b.format == "FRACTAL_NZ");
  return op;
}

MeasuredOp sum_op(const Type& x, const std::vector<int64_t>& axes, bool of_squares) {
  Graph graph;
  const Value input = graph.input("x", x.dtype, x.shape);
  graph.set_outputs({sum(of_squares ? square(input) : input, axes)});
  return {MeasuredClass::kReduce, fused(graph)};
}

MeasuredOp op_of_columns(const MeasuredRow& row) {
  const std::vector<MeasuredTensor>& inputs = row.op_inputs;
  const Type x = type_of(input_of(inputs, 0));
  if (row.op == "matmul") {
    ProductOptions options;
    for (const std::string& word : words_of(row.attributes, ' ')) {
      if (word == "ta") options.transpose_a = true;
      if (word == "tb") options.transpose_b = true;
      if (word == "wide") options.wide = true;
    }
    MeasuredOp op = product_op(inputs[0], input_of(inputs, 1), options);
    const auto is_fractal = [&](size_t i) {
      return i < row.inputs.size() && row.inputs[i].format == "FRACTAL_NZ";
    };
    op.set_fractal(is_fractal(0), is_fractal(1));
    return op;
  }
  if (row.op == "sum") return sum_op(x, axes_of(row.attributes, x.shape.rank()));
  if (row.op == "sumsq") return sum_op(x, axes_of(row.attributes, x.shape.rank()), true);
  if (row.op == "mean") return mean_op(x, axes_of(row.attributes, x.shape.rank()));
  Graph graph;
  const Value input = graph.input("x", x.dtype, x.shape);
  if (row.op == "softmax") {
    graph.set_outputs({softmax(input)});
    return {MeasuredClass::kSoftmax, fused(graph)};
  }
  if (row.op == "transpose") {
    graph.set_outputs({transpose(input, axes_of(row.attributes, x.shape.rank()))});
    return {MeasuredClass::kTranspose, fused(graph)};
  }
  if (row.op == "cast") {
    graph.set_outputs({cast(input, parse_dtype(row.attributes))});
    return {MeasuredClass::kCast, fused(graph)};
  }
  if (device_passes(row.op) == 0) throw Error("no op " + row.op);
  // Comparisons give bool, all others the dtype that they take.
  MeasuredTensor result = inputs[0];
  for (const MeasuredTensor& tensor : inputs) {
    if (tensor.elements() > result.elements()) result = tensor;
  }
  if (!row.outputs.empty() && row.outputs[0].dtype) result.dtype = row.outputs[0].dtype;
  return elementwise_op(MeasuredClass::kElementWise, {row.op}, inputs, {result});
}

MappedRow map_row(const MeasuredRow& row) {
  try {
    return {row.op.empty() ? op_of_type(row) : op_of_columns(row), ""};
  } catch (const Error& error) {
    return {std::nullopt, error.what()};
  }
}

}  // namespace keel::npu
