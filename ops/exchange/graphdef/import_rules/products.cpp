// Matrix products.
#include "keel/ops/composed/einsum.h"
#include "keel/ops/exchange/graphdef/op_rules.h"
#include "keel/ops/matmul.h"

namespace keel::graphdef {
namespace {

using onnx::NodeContext;

Values product_with(NodeContext& c, const char* first, const char* second) {
  const bool transpose_a = c.attribute(first, int64_t{0}) != 0;
  const bool transpose_b = c.attribute(second, int64_t{0}) != 0;
  return {matmul(c.in(0), c.in(1), {.transpose_a = transpose_a, .transpose_b = transpose_b}, {})};
}

Values product(NodeContext& c) {
  for (const char* name : {"a_is_sparse", "b_is_sparse", "grad_a", "grad_b"}) c.ignore(name);
  return product_with(c, "transpose_a", "transpose_b");
}

Values batched_product(NodeContext& c) {
  c.ignore("grad_x");
  c.ignore("grad_y");
  return product_with(c, "adj_x", "adj_y");
}

Values einsum_of(NodeContext& c) { return {einsum(c.attribute("equation", ""), c.all(), {})}; }

}  // namespace

void register_graphdef_products(OpRules& rules) {
  rules.add("MatMul", {.make = product, .weights = {1}});
  rules.add("BatchMatMul", {.make = batched_product, .weights = {1}});
  rules.add("BatchMatMulV2", {.make = batched_product, .weights = {1}});
  rules.add("BatchMatMulV3", {.make = batched_product, .weights = {1}});
  rules.add("Einsum", {.make = einsum_of, .weights = {1}});
}

}  // namespace keel::graphdef
