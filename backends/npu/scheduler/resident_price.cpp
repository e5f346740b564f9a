#include "keel/backends/npu/scheduler/resident_price.h"

#include <algorithm>

namespace keel::npu {
namespace {

// Returns the launch's work with those shares in L2.
NodeWork resident_work(const Preset& preset, const Launch& launch, const Residency& residency) {
  NodeWork work;
  if (launch.cube) {
    work.cube = launch.product;
  } else {
    work.splits = {launch.split};
    // A lone block has nothing to merge (choose_vector).
    if (launch.price.block_dim == 1) work.splits[0].work.bytes_out_per_block = 0;
  }
  set_residency(preset, residency, work);
  return work;
}

// Returns what memory and L2 take for the results of vector work.
int64_t results_ns(const Preset& preset, const Launch& launch, const Residency& residency) {
  const int64_t held = resident_work(preset, launch, residency).splits[0].work.cached_out;
  double ns = static_cast<double>(launch.price.bytes_out - held) / preset.hbm_gb_per_s;
  if (held > 0) ns += static_cast<double>(held) / preset.l2_gb_per_s;
  return static_cast<int64_t>(ns);
}

}  // namespace

TaskPrice resident_price(const Preset& preset, const Launch& launch, const Residency& residency) {
  const NodeWork work = resident_work(preset, launch, residency);
  return launch.cube ? price_cube(preset, *work.cube, launch.tiling)
                     : price_vector(preset, work.splits[0].work, launch.price.block_dim);
}

int64_t gain_of(const Preset& preset, const Launch& launch, const Residency& residency) {
  if (launch.fix.empty()) return 0;
  const TaskPrice price = resident_price(preset, launch, residency);
  int64_t gain = price.overhead_ns;
  if (!launch.instead.empty()) {
    gain = price.total_ns;
    for (const Launch& other : launch.instead)
      gain -= resident_price(preset, other, residency).total_ns;
  } else if (launch.keeps_results) {
    gain = std::max(gain, results_ns(preset, launch, residency));
  }
  return std::clamp<int64_t>(gain, 0, price.total_ns);
}

}  // namespace keel::npu
