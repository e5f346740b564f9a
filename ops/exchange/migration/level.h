// The levels of a migration report: how much work a use of an API, or an op of a model, leaves to
// whoever brings it to Keel. The names are those of Ascend's own analysis. Plain functions; any
// thread.
#ifndef KEEL_OPS_EXCHANGE_MIGRATION_LEVEL_H
#define KEEL_OPS_EXCHANGE_MIGRATION_LEVEL_H

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "keel/core/base/export.h"

namespace keel::migration {

enum class Level : uint8_t {
  kSupported,            // Keel has a function of the same meaning, or takes the op as it is
  kApiAfterTool,         // works with a flag, an option or a call in place of the one found
  kTrainingAfterTool,    // no such call, but Keel's training does what it is called for
  kCompatibleClass,      // a class or function of Keel's does nearly the same: compare the two
  kDeprecated,           // belongs to a package that its own authors have given up
  kUnsupportedNoImpact,  // Keel has nothing like it, and the training does not need it
  kUnsupportedNoPlan,    // Keel has nothing like it
  kAnalysing,            // nothing is known of it yet, or it is not in Keel yet
};

inline constexpr std::array<Level, 8> kLevels = {
    Level::kSupported,         Level::kApiAfterTool, Level::kTrainingAfterTool,
    Level::kCompatibleClass,   Level::kDeprecated,   Level::kUnsupportedNoImpact,
    Level::kUnsupportedNoPlan, Level::kAnalysing};

// "supported (no migration)", ...: as reports and tables of API names have them.
KEEL_API const char* name_of(Level level);
KEEL_API std::vector<std::string> level_names();

// Returns whether a file with such a row needs no work, and whether a migration fails for it.
KEEL_API bool is_settled(Level level);
KEEL_API bool is_obstacle(Level level);

}  // namespace keel::migration

#endif  // KEEL_OPS_EXCHANGE_MIGRATION_LEVEL_H
