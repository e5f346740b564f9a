// NpuProgram: a task list with the prices it was compiled with. Immutable after compilation; any
// thread may read it, one launch at a time.
#ifndef KEEL_BACKENDS_NPU_NPU_PROGRAM_H
#define KEEL_BACKENDS_NPU_NPU_PROGRAM_H

#include <memory>
#include <string>
#include <vector>

#include "keel/backends/common/task_program.h"
#include "keel/backends/npu/device/memory.h"
#include "keel/backends/npu/npu_library.h"

namespace keel::npu {

// The tasks of one step in the order in which the control unit runs them, loops with a known trip
// count unrolled; the end of a sunk launch is not part of a step. `whole` is false where there are
// more than `most` of them.
struct StepTrace {
  std::vector<uint32_t> tasks;
  bool whole = true;
};

class NpuProgram final : public TaskProgram {
 public:
  NpuProgram(TaskList list, NpuLibrary::Launches launches, std::shared_ptr<const Preset> preset,
             std::shared_ptr<Buffer> constants, Stream& transfer,
             std::shared_ptr<DeviceMemory> memory, InterpreterOptions options = {});

  // Refuses what is not the device's own memory before the work is handed over.
  void launch(Stream& stream, LaunchArgs& args) override;

  const Preset& preset() const noexcept { return *preset_; }
  // Returns what the scheduler decided for a task; null for tasks of the control unit.
  const Launch* decision(size_t task) const;
  // Returns the variant of that, with what is true of the task alone.
  std::string variant(size_t task) const;
  StepTrace trace(size_t most) const;

 private:
  void require(const Buffer* buffer, const char* what) const;

  NpuLibrary::Launches launches_;
  std::shared_ptr<const Preset> preset_;
  std::shared_ptr<DeviceMemory> memory_;
};

// Gives each collective, whose task has the time that it takes, the part of it for which other
// tasks of the step wait: the others are at work meanwhile. What it takes stays in its decision.
void hide_collectives(TaskList& list, const Preset& preset);

// Sets the list's modelled times of a step and of a launch. A cond counts as its longer branch; a
// step with a loop that turns as often as data say gets none.
void set_device_times(TaskList& list, const Preset& preset);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_NPU_PROGRAM_H
