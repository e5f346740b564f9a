#include "keel/graph/ir/all_reduce_attributes.h"

#include "keel/graph/ir/node.h"

namespace keel {

const AllReduceAttributes* all_reduce_of(const Node& node) {
  return same_struct(node.attributes().schema(), &attributes_schema<AllReduceAttributes>())
             ? &node.as<AllReduceAttributes>()
             : nullptr;
}

std::string bucket_text(const AllReduceAttributes& attributes) {
  return std::string(attributes.gathers ? "gathered " : "") + "bucket " +
         std::to_string(attributes.bucket + 1) + " of " + std::to_string(attributes.buckets);
}

}  // namespace keel
