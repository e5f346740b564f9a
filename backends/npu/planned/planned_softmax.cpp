// Softmax and its family as planned: rows, whose operands all come to unified buffer, beside the
// f32 rows that 16-bit ones are computed in.
#include <memory>
#include <utility>

#include "keel/backends/common/row_op.h"
#include "keel/backends/common/vector/softmax_rows.h"
#include "keel/backends/npu/planned/planned_rows.h"

namespace keel::npu {
namespace {

int64_t columns_of_softmax(const Node& node) { return node.input(0).shape().back(); }

RowLayout rows_of(const Node& node, const RowOp& op) {
  const int64_t columns = columns_of_softmax(node);
  const int64_t elements = node.input(0).shape().num_elements();
  RowLayout rows = rows_of_node(node, columns == 0 ? 0 : elements / columns, /*brings=*/true);
  rows.scratch = op.scratch_bytes(1);
  return rows;
}

TilePlan tiles_of_softmax(const PlannedRequest& request) {
  const Node& node = request.anchored.node();
  return plan_whole_rows(request, rows_of(node, *vector::make_softmax_op(node)),
                         columns_of_softmax(node));
}

PlannedLaunch make_softmax_run(const PlannedRequest& request, TilePlan plan) {
  const Node& node = request.anchored.node();
  const std::shared_ptr<const RowOp> op = vector::make_softmax_op(node);
  const auto make = [op](void* const* at, int64_t begin, int64_t end, void* scratch) {
    op->run(at, begin, end, scratch);
  };
  return make_planned_rows(request, std::move(plan), rows_of(node, *op), {make});
}

}  // namespace

const PlannedEntry kPlannedSoftmax{.tiles = tiles_of_softmax, .run = make_softmax_run};

}  // namespace keel::npu
