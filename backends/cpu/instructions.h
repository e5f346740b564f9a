// The vector and reduction instructions of the cpu backend: plain loops over contiguous elements,
// compiled with the host's native flags. The rules for corners are those of ops/scalar_rules.h. Any
// thread.
#ifndef KEEL_BACKENDS_CPU_INSTRUCTIONS_H
#define KEEL_BACKENDS_CPU_INSTRUCTIONS_H

#include <string_view>

#include "keel/backends/common/reduce_call.h"
#include "keel/backends/common/vector_call.h"
#include "keel/core/base/dtype.h"

namespace keel::cpu {

// nullptr where there is none. For the dtypes see TileProgram's InstructionLookup.
VectorInstruction find_instruction(std::string_view op, DType in, DType out);
VectorInstruction find_cast(DType in, DType out);

// Incomplete for ops other than sum, prod, max and min.
ReduceInstructions find_reduction(std::string_view op, DType dtype);

}  // namespace keel::cpu

#endif  // KEEL_BACKENDS_CPU_INSTRUCTIONS_H
