// TableAttributes: what an op has that reads a HashTable (core/resource/hash_table.h): the table's
// name and, since a table is immutable, all that is in it, so that graphs which are printed, saved
// or compiled stand for themselves. Plain values and pure functions; any thread.
#ifndef KEEL_GRAPH_IR_TABLE_ATTRIBUTES_H
#define KEEL_GRAPH_IR_TABLE_ATTRIBUTES_H

#include <cstdint>
#include <memory>
#include <string>

#include "keel/core/base/export.h"
#include "keel/core/resource/hash_table.h"
#include "keel/graph/ir/attributes.h"

namespace keel {

class Node;

struct TableAttributes {
  std::string table;           // its name
  Tensor keys;                 // i64 [n], ascending, each once
  Tensor values;               // i64 [n]
  int64_t default_value = -1;  // of keys that are not there
  static void fields(auto&& visit) {
    visit("table", &TableAttributes::table);
    visit("keys", &TableAttributes::keys);
    visit("values", &TableAttributes::values);
    visit("default_value", &TableAttributes::default_value);
  }
};

// Returns the table of this process that the node reads: of its name, with what the node has in it.
// Null where the node reads none, or one that is gone.
KEEL_API std::shared_ptr<HashTable> table_read_by(const Node& node);

}  // namespace keel

#endif  // KEEL_GRAPH_IR_TABLE_ATTRIBUTES_H
