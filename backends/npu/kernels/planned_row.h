// PlannedRow: the part of a kernel's row that serves strict mode. It spells out the tiles of a
// launch, and carries them out on modelled cores with the same instructions as the kernel. Rows
// that have none are reported by name (ops_not_run_as_planned). Pure; any thread.
#ifndef KEEL_BACKENDS_NPU_KERNELS_PLANNED_ROW_H
#define KEEL_BACKENDS_NPU_KERNELS_PLANNED_ROW_H

#include <memory>
#include <optional>

#include "keel/backends/common/anchored_node.h"
#include "keel/backends/common/planned_run.h"
#include "keel/backends/npu/presets/preset.h"

namespace keel::npu {

struct Launch;
struct TilePlan;

struct PlannedRequest {
  std::shared_ptr<const Preset> preset;
  const AnchoredNode& anchored;
  const Launch& launch;
  const StateLayouts& layouts;
  // The kernel's plan: the argument with the status word, where it raises float status, and whether
  // f16 results stop at +-65504 once all else is done (KernelRow::saturates_behind).
  std::optional<size_t> status_argument = {};
  bool saturates_behind = false;
};

struct PlannedRow {
  TilePlan (*tiles)(const PlannedRequest&) = nullptr;
  // Null where the node is of a kind that is not carried out.
  std::shared_ptr<const PlannedRun> (*run)(const PlannedRequest&, TilePlan) = nullptr;
};

// They stand in planned/, with the work that each is named after.
extern const PlannedRow kPlannedElements;
extern const PlannedRow kPlannedRanges;  // of ops whose shared kernel is a RangeKernel
extern const PlannedRow kPlannedReduction;
extern const PlannedRow kPlannedProduct;
extern const PlannedRow kPlannedSoftmax;

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_KERNELS_PLANNED_ROW_H
