// An overflow of f16 becomes an infinity or the largest number where a model computes in f16.
// Presets of the npu differ in it, so a file says which one its training met. They also
// differ in their default precision and in whether they have bf16, of which a file says enough by
// the precision that it keeps. Pure functions; any thread.
#ifndef KEEL_EXAMPLES_CLI_MODEL_F16_OVERFLOW_H
#define KEEL_EXAMPLES_CLI_MODEL_F16_OVERFLOW_H

#include <map>
#include <optional>
#include <string>

#include <keel/keel.h>

namespace keel_cli {

// Holds what a run computes, and in which dtypes.
struct ComputedRun {
  const keel::Graph& graph;
  const keel::Device& device;
  const keel::Precision& precision;
  const keel::DeviceOptions* options = nullptr;
  std::optional<keel::AccelerateTrainMode> accelerate = {};
};

// Notes in a file's metadata what an overflow becomes in such a run, if any part of it computes in
// f16.
void add_f16_overflow(const ComputedRun& run, std::map<std::string, std::string>& metadata);

// Returns a warning where the file at `path` notes another overflow than such a run has; empty
// where it does not, where the file notes none, and where nothing is computed in f16.
std::string other_f16_overflow(const std::map<std::string, std::string>& metadata,
                               const ComputedRun& run, const std::string& path);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_MODEL_F16_OVERFLOW_H
