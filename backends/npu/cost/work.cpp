#include "keel/backends/npu/cost/work.h"

#include <algorithm>

#include "keel/backends/common/tile_program.h"
#include "keel/core/base/checked.h"

namespace keel::npu {
namespace {

constexpr int64_t kTileStep = 64;  // elements
static_assert(kTileStep * 2 * static_cast<int64_t>((kMostTileArguments + 1) * sizeof(double)) <=
              kLeastUnifiedBuffer);  // the operands, and what lies between instructions

}  // namespace

const char* name_of(Limit limit) noexcept {
  static constexpr const char* kNames[] = {"none",
                                           "rows < cores",
                                           "too few bytes",
                                           "reduction axis not split",
                                           "no atomic add for the dtype",
                                           "tile alignment",
                                           "dependency",
                                           "memory bandwidth",
                                           "user cap",
                                           "host",
                                           "links"};
  return kNames[static_cast<size_t>(limit)];
}

void add_traffic(const Node& node, VectorWork& work) {
  work.loads = work.stores = 0;
  for (const Value& v : node.inputs()) {
    work.bytes_in = checked_add(work.bytes_in, bytes_of(v.type()));
    if (v.shape().num_elements() > 1) ++work.loads;
  }
  for (const Type& t : node.types()) {
    work.bytes_out = checked_add(work.bytes_out, bytes_of(t));
    ++work.stores;
  }
  work.loads = std::max<int64_t>(work.loads, node.inputs().empty() ? 0 : 1);
}

void cut_evenly(VectorWork& work, int64_t total, int64_t widest) {
  work.elements_per_unit = std::max<int64_t>(1, kVectorBytes / std::max<int64_t>(1, widest));
  work.units = std::max<int64_t>(1, divide_up(total, work.elements_per_unit));
  if (total < work.elements_per_unit) work.elements_per_unit = total;
}

std::string units_reason(const VectorWork& work) {
  return std::to_string(work.units) + " aligned unit" + (work.units == 1 ? "" : "s") + " of " +
         std::to_string(kVectorBytes) + " bytes";
}

int64_t tile_that_fits(const Preset& preset, int64_t bytes_per_element) {
  const int64_t fits = preset.ub_bytes / std::max<int64_t>(1, bytes_per_element);
  return std::max(kTileStep, fits / kTileStep * kTileStep);
}

void set_residency(const Preset& preset, const Residency& residency, NodeWork& work) {
  const auto share = [&](double bytes) {
    const auto l2 = static_cast<double>(preset.l2_bytes);
    return l2 <= 0 ? 0.0 : std::clamp(2 - bytes / l2, 0.0, 1.0);
  };
  if (work.cube) {
    CubeWork& cube = *work.cube;
    const double results =
        static_cast<double>(cube.batch) * static_cast<double>(cube.m) * static_cast<double>(cube.n);
    const int64_t size = cube.epilogue_bytes_out >= 0 ? cube.epilogue_bytes_out
                                                      : size_in_bytes(cube.wide ? f32 : cube.dtype);
    const double fits =
        share(static_cast<double>(cube.bytes_a) + static_cast<double>(cube.bytes_b) +
              results * static_cast<double>(size + cube.epilogue_bytes_in));
    cube.warm = fits * residency.operands;
    cube.warm_out = fits * residency.results;
  }
  for (Split& split : work.splits) {
    VectorWork& vector = split.work;
    const double fits =
        share(static_cast<double>(vector.bytes_in) + static_cast<double>(vector.bytes_out));
    vector.cached_bytes =
        static_cast<int64_t>(fits * residency.operands * static_cast<double>(vector.bytes_in));
    vector.cached_out =
        static_cast<int64_t>(fits * residency.results * static_cast<double>(vector.bytes_out));
  }
}

Split copy_split(const Preset& preset, int64_t bytes) {
  Split split;
  VectorWork& work = split.work;
  work.bytes_in = work.bytes_out = bytes;
  work.tile_elements = tile_that_fits(preset, 2);
  cut_evenly(work, bytes, 1);
  split.reason = units_reason(work);
  return split;
}

}  // namespace keel::npu
