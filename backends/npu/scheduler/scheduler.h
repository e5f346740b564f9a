// The scheduler: for a node and a preset it chooses the tiling and the number of blocks that the
// prices favour, and records why there are not more. It says what the modelled device would do; how
// the host deals its own work to threads is another matter, so no choice here changes a result.
// Pure; any thread.
#ifndef KEEL_BACKENDS_NPU_SCHEDULER_SCHEDULER_H
#define KEEL_BACKENDS_NPU_SCHEDULER_SCHEDULER_H

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "keel/backends/npu/cost/price.h"
#include "keel/backends/npu/cost/work.h"
#include "keel/backends/npu/kernels/kernel_entry.h"
#include "keel/core/base/export.h"
#include "keel/core/device/backend.h"

namespace keel::npu {

// Launches that copy, and stand for no node, are called so where an op's name is expected.
inline constexpr const char* kCopyLaunch = "copy";

// Holds what a user may say about the number of blocks; at least 1 each. A forced number is taken
// as far as there are cores and units of work for it.
struct BlockDimOptions {
  std::optional<int64_t> cap{};            // of every launch
  std::map<std::string, int64_t> force{};  // by op name, or kCopyLaunch
};

// Says what became of one node.
struct Launch {
  std::string op;
  std::vector<Type> inputs, outputs;
  TaskPrice price;
  bool cube = false;
  CubeTiling tiling;  // where `cube`
  CubeWork product;   // the same
  Split split;        // where not
  Limit limit = Limit::kNone;
  std::string reason;   // in words, with numbers; empty where all cores are in use
  std::string variant;  // how it is priced, where that is not obvious
  std::string fix;      // what would make it faster, where it gains anything
  int64_t gain_ns = 0;  // by how much, modelled (gain_of)
  // The fix would make these tasks of this one; none where it would make it a part of another,
  // which may keep its results on the core.
  std::vector<Launch> instead;
  bool keeps_results = false;
};

// Throws Error for an op without a price and for one that needs more buffer than there is.
Launch schedule(const Preset& preset, const AnchoredNode& anchored,
                const BlockDimOptions& options = {}, const Packing& packing = {});
Launch schedule_copy(const Preset& preset, int64_t bytes, const BlockDimOptions& options = {});
// A sum over ranks (graph/ir/all_reduce_attributes.h), of a bucket of so many bytes.
Launch schedule_all_reduce(const Preset& preset, const Node& node, int64_t bytes);
// A node that is placed on the host (graph/ir/placement.h).
Launch schedule_on_host(const Preset& preset, const Node& node);

// The steps of schedule(), for tests and calibration. `blocks` bounds the number of blocks.
struct Choice {
  TaskPrice price;
  CubeTiling tiling;
  size_t split = 0;
  bool rows_in_memory = false;  // whole rows of a product wait there (with_rows_in_memory)
};
Choice choose_vector(const Preset& preset, const std::vector<Split>& splits, int64_t blocks,
                     bool forced = false);
// Returns the work where unified buffer has no room for the whole rows that row-wise ops want: they
// wait in global memory, in f32.
CubeWork with_rows_in_memory(CubeWork work);
Choice choose_cube(const Preset& preset, const CubeWork& work, int64_t blocks, bool forced = false);

// Returns whether the device takes a fused node of the entry in no more time than its parts one
// after the other: a reduction that few cores can share would keep what is computed before it from
// the others.
Support pays(const Preset& preset, const AnchoredNode& fused, const KernelEntry& entry);

// Returns the number of blocks that a divisible op of this single-core time wants: sqrt(W / per
// block), or all of so many cores where blocks cost nothing to start.
double best_blocks(const Preset& preset, double single_core_ns, int64_t cores);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_SCHEDULER_SCHEDULER_H
