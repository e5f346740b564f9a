#include "keel/backends/npu/scheduler/resident_price.h"

#include <algorithm>

#include "keel/backends/npu/scheduler/bytes_once.h"

namespace keel::npu {
namespace {

// Makes these shares of the launch's vector work warm. L2 holds a byte once that is read again.
void set_residency_once(const Preset& preset, const Launch& launch, const Residency& residency,
                        NodeWork& work) {
  VectorWork& vector = work.splits[0].work;
  const int64_t all = vector.bytes_in, once = std::min(all, launch.price.bytes_in);
  vector.bytes_in = once;
  set_residency(preset, residency, work);
  vector.bytes_in = all;
  if (once < all && once > 0) {
    const double share = static_cast<double>(vector.cached_bytes) / static_cast<double>(once);
    vector.cached_bytes = static_cast<int64_t>(share * static_cast<double>(all));
  }
}

// Returns the launch's work with those shares in L2.
NodeWork resident_work(const Preset& preset, const Launch& launch, const Residency& residency) {
  NodeWork work;
  if (launch.cube) {
    work.cube = launch.product;
    set_residency(preset, residency, work);
    return work;
  }
  work.splits = {launch.split};
  // A lone block has nothing to merge (choose_vector).
  if (launch.price.block_dim == 1) work.splits[0].work.bytes_out_per_block = 0;
  set_residency_once(preset, launch, residency, work);
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
  if (launch.cube) return price_cube(preset, *work.cube, launch.tiling);
  const VectorWork& vector = work.splits[0].work;
  TaskPrice price = price_vector(preset, vector, launch.price.block_dim);
  count_once(preset, vector, launch.price.bytes_in, price);
  return price;
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
