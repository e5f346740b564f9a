// NodeWork: what a node asks of the device, in the terms that prices are worked out from, and into
// how many units it can be cut. Pure; any thread.
#ifndef KEEL_BACKENDS_NPU_COST_WORK_H
#define KEEL_BACKENDS_NPU_COST_WORK_H

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "keel/backends/npu/cost/price.h"
#include "keel/graph/ir/node.h"

namespace keel::npu {

// Says what keeps a launch from using more cores.
enum class Limit : uint8_t {
  kNone,        // all cores are in use
  kRows,        // fewer rows than cores
  kBytes,       // too few bytes: another block costs more than it saves
  kReduction,   // the reduced axis is not split
  kAtomicAdd,   // no atomic add for the dtype, so partial sums cannot be merged
  kAlignment,   // fewer aligned units than cores
  kDependency,  // each part needs the one before
  kBandwidth,   // the memory is busy already
  kUserCap,
  kHost,   // the user wants it on the host
  kLinks,  // what the links to other cards take
};
const char* name_of(Limit limit) noexcept;

// One way to cut vector work, and what limits the number of its units.
struct Split {
  VectorWork work;
  Limit limit = Limit::kAlignment;
  std::string reason;  // for when the units run out
  // A reduction says how many neighbouring results a unit has, and whether a unit is one chunk of
  // the numeric plan, so that the partial results of several cores are merged.
  int64_t results_of_a_unit = 0;
  bool merges = false;
};

// Exactly one of the two is there.
struct NodeWork {
  std::optional<CubeWork> cube;
  std::vector<Split> splits;
};

// Says what of a product's right operand and results is kept packed for the cube behind the plain
// value.
struct Packing {
  int64_t right = 0;      // bytes of an element of the operand's copy; 0: it is read as stored
  int64_t copies = 0;     // bytes written for an element of the result, in its copies
  int64_t roundings = 0;  // copies that are in another dtype
  friend bool operator==(const Packing&, const Packing&) = default;
};

// ---- what descriptions of work are put together from

inline constexpr int64_t kVectorBytes = 256;   // one instruction's worth: what units are cut into
inline constexpr int64_t kFractal = 16;        // rows and columns of a square that cubes multiply
inline constexpr int64_t kRowAlignment = 512;  // rows that are multiples of it are copied fastest

inline int64_t size_in_bytes(DType dtype) { return static_cast<int64_t>(size_of(dtype)); }
inline int64_t bytes_of(const Type& type) {
  return static_cast<int64_t>(type.shape.num_bytes(type.dtype));
}
constexpr int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
// Returns how many rows or columns of a product a block has where a grid of so many blocks shares
// them: whole fractals, of which the last blocks may have fewer.
constexpr int64_t part_of_grid(int64_t extent, int64_t grid) {
  return std::min(extent, divide_up(divide_up(extent, kFractal), grid) * kFractal);
}
inline int64_t last_dim(const Type& type) { return type.shape.rank() == 0 ? 1 : type.shape.back(); }

// Bytes and transfers of a node's operands.
void add_traffic(const Node& node, VectorWork& work);
// Cuts `total` elements into units of one instruction's worth.
void cut_evenly(VectorWork& work, int64_t total, int64_t widest);
// "12 aligned units of 256 bytes".
std::string units_reason(const VectorWork& work);

// Shares of a task's bytes: of its operands what L2 holds when it begins, of its results what never
// goes to memory.
struct Residency {
  double operands = 0, results = 0;

  static const Residency kCold, kWarm;  // nothing and everything
};
inline constexpr Residency Residency::kCold{0, 0};
inline constexpr Residency Residency::kWarm{1, 1};

// Makes these shares warm where operands and results fit in L2 together; nothing of twice as many
// bytes, as the last ones have taken the place of the first; in between a part of the shares.
void set_residency(const Preset& preset, const Residency& residency, NodeWork& work);

// Copies of so many contiguous bytes within the device's memory.
Split copy_split(const Preset& preset, int64_t bytes);

// Returns elements of a tile whose every element takes `bytes_per_element` of unified buffer, in
// whole groups of 64. One group fits in the smallest that a preset may have (kLeastUnifiedBuffer)
// with kMostTileArguments operands of the widest dtype in two buffers each.
int64_t tile_that_fits(const Preset& preset, int64_t bytes_per_element);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_COST_WORK_H
