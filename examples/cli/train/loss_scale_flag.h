// --loss-scale: how a training scales its loss, as a flag says it and as a file of saved states
// does.
#ifndef KEEL_EXAMPLES_CLI_TRAIN_LOSS_SCALE_FLAG_H
#define KEEL_EXAMPLES_CLI_TRAIN_LOSS_SCALE_FLAG_H

#include <optional>
#include <string>

#include <keel/keel.h>

#include "cli/base/command_line.h"

namespace keel_cli {

inline constexpr const char* kNoLossScale = "none";
inline constexpr const char* kExponentialLossScale = "exponential";

void declare_loss_scale_flag(CommandLine& line);
// Reads "none", a number from 1, or "exponential" with up to five numbers behind it: initial scale,
// good steps to a growth, bad steps to a shrinking, factor of growth, factor of shrinking. Nothing
// for none. Throws keel::Error that begins with `from`.
std::optional<keel::LossScale> parse_loss_scale(const std::string& text, const std::string& from);
// The shortest text of the same rule: one text for each. Throws what parse_loss_scale throws.
std::string plain_loss_scale(const std::string& text, const std::string& from);

// The scale of a step and whether its update was skipped, as a training fetches and reports them.
struct StepScale {
  double scale = 1;
  bool skipped = false;
  int64_t skipped_steps = 0;  // of the run, this one included
};

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_TRAIN_LOSS_SCALE_FLAG_H
