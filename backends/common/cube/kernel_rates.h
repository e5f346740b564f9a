// KernelRates: what this processor multiplies in a second, for each class of shapes and dtype, by
// each kernel that the host has; and the choice of kernels that follows. Plain values; measuring
// takes the calling thread alone, and REQUIRES that nobody selects another host ISA meanwhile.
#ifndef KEEL_BACKENDS_COMMON_CUBE_KERNEL_RATES_H
#define KEEL_BACKENDS_COMMON_CUBE_KERNEL_RATES_H

#include <cstdint>
#include <vector>

#include "keel/backends/common/vector/product_kernels.h"
#include "keel/core/base/dtype.h"
#include "keel/core/base/export.h"

namespace keel {

using vector::ProductKernel;
using vector::ProductKernels;
using vector::ShapeClass;

// One cell of the table. Products of f32 and bf16 with few columns have bytes on the left, as first
// layers do; all others are measured as they are stored.
struct KernelRate {
  DType dtype = f32;
  ShapeClass shape = ShapeClass::kSquare;
  ProductKernel kernel = ProductKernel::kF32;
  double gflops = 0;
};
struct KernelRates {
  int64_t turns = 0;  // in which each was measured
  std::vector<KernelRate> cells;
};

// Another kernel than the set's own has to be this many times as fast. The least of many times is
// what a processor can do, and noise moves that by far less, so that two measurements choose
// differently only where the true ratio lies at the margin itself.
inline constexpr double kClearMargin = 1.3;
// Fewer turns choose nothing.
inline constexpr int64_t kLeastTurns = 5;

// Returns the cells of a table for a host ISA, without rates: all kernels of bf16, and the only one
// of f32 and of f16.
KEEL_API KernelRates rate_cells(vector::HostIsa isa);

// Measures all cells of the host ISA in use, in turns, in at most 50 ms of this thread's time where
// a turn takes less than 10.
KEEL_API KernelRates measure_kernel_rates();

// Returns for each class the set's own kernel, or one that is faster by the clear margin. Rates
// that are missing choose nothing, either.
KEEL_API ProductKernels choose_product_kernels(vector::HostIsa isa, const KernelRates& rates);

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_CUBE_KERNEL_RATES_H
