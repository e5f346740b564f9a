// LaunchCache: what the scheduler decided for the nodes of one compilation, so that nodes that do
// the same to operands of the same types are decided once: deep graphs repeat few kinds of nodes.
// The nodes must outlive it. One thread.
#ifndef KEEL_BACKENDS_NPU_SCHEDULER_LAUNCH_CACHE_H
#define KEEL_BACKENDS_NPU_SCHEDULER_LAUNCH_CACHE_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>

#include "keel/backends/npu/scheduler/scheduler.h"

namespace keel::npu {

// Returns whether two nodes are one op with the same attributes, types and bodies. Values of
// constants and names of inputs count for nothing. A launch depends on this, and on which operands
// are one value.
bool same_work(const Node& a, const Node& b);

class LaunchCache {
 public:
  // schedule(), or what it gave for a node of the same work.
  std::shared_ptr<const Launch> launch(const Preset& preset, const AnchoredNode& anchored,
                                       const BlockDimOptions& options, const Packing& packing = {});
  // Returns how often schedule() was asked.
  int64_t scheduled() const noexcept { return static_cast<int64_t>(launches_.size()); }

 private:
  struct Entry {
    const Node* node;
    Packing packing;
    std::shared_ptr<const Launch> launch;
  };
  std::unordered_multimap<size_t, Entry> launches_;
};

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_SCHEDULER_LAUNCH_CACHE_H
