// The reductions of the vector library. Each has one fixed order of operations that depends on the
// host ISA and the number of elements only, never on addresses, so equal input gives equal bits.
// Looked up once, for the host ISA in use; calling neither allocates nor throws; any thread.
#ifndef KEEL_BACKENDS_COMMON_VECTOR_REDUCTIONS_H
#define KEEL_BACKENDS_COMMON_VECTOR_REDUCTIONS_H

#include <cstddef>
#include <string_view>

#include "keel/backends/common/reduce_call.h"
#include "keel/core/base/dtype.h"
#include "keel/core/base/export.h"

namespace keel::vector {

// The instructions of `op`: sum, prod, max or min; incomplete for other ops. NaN wins in max and
// min. Nothing to reduce gives 0, 1, and for max and min the identity (-inf / +inf, or the ends of
// i64).
KEEL_API ReduceInstructions find_reduction(std::string_view op, DType dtype);

// How many accumulators a run of `dtype` is dealt to in turn, so that it can be reduced in parts:
// `columns` over the run seen as rows of so many elements, the last one shorter, into as many
// accumulators that begin with the identity; then `rows` over these. The bits are those of `rows`.
KEEL_API size_t reduce_run_width(DType dtype);

}  // namespace keel::vector

#endif  // KEEL_BACKENDS_COMMON_VECTOR_REDUCTIONS_H
