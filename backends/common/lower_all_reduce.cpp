// Lowering of sums over ranks: the values of a bucket are computed where they are summed. Values
// that are gathered are copied into this rank's part of the result.
#include <string>
#include <utility>

#include "keel/backends/common/lowering.h"
#include "keel/backends/common/task_text.h"
#include "keel/core/base/error.h"
#include "keel/graph/ir/all_reduce_attributes.h"
#include "keel/graph/ir/member_names.h"

namespace keel {

void Lowering::plan_all_reduces(const Scope& scope, const std::vector<bool>& live) {
  for (const Node& node : scope.graph.nodes()) {
    if (!live[node.id()] || all_reduce_of(node) == nullptr) continue;
    AllReduce& sums = all_reduces_[&node];
    sums.plan = library_.plan_all_reduce(node);
    const auto memory = static_cast<uint32_t>(list_.own_memories.size());
    list_.own_memories.push_back(sums.plan.own_memory);
    const AllReduceAttributes& attributes = *all_reduce_of(node);
    for (size_t i = 0; i < node.data_inputs().size(); ++i) {
      const Value root = root_of(node.input(i));
      sums.places.push_back(
          new_storage(Space::kOwn, memory, sums.plan.own_offsets[i], bytes_of(node.type(i))));
      if (attributes.gathers) {
        const size_t own_bytes = bytes_of(node.input(i).type());
        const auto rank = static_cast<size_t>(attributes.group->rank());
        sums.own_parts.push_back(new_storage(
            Space::kOwn, memory, sums.plan.own_offsets[i] + rank * own_bytes, own_bytes));
        continue;
      }
      // A value with another reader must not be summed where that one reads it.
      const bool read_here_alone = scope.uses[root] == 1 && !next_of_.contains(root);
      if (read_here_alone && pinnable(root)) pinned_[root] = sums.places.back();
    }
  }
}

void Lowering::lower_all_reduce(const Node& node) {
  const auto planned = all_reduces_.find(&node);
  if (planned == all_reduces_.end()) {
    throw Error({.op = "all_reduce",
                 .message = "in a body of while_loop or cond: every rank has to sum equally often",
                 .site = node.site()});
  }
  const std::vector<uint32_t>& places = planned->second.places;
  const bool gathers = !planned->second.own_parts.empty();
  const std::vector<uint32_t>& targets = gathers ? planned->second.own_parts : places;
  std::vector<Type> operands;  // the values, then their sums
  std::vector<size_t> changed;
  for (size_t i = 0; i < places.size(); ++i) {
    const uint32_t from = storage_of(node.input(i));
    if (from != targets[i]) emit_copy(from, targets[i], "into the bucket", node.site());
    operands.push_back(gathers ? node.type(i) : node.input(i).type());
    changed.push_back(i);
  }
  std::vector<uint32_t> arguments = places;
  arguments.insert(arguments.end(), places.begin(), places.end());
  for (size_t i = 0; i < places.size(); ++i) operands.push_back(node.type(i));
  emit_kernel(std::move(planned->second.plan), arguments,
              {.name = display_name(node),
               .op = op_text(node),
               .members = member_names(node),
               .types = types_text(node),
               .site = node.site(),
               .inputs = static_cast<uint32_t>(places.size()),
               .outputs = std::vector<DType>(places.size(), f32),
               .operands = std::move(operands),
               .changed = std::move(changed)});
  for (size_t i = 0; i < places.size(); ++i) put(node.output(i), places[i]);
}

}  // namespace keel
