#include "cli/model/computing_flags.h"

#include <string>

#include "cli/base/run_flags.h"

namespace keel_cli {

void declare_computing_flags(CommandLine& line) {
  declare_placement_flag(line);
  declare_precision_flags(line);
}

ComputingFlags read_computing_flags(const CommandLine& line) {
  ComputingFlags flags;
  if (line.has("placement")) flags.placement = read_placement(line);
  flags.precision = read_precision(line);
  return flags;
}

PrecisionFlags precision_of(const ComputingFlags& flags, const SavedModel& saved) {
  return precision_over(
      flags.precision, [&](const std::string& name) { return saved.find(name); },
      "--load: " + saved.path());
}

keel::PlacementPolicy placement_of(const ComputingFlags& flags, const SavedModel& saved) {
  const auto own = saved.find("placement");
  if (flags.placement || !own) return flags.placement.value_or(keel::PlacementPolicy::kFull);
  return keel::placement_policy(keel::parse_in_file("--load: " + saved.path(), [&] {
    return keel::parse_choice(*own, "placement", keel::placement_policy_names());
  }));
}

}  // namespace keel_cli
