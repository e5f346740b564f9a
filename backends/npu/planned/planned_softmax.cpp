// Softmax and its family as planned: rows, whose operands all come to unified buffer.
#include <utility>

#include "keel/backends/common/vector/softmax_rows.h"
#include "keel/backends/npu/planned/planned_rows.h"

namespace keel::npu {
namespace {

int64_t columns_of(const Node& node) { return node.input(0).shape().back(); }

RowLayout rows_of(const Node& node) {
  const int64_t columns = columns_of(node);
  const int64_t elements = node.input(0).shape().num_elements();
  return rows_of_node(node, columns == 0 ? 0 : elements / columns, /*brings=*/true);
}

TilePlan tiles(const PlannedRequest& request) {
  const Node& node = request.anchored.node();
  return plan_whole_rows(request, rows_of(node), columns_of(node));
}

PlannedLaunch make_run(const PlannedRequest& request, TilePlan plan) {
  const Node& node = request.anchored.node();
  return make_planned_rows(request, std::move(plan), rows_of(node),
                           {vector::rows_of_softmax(node)});
}

}  // namespace

const PlannedEntry kPlannedSoftmax{.tiles = tiles, .run = make_run};

}  // namespace keel::npu
