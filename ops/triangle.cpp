#include "keel/ops/triangle.h"

#include <algorithm>
#include <string>

#include "keel/graph/ir/emit.h"
#include "keel/graph/ir/op_table.h"
#include "keel/graph/ir/sample.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/gather.h"
#include "keel/ops/infer_rules.h"

namespace keel {
namespace {

// j - i of each element of a matrix, in the first or the second form: row i + diagonal, column j.
struct Positions {
  Value row, column;
};

Positions positions(Graph& graph, int64_t rows, int64_t columns, int64_t diagonal, CallSite site) {
  // Beyond the corners all diagonals are alike; sums then stay within i64.
  const int64_t shift = std::clamp(diagonal, -rows - 1, columns + 1);
  return {add(iota(graph, i64, {rows, 1}, 0, site), shift, site),
          iota(graph, i64, {1, columns}, 1, site)};
}

bool is_kept(bool lower, int64_t row, int64_t column, int64_t diagonal, const Shape& shape) {
  const int64_t rows = shape[shape.rank() - 2], columns = shape.back();
  const int64_t at = row + std::clamp(diagonal, -rows - 1, columns + 1);
  return lower ? column <= at : column >= at;
}

std::vector<Type> infer_triangle(const InferContext& c) {
  require_dtypes(c, 0, kAnyDType);
  c.require_rank(0, 2, Shape::kMaxRank);
  return {c.inputs[0]};
}

void reference_triangle(const ReferenceContext& c, bool lower) {
  const Tensor& x = c.inputs[0];
  const int64_t diagonal = c.as<TriangleAttributes>().diagonal;
  const int64_t rows = x.shape()[x.shape().rank() - 2], columns = x.shape().back();
  visit_dtype(x.dtype(), [&]<class T>() {
    const auto from = x.data<T>();
    const auto to = c.outputs[0].data<T>();
    for (size_t i = 0; i < to.size(); ++i) {
      const auto at = static_cast<int64_t>(i) % (rows * columns);
      to[i] = is_kept(lower, at / columns, at % columns, diagonal, x.shape()) ? from[i] : T{};
    }
  });
}

Values decompose_triangle(const BuildContext& c, bool lower) {
  const Shape& shape = c.inputs[0].shape();
  const Positions at = positions(c.graph, shape[shape.rank() - 2], shape.back(),
                                 c.as<TriangleAttributes>().diagonal, c.site);
  const Value kept =
      lower ? less_equal(at.column, at.row, c.site) : greater_equal(at.column, at.row, c.site);
  if (c.inputs[0].dtype() == boolean) return {logical_and(c.inputs[0], kept, c.site)};
  return {select(kept, c.inputs[0], 0, c.site)};
}

using TriangleBuilder = Value (*)(Operand, int64_t, CallSite);

OpDef triangle(const char* name, const char* summary, bool lower, TriangleBuilder build) {
  OpDef op;
  op.name = name;
  op.summary = summary;
  op.input_names = {"x"};
  op.attributes = &attributes_schema<TriangleAttributes>();
  op.infer = infer_triangle;
  op.reference = [lower](const ReferenceContext& c) { reference_triangle(c, lower); };
  op.gradient = [build](const BuildContext& c) {
    return Values{build(c.output_gradients[0], c.as<TriangleAttributes>().diagonal, c.site)};
  };
  op.decompose = [lower](const BuildContext& c) { return decompose_triangle(c, lower); };
  op.sample = [build](SampleSource& source) -> Sample {
    const int64_t diagonal = source.integer(-4, 4);
    return {{source.values(source.shape(2, 4))}, [build, diagonal](Graph&, const Values& in) {
              return Values{build(in[0], diagonal, {})};
            }};
  };
  return op;
}

}  // namespace

Value tril(Operand x, int64_t diagonal, CallSite site) {
  return emit("tril", {x}, Attributes::of(TriangleAttributes{diagonal}), site);
}

Value triu(Operand x, int64_t diagonal, CallSite site) {
  return emit("triu", {x}, Attributes::of(TriangleAttributes{diagonal}), site);
}

Value eye(Graph& graph, int64_t rows, EyeOptions options, CallSite site) {
  const int64_t columns = options.columns == -1 ? rows : options.columns;
  if (rows < 0 || columns < 0) {
    throw Error({.op = "eye",
                 .argument = rows < 0 ? "rows" : "columns",
                 .expected = "a number >= 0",
                 .got = std::to_string(rows < 0 ? rows : columns),
                 .site = site});
  }
  const Positions at = positions(graph, rows, columns, options.diagonal, site);
  return cast(Operand(equal(at.column, at.row, site), site), options.dtype, site);
}

void register_triangle(OpTable& table) {
  table.add(triangle("tril", "0 above a diagonal of the last two axes", true, tril));
  table.add(triangle("triu", "0 below a diagonal of the last two axes", false, triu));
}

}  // namespace keel
