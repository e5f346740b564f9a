// NodeWork: what a node asks of the device, in the terms that prices are worked out from, and into
// how many pieces it can be cut. Pure; any thread.
#ifndef KEEL_BACKENDS_NPU_SCHEDULER_WORK_H
#define KEEL_BACKENDS_NPU_SCHEDULER_WORK_H

#include <optional>
#include <string>
#include <vector>

#include "keel/backends/common/anchored_node.h"
#include "keel/backends/npu/cost/price.h"
#include "keel/graph/ir/node.h"

namespace keel::npu {

// What keeps a launch from using more cores.
enum class Limit : uint8_t {
  kNone,        // all cores are in use
  kRows,        // fewer rows than cores
  kBytes,       // too few bytes: another block costs more than it saves
  kReduction,   // the reduced axis is not split
  kAtomicAdd,   // no atomic add for the dtype, so partial sums cannot be merged
  kAlignment,   // fewer aligned pieces than cores
  kDependency,  // each part needs the one before
  kBandwidth,   // the memory is busy already
  kUserCap,
};
const char* name_of(Limit limit) noexcept;

// One way to cut vector work, and what limits the number of its pieces.
struct Split {
  VectorWork work;
  Limit limit = Limit::kAlignment;
  std::string reason;  // for when the pieces run out
};

// Exactly one of the two is there.
struct NodeWork {
  std::optional<CubeWork> cube;
  std::vector<Split> splits;
};

// What of a product's right operand and results is kept packed for the cube behind the plain value.
struct Packing {
  int64_t right = 0;      // bytes of an element of the operand's copy; 0: it is read as stored
  int64_t copies = 0;     // bytes written for an element of the result, in its copies
  int64_t roundings = 0;  // copies that are in another dtype
  friend bool operator==(const Packing&, const Packing&) = default;
};

// Throws Error for an op without a price, and where not even the smallest tile fits in unified
// buffer.
NodeWork work_of(const Preset& preset, const AnchoredNode& anchored, const Packing& packing = {});

// Of what a fused reduction would be as tasks of their own: its prologue (part 0), the reduction
// (1) and its epilogue (2); empty where it has no such part.
std::vector<Split> apart_of(const Preset& preset, const AnchoredNode& fused, size_t part);

// Copies of so many contiguous bytes within the device's memory.
Split copy_split(const Preset& preset, int64_t bytes);

// Elements of a tile whose every element takes `bytes_per_element` of unified buffer, in whole
// groups of 64. Throws Error naming `op` where none fits.
int64_t tile_that_fits(const Preset& preset, int64_t bytes_per_element, const std::string& op);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_SCHEDULER_WORK_H
