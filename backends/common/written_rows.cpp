#include "keel/backends/common/written_rows.h"

#include "keel/backends/common/row_view.h"
#include "keel/backends/common/uses.h"
#include "keel/graph/autodiff/neutral_fill.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/control/loop_count.h"
#include "keel/graph/ir/rewriter.h"

namespace keel {

std::vector<WrittenRow> find_written_rows(const Node& loop) {
  std::vector<WrittenRow> rows;
  const Graph& body = *loop.bodies()[1];
  if (!counts_up(body)) return rows;
  const std::vector<bool> live = live_nodes(body);
  const Uses uses = count_uses(body, live);
  const bool from_0 = is_count(loop.input(0), 0);
  for (size_t i = 1; i < body.outputs().size(); ++i) {
    const Value stack = body.inputs()[i];
    const Node& node = body.outputs()[i].node();
    if (!writes_row(node) || node.input(0) != stack || node.input(1) != body.inputs()[0]) continue;
    if (uses[stack] != 1 || uses[node.output()] != 1) continue;
    if (!is_filled_with_neutral(loop.input(i))) continue;
    const bool all = loop.as<WhileAttributes>().trip_count == stack.shape()[0];
    rows.push_back({&node, i, root_of(node.input(2)), from_0 && all});
  }
  return rows;
}

}  // namespace keel
