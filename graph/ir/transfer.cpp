#include "keel/graph/ir/transfer.h"

#include "keel/graph/ir/node.h"

namespace keel {

const TransferAttributes* transfer_of(const Node& node) {
  return same_struct(node.attributes().schema(), &attributes_schema<TransferAttributes>())
             ? &node.as<TransferAttributes>()
             : nullptr;
}

}  // namespace keel
