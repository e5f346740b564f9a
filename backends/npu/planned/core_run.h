// CoreRun: what planned runs on modelled cores share: the core that walks the launch's blocks one
// behind the other, the demand that every output element is written once, and the launch's float
// status. Immutable; one thread at a time.
#ifndef KEEL_BACKENDS_NPU_PLANNED_CORE_RUN_H
#define KEEL_BACKENDS_NPU_PLANNED_CORE_RUN_H

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "keel/backends/npu/kernels/planned_entry.h"
#include "keel/backends/npu/planned/written_once.h"
#include "keel/backends/npu/scheduler/tile_plan.h"

namespace keel::npu {

// The parts of a launch that every run needs (PlannedRequest).
struct CoreLaunch {
  std::shared_ptr<const Preset> preset;
  std::string op;
  TilePlan plan;
  std::optional<size_t> status_argument = {};
};

class CoreRun : public PlannedRun {
 public:
  explicit CoreRun(CoreLaunch launch);
  CoreRun(const PlannedRequest& request, TilePlan plan);
  void run(void* const* args) const final;

 protected:
  // Runs all blocks; names its outputs in `written`, which is empty, and what it writes of them.
  // Returns the status bits raised.
  virtual uint32_t run_blocks(Core& core, void* const* args,
                              std::vector<WrittenOnce>& written) const = 0;

  const Preset& preset() const noexcept { return *launch_.preset; }
  const std::string& op() const noexcept { return launch_.op; }
  const TilePlan& plan() const noexcept { return launch_.plan; }
  // Return the largest extent of a tile.
  int64_t most_rows() const;
  int64_t most_columns() const;

 private:
  CoreLaunch launch_;
};

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_PLANNED_CORE_RUN_H
