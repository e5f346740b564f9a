#include "keel/backends/common/kernel.h"

#include <unordered_set>

#include "keel/backends/common/all_reduce_kernel.h"
#include "keel/backends/common/float_status_kernel.h"
#include "keel/backends/common/host_backend.h"
#include "keel/backends/common/reference_kernel.h"
#include "keel/backends/common/row_view.h"
#include "keel/backends/common/uses.h"
#include "keel/graph/ir/all_reduce_attributes.h"
#include "keel/graph/ir/fused_body.h"
#include "keel/graph/ir/placement.h"

namespace keel {

Kernel::~Kernel() = default;
bool Kernel::run_waiting(void* const* args, const AbortContext&) const {
  run(args, 0, 0);
  return true;
}

void Kernel::fail(const char*) const noexcept {}

KernelLibrary::~KernelLibrary() = default;

StateLayouts KernelLibrary::choose_layouts(const Graph&) const { return {}; }

KernelPlan KernelLibrary::plan_on_host(const Node& node) const {
  return is_placed_by_policy(node) ? plan_on_host_processor(node) : plan_reference(node);
}

KernelPlan KernelLibrary::plan_status_read(size_t words) const {
  return keel::plan_status_read(words);
}

KernelPlan KernelLibrary::plan_row_view(const Node& node) const {
  return keel::plan_row_view(node);
}

KernelPlan KernelLibrary::plan_all_reduce(const Node& node) const {
  return keel::plan_all_reduce(node);
}

const StateLayout* layout_of(const StateLayouts& layouts, Value v) {
  const auto it = layouts.find(root_of(v));
  return it == layouts.end() ? nullptr : &it->second;
}

const char* name_of(TaskKind kind) noexcept {
  static constexpr const char* kNames[] = {
      "AI_CORE",  "AI_VECTOR_CORE", "AI_CPU",      "MEMCPY",  "LOOP_SWITCH",
      "LOOP_INC", "LOOP_RESET",     "LOOP_ACTIVE", "DEQUEUE", "RELEASE_SLOT",
      "METRIC",   "COMMIT",         "HCCL"};
  return kNames[static_cast<size_t>(kind)];
}

Support supports_in_task_list(const KernelLibrary& library, const Node& node) {
  const bool anywhere = node.is(OpRole::kDequeue) || node.is(OpRole::kStepEnd) ||
                        node.is(OpRole::kFloatStatus) || all_reduce_of(node) != nullptr;
  if (node.has(kSource | kView) || anywhere) return {true, ""};
  if (is_placed_by_policy(node)) return supports_on_host_processor(node);
  if (is_on_host(node)) return supports_reference(node);
  if (is_fused_node(node)) {
    for (const Node& inner : node.bodies()[0]->nodes()) {
      if (is_on_host(inner)) return {false, inner.op_name() + " runs on the host"};
    }
  }
  const bool control =
      node.is(OpRole::kWhile) || node.is(OpRole::kCond) || node.is(OpRole::kSunkLoop);
  if (!control) return library.supports(node);
  // Nodes that share a body have equal inputs, so the library is asked once for each body.
  std::unordered_set<const Graph*> supported_bodies;
  for (const auto& body : node.bodies()) {
    for (const Node& inner : body->nodes()) {
      const bool fused = is_fused_node(inner);
      if (fused && supported_bodies.contains(inner.bodies()[0].get())) continue;
      // Composite nodes in a body are decomposed on their own; here only what has no way out
      // counts.
      const Support support = supports_in_task_list(library, inner);
      if (!support.supported && inner.op().decompose == nullptr) {
        return {false, "its body needs " + inner.op_name() + ": " + support.reason};
      }
      if (fused && support.supported) supported_bodies.insert(inner.bodies()[0].get());
    }
  }
  return {true, ""};
}

}  // namespace keel
