#include "keel/backends/npu/kernels/attention_work.h"

#include <algorithm>
#include <initializer_list>

#include "keel/backends/common/cube/lane_bytes.h"
#include "keel/core/base/checked.h"
#include "keel/ops/attention_rules.h"

namespace keel::npu {
namespace {

// Passes of the vector unit over each score: scale, mask, maximum, difference, exponential, sum,
// and the rounding of the weight for the cube.
constexpr int64_t kForwardPasses = 20;
// Scale, mask, difference, exponential, quotient, the slope's difference and product, two
// roundings.
constexpr int64_t kBackwardPasses = 22;

int64_t sum_of_bytes(const Node& node, std::initializer_list<size_t> inputs) {
  int64_t bytes = 0;
  for (const size_t i : inputs) bytes = checked_add(bytes, bytes_of(node.input(i).type()));
  return bytes;
}

double ratio(int64_t a, int64_t b) {
  return static_cast<double>(a) / static_cast<double>(std::max<int64_t>(1, b));
}

// One product for each head, whose result is the scores. What stays on the core takes no bytes out;
// `depth` counts the multiply-adds of all products for each score.
CubeWork scores_work(const Node& node, const AttentionGeometry& g, int64_t rows, int64_t columns,
                     int64_t depth, int64_t passes) {
  CubeWork work;
  work.batch = static_cast<int64_t>(g.heads.size());
  work.m = rows;
  work.n = columns;
  work.k = depth;
  work.dtype = node.input(0).dtype();
  work.wide = node.as<AttentionAttributes>().wide;
  work.epilogue_bytes_out = 0;
  work.epilogue_bytes_in = g.masked && g.mask_query_step != 0 && g.mask_key_step != 0 ? 1 : 0;
  work.epilogue_pass_bytes = passes * lane_bytes(f32);
  work.epilogue_instructions = passes;
  work.whole_rows = work.rows_by_blocks = true;
  return work;
}

}  // namespace

NodeWork attention_work(const WorkRequest& request) {
  const Node& node = request.anchored.node();
  const AttentionGeometry g(node, 3);
  const int64_t size = size_in_bytes(node.input(0).dtype());
  // Blocks of keys that no query of a block may look at are left out: a query meets so many.
  const int64_t met = divide_up(g.pairs(), std::max<int64_t>(1, g.queries));
  const int64_t depth = g.features + g.outputs;
  CubeWork work = scores_work(node, g, g.queries, met, depth, kForwardPasses);
  // The left operand is the queries, which come once; the right one is keys and values.
  work.bytes_a = sum_of_bytes(node, {0});
  work.repeats_a = std::max(1.0, ratio(depth, g.features));
  work.bytes_b = sum_of_bytes(node, {1, 2});
  work.aligned_a = g.features * size % kRowAlignment == 0;
  work.aligned_b = work.aligned_a && g.outputs * size % kRowAlignment == 0;
  work.row_bytes_out =
      g.outputs * size_in_bytes(node.type().dtype) + 2 * size_in_bytes(node.type(1).dtype);
  return {work, {}};
}

NodeWork attention_gradient_work(const WorkRequest& request) {
  const Node& node = request.anchored.node();
  const AttentionGeometry g(node, 7);
  const int64_t size = size_in_bytes(node.input(0).dtype());
  const int64_t gradient = size_in_bytes(node.type().dtype);
  const int64_t met = divide_up(g.pairs(), std::max<int64_t>(1, g.keys));
  // Scores, slopes, and the three gradients.
  const int64_t depth = 3 * g.features + 2 * g.outputs;
  CubeWork work = scores_work(node, g, g.keys, met, depth, kBackwardPasses);
  // A core keeps some keys and values, with their gradients, and goes through the queries.
  work.bytes_a = sum_of_bytes(node, {1, 2});
  work.bytes_b = sum_of_bytes(node, {0, 3, 4, 5, 6});
  work.repeats_a = std::max(1.0, ratio(depth, g.features + g.outputs));
  work.repeats_b = std::max(1.0, ratio(depth, g.features + 2 * g.outputs));
  work.aligned_a = work.aligned_b =
      g.features * size % kRowAlignment == 0 && g.outputs * size % kRowAlignment == 0;
  // The gradients of the queries are added up in memory, f32, and counted with the rows.
  const int64_t added = checked_mul(checked_mul(g.queries, g.features), size_in_bytes(f32));
  work.row_bytes_out =
      (g.features + g.outputs) * gradient + divide_up(added, std::max<int64_t>(1, g.keys));
  return {work, {}};
}

}  // namespace keel::npu
