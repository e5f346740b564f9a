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

void require_matrices(NodeContext& c, size_t most) {
  c.require_rank(c.in(0), 2, most, "its operand 0 is");
  c.require_rank(c.in(1), 2, most, "its operand 1 is");
}

Values product(NodeContext& c) {
  for (const char* name : {"a_is_sparse", "b_is_sparse", "grad_a", "grad_b"}) c.ignore(name);
  require_matrices(c, 2);
  return product_with(c, "transpose_a", "transpose_b");
}

Values batched_product(NodeContext& c) {
  c.ignore("grad_x");
  c.ignore("grad_y");
  require_matrices(c, Shape::kMaxRank);
  return product_with(c, "adj_x", "adj_y");
}

// The first version of the op takes operands of the same batch alone; the later ones broadcast.
Values product_of_equal_batches(NodeContext& c) {
  require_matrices(c, Shape::kMaxRank);
  const Shape first = c.in(0).shape({}), second = c.in(1).shape({});
  std::vector<int64_t> wanted(first.begin(), first.end() - 2);
  wanted.insert(wanted.end(), second.end() - 2, second.end());
  c.require_shape(c.in(1), Shape(wanted), "its operand 1 is");
  return batched_product(c);
}

Values einsum_of(NodeContext& c) { return {einsum(c.attribute("equation", ""), c.all(), {})}; }

}  // namespace

void register_graphdef_products(OpRules& rules) {
  rules.add("MatMul", {.make = product, .weights = {1}});
  rules.add("BatchMatMul", {.make = product_of_equal_batches, .weights = {1}});
  rules.add("BatchMatMulV2", {.make = batched_product, .weights = {1}});
  rules.add("BatchMatMulV3", {.make = batched_product, .weights = {1}});
  rules.add("Einsum", {.make = einsum_of, .weights = {1}});
}

}  // namespace keel::graphdef
