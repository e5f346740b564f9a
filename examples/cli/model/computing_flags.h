// ComputingFlags: in which dtypes a saved model computes, and where what the device lacks is
// computed: what flags say, and else what its training had. Commands that only answer share them.
// Plain value; any thread.
#ifndef KEEL_EXAMPLES_CLI_MODEL_COMPUTING_FLAGS_H
#define KEEL_EXAMPLES_CLI_MODEL_COMPUTING_FLAGS_H

#include <optional>

#include <keel/keel.h>

#include "cli/base/command_line.h"
#include "cli/base/precision_flags.h"
#include "cli/model/saved_model.h"

namespace keel_cli {

struct ComputingFlags {
  PrecisionFlags precision;                        // what no flag says is the file's
  std::optional<keel::PlacementPolicy> placement;  // else the file's
};

// --placement, --precision and its kind.
void declare_computing_flags(CommandLine& line);
ComputingFlags read_computing_flags(const CommandLine& line);

// Both throw keel::Error where the file holds no such choice.
PrecisionFlags precision_of(const ComputingFlags& flags, const SavedModel& saved);
keel::PlacementPolicy placement_of(const ComputingFlags& flags, const SavedModel& saved);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_MODEL_COMPUTING_FLAGS_H
