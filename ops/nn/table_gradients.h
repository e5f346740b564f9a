// Gradients of tables that a loss looks rows up in: a few rows of them are not zero, so ranks may
// exchange the ids and the gradients of the rows that they looked up, in place of whole tables.
// Internal to ops/nn. Building: one thread per graph.
#ifndef KEEL_OPS_NN_TABLE_GRADIENTS_H
#define KEEL_OPS_NN_TABLE_GRADIENTS_H

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "keel/core/group/group.h"
#include "keel/graph/ir/graph.h"
#include "keel/ops/all_reduce.h"

namespace keel {

// A look-up: rows = gather(table, ids).
struct LookedUpRows {
  Value rows;
  Value ids;
};

// Returns the look-up by which each loss reads the f32 table; nothing where one of them reads the
// table in another way, more than once, or not at all.
std::optional<std::vector<LookedUpRows>> look_ups_of(const Values& losses, Value table);

// Says whether the table has several times as many elements as the ids and the rows of all ranks,
// which have to be sorted besides; false where not all sizes are known.
bool gathering_pays(const std::vector<LookedUpRows>& look_ups, Value table, int64_t ranks);

// A table with the look-ups of the parts of this rank's batch, and the gradients of their rows.
struct TableGradient {
  Value table;
  std::vector<LookedUpRows> look_ups;
  Values row_gradients;  // f32
};
// Gathers the ids and the gradients of all ranks in one collective, and returns for each table
// `scale` times the sum of its gradients. The gradient of each part is made by itself, and they are
// summed as a balanced tree, over the parts of a rank, then over ranks: with the bits of a sum over
// ranks of whole tables, where that is such a tree. They are summed in small tables, which have as
// many rows as there are ids; one scatter_add makes the whole one.
Values sum_table_gradients(const std::vector<TableGradient>& tables,
                           const std::shared_ptr<Group>& group, const AllReduceOptions& options,
                           CallSite site);

}  // namespace keel

#endif  // KEEL_OPS_NN_TABLE_GRADIENTS_H
