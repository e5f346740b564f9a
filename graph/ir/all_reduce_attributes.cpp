#include "keel/graph/ir/all_reduce_attributes.h"

#include <algorithm>
#include <cstddef>
#include <unordered_set>

#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/node.h"

namespace keel {
namespace {

// Finds what leads to a value of a graph, as far as the sums over ranks that it comes from.
class Origins {
 public:
  // False where some of it is known to differ from rank to rank.
  bool follow(Value value) {
    open_ = {value};
    while (!open_.empty()) {
      const Value next = open_.back();
      open_.pop_back();
      if (seen_.insert(next).second && !step(next)) return false;
    }
    return true;
  }
  // The inputs of the graph among it.
  const Values& inputs() const noexcept { return inputs_; }

 private:
  bool step(const Value& value) {
    const Node& node = value.node();
    if (all_reduce_of(node) != nullptr || node.is(OpRole::kConstant)) return true;
    if (node.is(OpRole::kInput)) inputs_.push_back(value);
    if (node.is(OpRole::kInput)) return true;
    if (node.has(kSource | kEffect) || node.ordered()) return false;
    if (node.is(OpRole::kFused)) return step_into(node, value.output());
    open_.insert(open_.end(), node.inputs().begin(), node.inputs().end());
    return true;
  }
  // A fused node's results do not depend on all of its inputs.
  bool step_into(const Node& node, size_t result) {
    const Graph& body = *node.bodies()[0];
    Origins inner;
    if (!inner.follow(body.outputs()[result])) return false;
    for (const Value& input : inner.inputs()) {
      const auto at = std::find(body.inputs().begin(), body.inputs().end(), input);
      open_.push_back(node.input(static_cast<size_t>(at - body.inputs().begin())));
    }
    return true;
  }

  Values open_, inputs_;
  std::unordered_set<Value, ValueHash> seen_;
};

}  // namespace

bool follows_from_sums(Value value) {
  Origins origins;
  return origins.follow(value) && origins.inputs().empty();
}

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
