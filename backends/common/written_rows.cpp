#include "keel/backends/common/written_rows.h"

#include <cmath>

#include "keel/backends/common/row_view.h"
#include "keel/backends/common/uses.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/ir/rewriter.h"

namespace keel {
namespace {

bool is_integer(const Value& v, int64_t number) {
  if (!v.node().is(OpRole::kConstant)) return false;
  return bit_equal(v.node().as<ConstantAttributes>().value, Tensor::scalar(number));
}

// Adding to -0 keeps every bit, which adding to 0 does not: 0 + -0 is 0.
bool is_filled_with_neutral(Value v) {
  v = root_of(v);
  while (v.node().has(kBroadcast)) v = root_of(v.node().input(0));
  if (!v.node().is(OpRole::kConstant)) return false;
  const Tensor& value = v.node().as<ConstantAttributes>().value;
  if (value.num_elements() != 1) return false;
  const double number = value.at(0);
  return number == 0 && std::signbit(number) == is_float(value.dtype());
}

bool counts_up(const Graph& body) {
  const Node& next = body.outputs()[0].node();
  return next.is(OpRole::kAdd) && next.input(0) == body.inputs()[0] && is_integer(next.input(1), 1);
}

}  // namespace

std::vector<WrittenRow> find_written_rows(const Node& loop) {
  std::vector<WrittenRow> rows;
  const Graph& body = *loop.bodies()[1];
  if (!counts_up(body)) return rows;
  const std::vector<bool> live = live_nodes(body);
  const Uses uses = count_uses(body, live);
  const bool from_0 = is_integer(loop.input(0), 0);
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
