// ref: the oracle. Each node is one task whose kernel is the op's own reference function; nothing
// is fused, nothing is clever.
#include <memory>

#include "keel/backends/common/host_backend.h"
#include "keel/backends/common/reference_kernel.h"

namespace keel {
namespace {

class ReferenceLibrary final : public KernelLibrary {
 public:
  Support supports(const Node& node) const override { return supports_reference(node); }
  KernelPlan plan(const Node& node, const StateLayouts&) const override {
    return plan_reference(node);
  }
  KernelPlan plan_copy(size_t bytes) const override {
    KernelPlan plan;
    plan.kernel = make_copy_kernel(bytes);
    plan.kind = TaskKind::kMemcpy;
    return plan;
  }
  int64_t control_ns(TaskKind) const override { return 0; }
};

}  // namespace

std::unique_ptr<Backend> make_ref_backend() {
  return std::make_unique<HostBackend>("ref",
                                       "reference functions of the ops, one at a time: the oracle",
                                       std::make_unique<ReferenceLibrary>());
}

}  // namespace keel
