// cpu: computes in host memory: the cube's kernels for products of f32 and 16-bit floats, Eigen for
// those of f64, the vector library for the rest, oneTBB behind parallel_for.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "keel/backends/common/anchored_node.h"
#include "keel/backends/common/cube/kernel_choice.h"
#include "keel/backends/common/host_backend.h"
#include "keel/backends/common/shared_kernels.h"
#include "keel/backends/common/vector/host_isa.h"
#include "keel/backends/cpu/kernels.h"

namespace keel {
namespace cpu {
namespace {

constexpr int kMostBlocks = 16;  // of a shared kernel

class CpuLibrary final : public KernelLibrary {
 public:
  Support supports(const Node& node) const override {
    if (find_shared_kernel(node) != nullptr) return supports_shared_kernel(node);
    const AnchoredNode anchored(node);
    const KernelEntry* entry = find_entry(anchored);
    return entry == nullptr ? Support{false, "no kernel for it"} : entry->supports(anchored);
  }

  KernelPlan plan(const Node& node, const StateLayouts&) const override {
    if (const SharedKernel* shared = find_shared_kernel(node))
      return shared->plan(node, kMostBlocks);
    const AnchoredNode anchored(node);
    return find_entry(anchored)->plan(anchored);
  }

  KernelPlan plan_copy(size_t bytes) const override {
    KernelPlan plan;
    plan.kernel = make_copy_kernel(bytes);
    plan.kind = TaskKind::kMemcpy;
    return plan;
  }

  int64_t control_ns(TaskKind) const override { return 0; }
};

class CpuBackend final : public HostBackend {
 public:
  // A KEEL_ISA that is wrong is reported here, not when a program is compiled.
  CpuBackend()
      : HostBackend("cpu", "the host's processor: vector kernels, Eigen, oneTBB threads",
                    std::make_unique<CpuLibrary>()) {
    static_cast<void>(vector::host_isa());
  }

  std::vector<DeviceInfo> devices() const override {
    std::vector<DeviceInfo> infos = HostBackend::devices();
    infos.at(0).properties = {{"isa", host_isa_name()},
                              {"available isas", vector::available_host_isa_names()}};
    return infos;
  }
};

}  // namespace

const KernelEntry* find_entry(const AnchoredNode& anchored) {
  const std::string_view op = anchored.anchor().op_name();
  for (const auto family : {vector_entries(), product_entries()}) {
    for (const KernelEntry& entry : family) {
      const bool named =
          entry.ops.empty() || std::find(entry.ops.begin(), entry.ops.end(), op) != entry.ops.end();
      if (named && (entry.matches == nullptr || entry.matches(anchored))) return &entry;
    }
  }
  return nullptr;
}

}  // namespace cpu

std::unique_ptr<Backend> make_cpu_backend() { return std::make_unique<cpu::CpuBackend>(); }

}  // namespace keel
