// KernelEntry: everything that the NPU knows of one kind of node: whether it runs it, with which
// kernel, and what the work asks of the modelled device. The entries stand in the files of their
// kernels; the library, the scheduler and the passes behind them look nothing else up. Immutable;
// any thread.
#ifndef KEEL_BACKENDS_NPU_KERNELS_KERNEL_ENTRY_H
#define KEEL_BACKENDS_NPU_KERNELS_KERNEL_ENTRY_H

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "keel/backends/common/anchored_node.h"
#include "keel/backends/common/kernel.h"
#include "keel/backends/common/products/cube_kernel.h"
#include "keel/backends/npu/cost/work.h"
#include "keel/backends/npu/kernels/planned_entry.h"

namespace keel::npu {

struct WorkRequest {
  const Preset& preset;
  const AnchoredNode& anchored;
  const Packing& packing;
};

struct KernelEntry {
  std::vector<std::string_view> ops;  // of the anchor; none: `matches` says it all
  bool (*matches)(const AnchoredNode&) = nullptr;
  // Says whether the kernel takes a node that the entry matches.
  Support (*supports)(const AnchoredNode&) = nullptr;
  // REQUIRES that it is supported, here and below.
  KernelPlan (*plan)(const AnchoredNode&, const PlanRequest&) = nullptr;
  // Throws Error for an op without a price.
  NodeWork (*work)(const WorkRequest&) = nullptr;
  // Counts how often the op goes through the vector unit's lanes for each element, where no vector
  // instruction of its name says so; assumed, as no such table is published.
  int64_t passes = 0;
  // Returns the tasks that a fused node's prologue, anchors and epilogue would be by themselves,
  // with the ways to cut each. Null: fusing always pays.
  std::vector<std::vector<Split>> (*apart)(const Preset&, const AnchoredNode&) = nullptr;
  // Says whether f16 results have to be stopped at +-65504 once the kernel has run
  // (vector::saturate_results); null: never, the kernel does it itself.
  bool (*saturates_behind)(const AnchoredNode&) = nullptr;
  // How strict runs carry out the launch as it is planned.
  const PlannedEntry* planned = nullptr;
};

// Passes of a reduction for each element that it takes in. Within rows the lanes of a register meet
// step by step; along other axes whole registers do, at once. Fitted to measured layer norms,
// softmaxes and sums within rows, and to gradients of biases (measured/).
inline constexpr int64_t kPassesOfAReduction = 5;
inline constexpr int64_t kPassesAcrossRows = 1;
inline constexpr int64_t kPassesOfOneResult = 2;  // lanes meet once, at the end

// Returns an entry for each kind, by file. The first that matches counts.
std::span<const KernelEntry> shared_entries();   // what moves, indexes and draws
std::span<const KernelEntry> vector_entries();   // element-wise work and reductions
std::span<const KernelEntry> product_entries();  // on the cube, and of integers on the vector unit
std::span<const KernelEntry> softmax_entries();

// Null where no entry matches.
const KernelEntry* find_entry(const AnchoredNode& anchored);

// Returns what the node asks of the device. Throws like KernelEntry::work, and for a node without
// an entry.
NodeWork work_of(const Preset& preset, const AnchoredNode& anchored, const Packing& packing = {});

// Returns the passes of a vector instruction or of an entry. Throws Error where the op has no
// price.
int64_t passes_of(const Node& node);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_KERNELS_KERNEL_ENTRY_H
