// Reductions of the vector unit. Each has one fixed order of operations that depends on the host
// ISA and the number of elements only, never on addresses, so equal input gives equal bits.
// Accumulators are f32 for f32, f16 and bf16, i64 (wrapping) for i64, i32, u8 and bool. Looked up
// once; calling neither allocates nor throws; any thread.
#ifndef KEEL_BACKENDS_NPU_ISA_VECTOR_REDUCE_H
#define KEEL_BACKENDS_NPU_ISA_VECTOR_REDUCE_H

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "keel/backends/common/reduce_call.h"
#include "keel/core/base/dtype.h"

namespace keel::npu {

using keel::accumulator_of;  // never f64 here: the NPU has none
using keel::ReduceCall;
using keel::ReduceInstruction;

// `op` is sum, prod, max or min; NaN wins in max and min. Nothing to reduce gives 0, 1, and for max
// and min the identity (-inf / +inf, or the ends of i64). nullptr where there is no such
// instruction.
//
// rows:    dst[r] = op over row r; dst has `rows` accumulators. A contiguous run is one row.
// columns: dst[c] = dst[c] op src[0, c] op src[1, c] ... in row order; dst has `cols` accumulators,
//          which the caller has set (to the identity, or to what earlier tiles gave).
ReduceInstruction find_reduce_rows(std::string_view op, DType dtype);
ReduceInstruction find_reduce_columns(std::string_view op, DType dtype);

// How many accumulators a run of `dtype` is dealt to in turn, so that it can be reduced in parts:
// `columns` over the run seen as rows of so many elements, the last one shorter, into as many
// accumulators that begin with the identity; then `rows` over these. The bits are those of `rows`.
size_t reduce_run_width(DType dtype);

// The identity of `op` for `dtype`, written to one accumulator. REQUIRES a known op.
void reduce_identity(std::string_view op, DType dtype, void* accumulator);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_ISA_VECTOR_REDUCE_H
