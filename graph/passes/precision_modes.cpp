#include <algorithm>

#include "keel/core/base/environment.h"
#include "keel/graph/passes/precision.h"

namespace keel {
namespace {

std::vector<PrecisionEntry> mixed_entries() {
  return {{.what = "products", .traits = kProduct, .rule = PrecisionRule::kLow},
          {.what = "everything else", .rule = PrecisionRule::kKeep}};
}

}  // namespace

const std::vector<PrecisionMode>& precision_modes() {
  static const std::vector<PrecisionMode> modes = {
      {.name = kDefaultPrecision,
       .summary = "every node in the dtype the graph gives it",
       .low = std::nullopt,
       .entries = {}},
      {.name = "mixed_bf16",
       .summary = "products of bf16 operands with f32 sums, everything else and the states f32",
       .low = bf16,
       .entries = mixed_entries()},
      {.name = "mixed_fp16",
       .summary = "products of f16 operands with f32 sums, everything else and the states f32; no "
                  "loss scaling",
       .low = f16,
       .entries = mixed_entries()},
  };
  return modes;
}

std::vector<std::string> precision_names() {
  std::vector<std::string> names;
  for (const PrecisionMode& mode : precision_modes()) names.push_back(mode.name);
  return names;
}

const PrecisionMode& find_precision_mode(const std::string& name) {
  const std::string known = parse_choice(name, "precision", precision_names());
  return *std::find_if(precision_modes().begin(), precision_modes().end(),
                       [&](const PrecisionMode& mode) { return mode.name == known; });
}

}  // namespace keel
