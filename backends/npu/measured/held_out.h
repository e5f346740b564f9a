// The fifth of a table's rows that no fit looks at. Which rows those are follows from the OP type
// and the shapes, dtypes and formats of its operands, never from durations, blocks or places, so
// that all tables and all fits hold out the same. Only the parameters that `--fit` finds are kept
// from them: what the model is made of (passes of an instruction, recipes of OP types, the levels
// of memory) was chosen by people who looked at whole tables. Pure; any thread.
#ifndef KEEL_BACKENDS_NPU_MEASURED_HELD_OUT_H
#define KEEL_BACKENDS_NPU_MEASURED_HELD_OUT_H

#include "keel/backends/npu/measured/measured_table.h"
#include "keel/core/base/export.h"

namespace keel::npu {

KEEL_API bool is_held_out(const MeasuredRow& row);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_MEASURED_HELD_OUT_H
