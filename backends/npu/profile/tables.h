// The files of a profile, as texts. Pure; any thread.
#ifndef KEEL_BACKENDS_NPU_PROFILE_TABLES_H
#define KEEL_BACKENDS_NPU_PROFILE_TABLES_H

#include <string>

#include "keel/backends/npu/profile/step_clock.h"

namespace keel::npu {

std::string op_summary(const NpuProgram& program, const StepClock& clock,
                       const ProfilingOptions& profiling);
std::string op_statistic(const NpuProgram& program, const StepClock& clock);
// Throws Error (kInvalidArgument) for a point that no task has, and points in the wrong order.
std::string step_trace(const NpuProgram& program, const StepClock& clock,
                       const ProfilingOptions& profiling);
std::string aicpu(const NpuProgram& program, const StepClock& clock);
std::string api_statistic(const StepClock& clock, int device);
std::string timeline(const NpuProgram& program, const StepClock& clock,
                     const ProfileOptions& options);
// The same without the cores, as values.
std::vector<ProfiledSpan> spans_of(const NpuProgram& program, const StepClock& clock);
std::string advice(const NpuProgram& program, const StepClock& clock);

// These two the tables share: microseconds as text; what kind of core a launch runs on, by the real
// tool's names: AI_CORE where cores have both units, MIX_AIC for a product whose vector work is
// done by vector cores beside those with a cube.
std::string in_us(int64_t ns);
std::string task_type(const Preset& preset, const Task& task, const Launch& launch);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_PROFILE_TABLES_H
