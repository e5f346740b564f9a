// PlannedEntry: the part of a kernel's entry that serves strict mode. It spells out the tiles of a
// launch, and carries them out on modelled cores with the same instructions as the kernel, or says
// why it does not. Pure; any thread.
#ifndef KEEL_BACKENDS_NPU_KERNELS_PLANNED_ENTRY_H
#define KEEL_BACKENDS_NPU_KERNELS_PLANNED_ENTRY_H

#include <memory>
#include <optional>
#include <string>

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
  // f16 results stop at +-65504 once all else is done (KernelEntry::saturates_behind).
  std::optional<size_t> status_argument = {};
  bool saturates_behind = false;
};

// A launch as planned; or null, and what keeps it from being carried out.
struct PlannedLaunch {
  std::shared_ptr<const PlannedRun> run;
  std::string why_not;
};

struct PlannedEntry {
  TilePlan (*tiles)(const PlannedRequest&) = nullptr;
  PlannedLaunch (*run)(const PlannedRequest&, TilePlan) = nullptr;
};

// They stand in planned/, with the work that each is named after.
extern const PlannedEntry kPlannedElements;
extern const PlannedEntry kPlannedRanges;  // of ops whose shared kernel is a RangeKernel
extern const PlannedEntry kPlannedReduction;
extern const PlannedEntry kPlannedProduct;
extern const PlannedEntry kPlannedPhases;
extern const PlannedEntry kPlannedIntegerProduct;
extern const PlannedEntry kPlannedScatterAdd;
extern const PlannedEntry kPlannedSoftmax;
// These say why they are not carried out.
extern const PlannedEntry kPlannedAttention;
extern const PlannedEntry kPlannedTransformedTiles;  // of convolutions

// A copy of so many bytes within the device's memory, which `launch` is for.
PlannedLaunch plan_copy_run(std::shared_ptr<const Preset> preset, const Launch& launch,
                            int64_t bytes);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_KERNELS_PLANNED_ENTRY_H
