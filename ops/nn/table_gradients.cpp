#include "keel/ops/nn/table_gradients.h"

#include <cstddef>
#include <utility>

#include "keel/core/base/checked.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/gather.h"
#include "keel/ops/nn/computed_from.h"
#include "keel/ops/nn/micro_shards.h"
#include "keel/ops/shape.h"

namespace keel {
namespace {

// An id travels as f32, which has all integers up to this one.
constexpr int64_t kMostRows = int64_t{1} << 24;

std::optional<LookedUpRows> look_up_of(Value loss, Value table) {
  const Graph& graph = loss.graph();
  const std::vector<bool> under = nodes_under(loss);
  std::optional<LookedUpRows> found;
  for (uint32_t id = 0; id < under.size(); ++id) {
    if (!under[id]) continue;
    const Node& node = graph.node(id);
    for (size_t i = 0; i < node.data_inputs().size(); ++i) {
      if (!(node.input(i) == table)) continue;
      const bool looks_up =
          i == 0 && node.op_name() == "gather" && node.as<GatherAttributes>().axis == 0;
      if (!looks_up || found) return std::nullopt;
      found = LookedUpRows{node.output(0), node.input(1)};
    }
  }
  return found;
}

std::optional<int64_t> elements_of(const Value& value) {
  int64_t count = 1;
  for (const int64_t d : value.shape().dims()) {
    if (d < 0) return std::nullopt;
    count = checked_mul(count, d, "elements");
  }
  return count;
}

// The table's gradient of one part of the batch, on any rank.
Value dense_gradient(Value table, Value ids, Value rows, CallSite site) {
  const Value zeros = zeros_of(table.graph(), {f32, table.shape()}, site);
  return scatter_add(Operand(zeros, site), cast(Operand(ids, site), i32, site), Operand(rows, site),
                     site);
}

}  // namespace

std::optional<std::vector<LookedUpRows>> look_ups_of(const Values& losses, Value table) {
  if (table.dtype() != f32 || table.shape().rank() == 0 || table.shape()[0] > kMostRows)
    return std::nullopt;
  std::vector<LookedUpRows> look_ups;
  for (const Value& loss : losses) {
    const auto found = look_up_of(loss, table);
    // Ids have one axis more where they come from all ranks, and so have their rows.
    if (!found || found->rows.shape().rank() == Shape::kMaxRank) return std::nullopt;
    look_ups.push_back(*found);
  }
  return look_ups;
}

bool fewer_travel(const std::vector<LookedUpRows>& look_ups, Value table, int64_t ranks) {
  int64_t travelling = 0;
  for (const LookedUpRows& look_up : look_ups) {
    const auto ids = elements_of(look_up.ids), rows = elements_of(look_up.rows);
    if (!ids || !rows) return false;
    travelling += *ids + *rows;
  }
  const auto whole = elements_of(table);
  return whole && checked_mul(travelling, ranks, "elements") < *whole;
}

Values sum_table_gradients(const std::vector<TableGradient>& tables,
                           const std::shared_ptr<Group>& group, const AllReduceOptions& options,
                           CallSite site) {
  Values own;
  for (const TableGradient& table : tables) {
    for (size_t part = 0; part < table.look_ups.size(); ++part) {
      own.push_back(cast(Operand(table.look_ups[part].ids, site), f32, site));
      own.push_back(table.row_gradients[part]);
    }
  }
  AllReduceOptions gather_options = options;
  gather_options.scale = 1;
  const Values all = all_gather(own, group, gather_options, site);
  Values sums;
  auto next = all.begin();
  for (const TableGradient& table : tables) {
    const auto first = next;
    next += static_cast<std::ptrdiff_t>(2 * table.look_ups.size());
    Values of_ranks;
    for (int64_t rank = 0; rank < group->size(); ++rank) {
      const Value number = table.table.graph().constant(Tensor::scalar(rank), site);
      const auto of_rank = [&](const Value& v) { return gather(v, number, 0, site); };
      Values parts;
      for (auto it = first; it != next; it += 2)
        parts.push_back(dense_gradient(table.table, of_rank(*it), of_rank(*(it + 1)), site));
      of_ranks.push_back(tree_sum(parts, site));
    }
    sums.push_back(mul(tree_sum(of_ranks, site), options.scale, site));
  }
  return sums;
}

}  // namespace keel
