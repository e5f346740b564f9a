#include "keel/ops/exchange/migration/level.h"

namespace keel::migration {

const char* name_of(Level level) {
  constexpr std::array<const char*, kLevels.size()> kNames = {"supported (no migration)",
                                                              "API works after tool",
                                                              "training works after tool",
                                                              "compatible class",
                                                              "deprecated",
                                                              "unsupported-no impact",
                                                              "unsupported-no plan",
                                                              "analysing"};
  return kNames.at(static_cast<size_t>(level));
}

std::vector<std::string> level_names() {
  std::vector<std::string> names;
  for (const Level level : kLevels) names.emplace_back(name_of(level));
  return names;
}

bool is_settled(Level level) {
  return level == Level::kSupported || level == Level::kUnsupportedNoImpact;
}

bool is_obstacle(Level level) { return level == Level::kUnsupportedNoPlan; }

}  // namespace keel::migration
