// table_lookup: values of a table (core/resource/hash_table.h) by integer keys. What is in the
// table becomes part of the graph, so it has to be filled before.
#ifndef KEEL_OPS_TABLE_H
#define KEEL_OPS_TABLE_H

#include <cstdint>
#include <memory>

#include "keel/core/base/export.h"
#include "keel/core/resource/hash_table.h"
#include "keel/graph/ir/operand.h"

namespace keel {

// Returns the values (i64) of keys (i64 or i32, any shape), `default_value` for those that are not
// in the table. No gradient. Throws Error for a table that is not filled, or whose keys are
// strings.
KEEL_API Value table_lookup(const std::shared_ptr<HashTable>& table, Operand keys,
                            int64_t default_value = -1, CallSite site = CallSite::here());

}  // namespace keel

#endif  // KEEL_OPS_TABLE_H
