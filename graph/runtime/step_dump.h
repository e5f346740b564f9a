// StepDump: writes what DumpOptions ask for. A step that is dumped is executed op by op, and the
// dump is the observer; what overflowed comes from a NumericsWatch. The folder of a step appears
// whole or not at all. Owned by one Trainer::fit(), on the session's thread, but for what it is
// shown on the device's while a launch runs. Internal to graph/runtime.
#ifndef KEEL_GRAPH_RUNTIME_STEP_DUMP_H
#define KEEL_GRAPH_RUNTIME_STEP_DUMP_H

#include <cstdint>
#include <exception>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "keel/core/device/device.h"
#include "keel/core/device/numerics_watch.h"
#include "keel/core/device/op_observer.h"
#include "keel/graph/runtime/dump_options.h"

namespace keel {

class StepDump final : public OpObserver {
 public:
  // REQUIRES options that require_dump takes, and that they outlive it. `ops`: the names of those
  // that are dumped (dump_layers.h); empty: all.
  StepDump(const DumpOptions& options, std::vector<std::string> ops, const Device& device);
  ~StepDump() override;

  // Returns whether the step is to be executed op by op, shown to this.
  bool wants(int64_t step) const;
  // Returns how many steps behind `step` one launch may do, at most `steps`: a step that is dumped
  // has a launch of its own.
  int64_t most_steps(int64_t step, int64_t steps) const;

  // Around the launch of a step that is dumped. `program`: the number of the compiled step.
  // `done`: it was completed; of one that was not no file stays.
  void begin(int64_t step, int program);
  void end(bool done);
  void before(const OpRun& run) override;
  void after(const OpRun& run, uint32_t float_status) override;

  // Returns whether what overflowed is wanted.
  bool finds_overflow() const noexcept { return options_.enable_dump_debug && !ended_; }
  // Writes what the watch found, and kept the values of.
  void write_finding(const NumericsWatch& watch, int program);

  // Tells on_failure what the last begin(), end(), write_finding() or op could not write, or throws
  // it where there is none.
  void settle();

  int64_t steps() const noexcept { return steps_; }                   // that were written
  const std::string& folder() const noexcept { return run_folder_; }  // "path/TIME"; empty: none

 private:
  template <class Action>
  void attempt(Action action) noexcept;
  void open_step(int64_t step, int program);
  void publish_step();
  void discard_step() noexcept;
  void write(const OpRun& run, const char* io, std::span<const OpOperand> operands);
  bool writes(DumpMode one) const;

  const DumpOptions& options_;
  const std::vector<std::string> ops_;
  const int device_;
  std::vector<std::filesystem::path> made_;  // options_.path and around it; the innermost first
  std::string run_folder_;
  std::string step_folder_, unfinished_;  // of the step that is written; empty: none is
  int64_t shown_ = 0;                     // ops of that step
  bool chosen_ = false;                   // whether the op that runs is one of ops_
  std::string table_;                     // rows of its statistics
  int64_t steps_ = 0;
  bool ended_ = false;  // after a failure nothing more is written
  std::exception_ptr failure_;
};

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_STEP_DUMP_H
