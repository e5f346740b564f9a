// The files of a profile, as texts. Pure; any thread.
#ifndef KEEL_BACKENDS_NPU_PROFILE_TABLES_H
#define KEEL_BACKENDS_NPU_PROFILE_TABLES_H

#include <string>

#include "keel/backends/npu/profile/step_clock.h"

namespace keel::npu {

std::string op_summary(const NpuProgram& program, const StepClock& clock);
std::string op_statistic(const NpuProgram& program, const StepClock& clock);
std::string step_trace(const StepClock& clock);
std::string timeline(const NpuProgram& program, const StepClock& clock,
                     const ProfileOptions& options);
std::string advice(const NpuProgram& program, const StepClock& clock);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_PROFILE_TABLES_H
