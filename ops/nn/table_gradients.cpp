#include "keel/ops/nn/table_gradients.h"

#include <cstddef>
#include <utility>

#include "keel/core/base/checked.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/gather.h"
#include "keel/ops/nn/computed_from.h"
#include "keel/ops/scan.h"
#include "keel/ops/shape.h"
#include "keel/ops/slice.h"
#include "keel/ops/sort.h"
#include "keel/ops/sums/part_sums.h"

namespace keel {
namespace {

// An id travels as f32, which has all integers up to this one.
constexpr int64_t kMostRows = int64_t{1} << 24;
// Two and four ranks on one machine, tables of 2,000 to 50,000 rows of 64 elements: as fast as
// whole tables where these have four times as many elements, and faster from there on.
constexpr int64_t kTimesAsMany = 4;

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

// With another first axis, of whatever length fits.
Value with_rows(Value v, const Shape& row, CallSite site) {
  Shape shape{-1};
  for (const int64_t d : row.dims()) shape.push_back(d);
  return reshape(Operand(v, site), shape, site);
}

// The ids of all ranks and parts, in their order [part, rank, id], and a small table with a slot
// for each different one of them. Nothing depends on how many ids there are.
class SlotsOfIds {
 public:
  // `ids`: by part, those of all ranks.
  SlotsOfIds(const Values& ids, int64_t ranks, CallSite site) : site_(site) {
    Values parts;
    for (const Value& of_part : ids)
      parts.push_back(reshape(cast(Operand(of_part, site), i32, site), {1, ranks, -1}, site));
    const Value all = reshape(concat(parts, 0, site), {-1}, site);
    const auto [sorted, places] = sort(all, 0, /*descending=*/false, site);
    sorted_ = sorted;
    const Value ones = cast(equal(sorted_, sorted_, site), i32, site);
    const Value position = cumsum(ones, 0, {.exclusive = true}, site);
    const Value before = gather(sorted_, maximum(sub(position, 1, site), 0, site), 0, site);
    const Value begins = not_equal(sorted_, before, site);  // but for the first one
    first_ = logical_or(begins, equal(position, 0, site), site);
    slot_of_sorted_ = cumsum(cast(begins, i32, site), 0, {}, site);
    const Value slots = scatter_add(sub(ones, ones, site), places, slot_of_sorted_, site);
    slots_ = reshape(slots, {static_cast<int64_t>(ids.size()), ranks, -1}, site);
  }

  // Returns the slots of the ids of a part of a rank.
  Value of(int64_t part, int64_t rank) const {
    const auto number = [&](int64_t n) {
      return slots_.graph().constant(Tensor::scalar(n), site_);
    };
    return gather(gather(slots_, number(part), 0, site_), number(rank), 0, site_);
  }

  // Returns the whole table of what a small one has. An id that comes several times has its slot at
  // the first of them, the others add zeros.
  Value spread(Value small, const Value& table) const {
    Shape one_a_row{-1};
    for (size_t axis = 1; axis < table.shape().rank(); ++axis) one_a_row.push_back(1);
    const Value first = reshape(Operand(first_, site_), one_a_row, site_);
    const Value rows = select(first, gather(small, slot_of_sorted_, 0, site_), 0, site_);
    const Value zeros = zeros_of(table.graph(), {f32, table.shape()}, site_);
    return scatter_add(zeros, sorted_, rows, site_);
  }

 private:
  CallSite site_;
  Value sorted_;          // ids
  Value first_;           // whether an id is the first one of its kind among these
  Value slot_of_sorted_;  // by place among the sorted ids
  Value slots_;           // [parts, ranks, ids]
};

// `ids` and `rows`: by part, those of all ranks.
Value sum_of_table(const Value& table, const Values& ids, const Values& rows, int64_t ranks,
                   CallSite site) {
  Shape row;
  for (size_t axis = 1; axis < table.shape().rank(); ++axis) row.push_back(table.shape()[axis]);
  const SlotsOfIds slots(ids, ranks, site);
  Values flat;
  for (const Value& of_part : rows) flat.push_back(with_rows(of_part, row, site));
  const Value all = concat(flat, 0, site);
  // As many rows, all zero whatever numbers they have.
  const Value zeros = cast(less(all, all, site), f32, site);
  Values of_ranks;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const Value number = table.graph().constant(Tensor::scalar(rank), site);
    Values parts;
    for (size_t part = 0; part < rows.size(); ++part)
      parts.push_back(scatter_add(zeros, slots.of(static_cast<int64_t>(part), rank),
                                  with_rows(gather(rows[part], number, 0, site), row, site), site));
    of_ranks.push_back(tree_sum(parts, site));
  }
  return slots.spread(tree_sum(of_ranks, site), table);
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

bool gathering_pays(const std::vector<LookedUpRows>& look_ups, Value table, int64_t ranks) {
  int64_t travelling = 0;
  for (const LookedUpRows& look_up : look_ups) {
    const auto ids = elements_of(look_up.ids), rows = elements_of(look_up.rows);
    if (!ids || !rows) return false;
    travelling += *ids + *rows;
  }
  const auto whole = elements_of(table);
  return whole && checked_mul(travelling, ranks, "elements") <= *whole / kTimesAsMany;
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
    Values ids, rows;
    for (size_t part = 0; part < table.look_ups.size(); ++part) {
      ids.push_back(*next++);
      rows.push_back(*next++);
    }
    const Value sum = sum_of_table(table.table, ids, rows, group->size(), site);
    sums.push_back(mul(sum, options.scale, site));
  }
  return sums;
}

}  // namespace keel
