// The fifth of a table's rows that no fit looks at. Which rows those are follows from what a row
// measures, never from its duration or its place, so that all tables and all fits hold out the
// same. Pure; any thread.
#ifndef KEEL_BACKENDS_NPU_MEASURED_HELD_OUT_H
#define KEEL_BACKENDS_NPU_MEASURED_HELD_OUT_H

#include "keel/backends/npu/measured/measured_table.h"
#include "keel/core/base/export.h"

namespace keel::npu {

KEEL_API bool is_held_out(const MeasuredRow& row);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_MEASURED_HELD_OUT_H
