// Matrix products, those of integers included, and einsum.
#include "keel/ops/composed/einsum.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/exchange/onnx/import_quantized.h"
#include "keel/ops/exchange/onnx/import_rules.h"
#include "keel/ops/matmul.h"

namespace keel::onnx {
namespace {

Values product(NodeContext& c) { return {matmul(c.in(0), c.in(1), {}, {})}; }

Value scaled(const Value& x, double factor) {
  if (factor == 1) return x;
  if (is_float(x.dtype({}))) return x * factor;
  return cast(cast(x, f64, {}) * factor, x.dtype({}), {});
}

// alpha * a b + beta * c, where c broadcasts.
Values general_product(NodeContext& c) {
  const double alpha = c.attribute("alpha", 1.0), beta = c.attribute("beta", 1.0);
  const bool transpose_a = c.attribute("transA", int64_t{0}) != 0;
  const bool transpose_b = c.attribute("transB", int64_t{0}) != 0;
  if (c.version() < 7) c.ignore("broadcast");
  const Value ab =
      scaled(matmul(c.in(0), c.in(1), {.transpose_a = transpose_a, .transpose_b = transpose_b}, {}),
             alpha);
  if (!c.has(2)) return {ab};
  c.require_broadcast(c.in(2), ab.shape({}), "its C is");
  return {add(ab, scaled(c.in(2), beta), {})};
}

Values einsum_of(NodeContext& c) { return {einsum(c.attribute("equation", ""), c.all(), {})}; }

Values integer_product(NodeContext& c) {
  const Value a = c.in(0), b = c.in(1);
  return {matmul(less_zero_point(c, a, 2, axis_of_rows(a)),
                 less_zero_point(c, b, 3, axis_of_columns(b)), {}, {})};
}

}  // namespace

void register_import_products(ImportRules& rules) {
  rules.add("MatMul", product);
  rules.add("Gemm", general_product);
  rules.add("Einsum", einsum_of);
  rules.add("MatMulInteger", integer_product);
}

}  // namespace keel::onnx
