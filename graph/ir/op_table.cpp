#include "keel/graph/ir/op_table.h"

#include <utility>

#include "keel/core/base/environment.h"
#include "keel/core/base/error.h"

namespace keel {

const OpDef& OpTable::add(OpDef op) {
  if (op.name.empty() || op.infer == nullptr) {
    throw Error({.op = "op table", .argument = op.name, .message = "an op needs a name and infer"});
  }
  if (op.reference == nullptr && op.decompose == nullptr && !op.has(kSource | kControl | kEffect)) {
    throw Error({.op = "op table", .argument = op.name, .message = "an op needs a reference"});
  }
  if (ops_.contains(op.name)) {
    throw Error({.op = "op table", .argument = op.name, .message = "the name is taken"});
  }
  auto owned = std::make_unique<OpDef>(std::move(op));
  owned->table = this;
  const std::string name = owned->name;
  return *(ops_[name] = std::move(owned));
}

const OpDef* OpTable::find(std::string_view name) const {
  const auto it = ops_.find(name);
  return it == ops_.end() ? nullptr : it->second.get();
}

const OpDef& OpTable::at(std::string_view name) const {
  if (const OpDef* op = find(name)) return *op;
  std::vector<std::string> names;
  for (const auto& [known, op] : ops_) names.push_back(known);
  const std::string near = nearest(std::string(name), names);
  throw Error({.op = std::string(name),
               .message = "there is no op of that name",
               .fix = near.empty() ? "" : "did you mean '" + near + "'?"});
}

std::vector<const OpDef*> OpTable::all() const {
  std::vector<const OpDef*> result;
  for (const auto& [name, op] : ops_) result.push_back(op.get());
  return result;
}

const OpTable& builtin_ops() {
  // Leaked on purpose: graphs in static storage may outlive it otherwise.
  static const OpTable* table = [] {
    auto* t = new OpTable();
    register_all_ops(*t);
    return t;
  }();
  return *table;
}

}  // namespace keel
