// NpuLibrary: the kernels of one compilation, with what the scheduler decided for each: made by the
// backend for a program and a preset, used by one thread.
#ifndef KEEL_BACKENDS_NPU_NPU_LIBRARY_H
#define KEEL_BACKENDS_NPU_NPU_LIBRARY_H

#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "keel/backends/common/anchored_node.h"
#include "keel/backends/common/kernel.h"
#include "keel/backends/common/planned_run.h"
#include "keel/backends/common/products/prepacked_weight.h"
#include "keel/backends/npu/kernels/planned_entry.h"
#include "keel/backends/npu/scheduler/launch_cache.h"

namespace keel::npu {

// TaskLaunch: a task's launch, which tasks of the same work share, and a remark on the task itself.
struct TaskLaunch {
  std::shared_ptr<const Launch> launch;
  std::string remark = "";  // what is true of this task alone; mostly empty

  // Returns how it is priced, where that is not obvious, and the remark.
  std::string variant() const;
};

class NpuLibrary final : public KernelLibrary {
 public:
  // `strict`: programs also get what carries their launches out as planned.
  explicit NpuLibrary(std::shared_ptr<const Preset> preset, BlockDimOptions options = {},
                      bool strict = false)
      : preset_(std::move(preset)),
        options_(std::move(options)),
        strict_(strict),
        epilogues_(preset_->saturate_f16) {}

  Support supports(const Node& node) const override;
  StateLayouts choose_layouts(const Graph& step) const override {
    return choose_weight_layouts(step);
  }
  // Prices each kernel: throws Error for an op without a price.
  KernelPlan plan(const Node& node, const StateLayouts& layouts) const override;
  KernelPlan plan_on_host(const Node& node) const override;
  KernelPlan plan_copy(size_t bytes) const override;
  KernelPlan plan_status_read(size_t words) const override;
  KernelPlan plan_row_view(const Node& node) const override;
  KernelPlan plan_all_reduce(const Node& node) const override;
  int64_t control_ns(TaskKind) const override { return preset_->control_task_ns; }

  // Holds what was decided for the kernels planned so far.
  using Launches = std::unordered_map<const Kernel*, TaskLaunch>;
  Launches take_launches() { return std::move(launches_); }
  PlannedRuns take_planned_runs() { return std::move(planned_runs_); }

 private:
  void keep_run(const Kernel& kernel, PlannedLaunch planned, TaskLaunch& task) const;
  KernelPlan price(KernelPlan plan, TaskLaunch task) const;

  std::shared_ptr<const Preset> preset_;
  BlockDimOptions options_;
  bool strict_;
  mutable Launches launches_;
  mutable PlannedRuns planned_runs_;
  mutable LaunchCache cache_;
  mutable SharedEpilogues epilogues_;
};

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_NPU_LIBRARY_H
