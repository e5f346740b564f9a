// StepClock: when the modelled device does what, from the first launch on: launches, copies of
// batches, waits for them, and the tasks of the chosen steps. Made once for a profile; plain
// values.
#ifndef KEEL_BACKENDS_NPU_PROFILE_STEP_CLOCK_H
#define KEEL_BACKENDS_NPU_PROFILE_STEP_CLOCK_H

#include <cstdint>
#include <vector>

#include "keel/backends/npu/npu_program.h"
#include "keel/backends/npu/profile/profile.h"

namespace keel::npu {

struct TimeSpan {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  int64_t length() const { return end_ns - begin_ns; }
};

struct TaskTime {
  uint32_t task = 0;
  TimeSpan span;
  int64_t gap_ns = 0;  // since the kernel before it ended
};

struct StepTime {
  int64_t step = 0;
  TimeSpan span;          // from the end of the step before
  TimeSpan launch;        // of the host, where a launch begins with this step; else empty. Behind
                          // the copy where the host feeds the step
  TimeSpan copy;          // of its batch to the device; empty where there is none
  TimeSpan wait;          // for that copy
  int64_t update_ns = 0;  // of kernels that write states, and of COMMIT
  std::vector<TaskTime> tasks;
};

struct StepClock {
  std::vector<StepTime> steps;
  int64_t batch_bytes = 0;
  std::vector<int64_t> copies_ns;  // that a batch takes, one after the other
  bool whole = true;               // false where a step has more tasks than are listed
};

// REQUIRES options that write_profile has checked.
StepClock make_step_clock(const NpuProgram& program, const ProfileOptions& options);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_PROFILE_STEP_CLOCK_H
