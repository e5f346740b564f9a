#include "keel/graph/ir/table_attributes.h"

#include "keel/graph/ir/node.h"

namespace keel {

std::shared_ptr<HashTable> table_read_by(const Node& node) {
  if (!same_struct(node.attributes().schema(), &attributes_schema<TableAttributes>()))
    return nullptr;
  const auto& attributes = node.as<TableAttributes>();
  std::shared_ptr<HashTable> table = HashTable::find(attributes.table);
  const bool is_that_one =
      table != nullptr && table->initialised() && table->keys_kind() == TableKeys::kIntegers &&
      bit_equal(table->keys(), attributes.keys) && bit_equal(table->values(), attributes.values);
  return is_that_one ? table : nullptr;
}

}  // namespace keel
