// OpTable: the ops that graphs may use, by name. The built-in table is filled
// by ops/ (the list is generated from the files there) on first use and lives
// as long as the process. Reading: any thread. Adding: before graphs use it.
#ifndef KEEL_GRAPH_IR_OP_TABLE_H
#define KEEL_GRAPH_IR_OP_TABLE_H

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "keel/core/base/export.h"
#include "keel/graph/ir/op_def.h"

namespace keel {

class KEEL_API OpTable {
 public:
  // Throws Error when the name is taken or a mandatory part is missing.
  const OpDef& add(OpDef op);
  // nullptr when there is none.
  const OpDef* find(std::string_view name) const;
  // Throws Error that suggests the nearest name.
  const OpDef& at(std::string_view name) const;
  // Lists all ops in name order.
  std::vector<const OpDef*> all() const;

 private:
  std::map<std::string, std::unique_ptr<OpDef>, std::less<>> ops_;
};

KEEL_API const OpTable& builtin_ops();

// Generated from the files in ops/: calls register_<file>(table) for each.
void register_all_ops(OpTable& table);

}  // namespace keel

#endif  // KEEL_GRAPH_IR_OP_TABLE_H
