#include "cli/model/f16_overflow.h"

#include <algorithm>
#include <memory>
#include <vector>

#include <keel/backends/npu/options.h>
#include <keel/core/base/printable.h>

namespace keel_cli {
namespace {

constexpr const char* kOverflow = "f16_overflow";
// The words of the npu's presets.
constexpr const char* kInfinity = "inf_nan";
constexpr const char* kLargest = "saturate";

bool names_f16(const std::map<std::string, keel::DtypeRule>& rules) {
  const auto has = [](const std::vector<keel::DType>& dtypes) {
    return std::find(dtypes.begin(), dtypes.end(), keel::f16) != dtypes.end();
  };
  return std::any_of(rules.begin(), rules.end(), [&](const auto& rule) {
    return has(rule.second.inputs) || has(rule.second.outputs);
  });
}

// Modes that keep the graph's dtypes do not look at customised ones.
bool lowers_to_f16(const keel::Precision& precision, const ComputedRun& run) {
  const auto resolved = keel::resolve(precision, run.device.backend(), run.options);
  if (!resolved.mode->low) return false;
  return resolved.mode->low == keel::f16 || names_f16(resolved.dtypes.by_name) ||
         names_f16(resolved.dtypes.by_op);
}

// Bodies of loops and conds may be all that has it.
bool has_f16(const keel::Graph& graph) {
  for (const keel::Node& node : graph.nodes()) {
    for (const keel::Type& type : node.types())
      if (type.dtype == keel::f16) return true;
    for (const auto& body : node.bodies())
      if (has_f16(*body)) return true;
  }
  return false;
}

bool computes_f16(const ComputedRun& run) {
  if (lowers_to_f16(run.precision, run)) return true;
  if (run.accelerate && lowers_to_f16(keel::fast_precision(*run.accelerate, run.precision,
                                                           run.device.backend(), run.options),
                                      run))
    return true;
  return has_f16(run.graph);
}

std::string overflow_on(const keel::Device& device, const keel::DeviceOptions* options) {
  if (device.backend().name() != "npu") return kInfinity;
  const auto* own = dynamic_cast<const keel::npu::NpuOptions*>(options);
  const auto preset = own != nullptr ? own->preset() : keel::npu::default_preset();
  return preset->saturate_f16 ? kLargest : kInfinity;
}

}  // namespace

void add_f16_overflow(const ComputedRun& run, std::map<std::string, std::string>& metadata) {
  if (computes_f16(run)) metadata[kOverflow] = overflow_on(run.device, run.options);
}

std::string other_f16_overflow(const std::map<std::string, std::string>& metadata,
                               const ComputedRun& run, const std::string& path) {
  const auto saved = metadata.find(kOverflow);
  if (saved == metadata.end() || !computes_f16(run)) return "";
  const std::string here = overflow_on(run.device, run.options);
  if (here == saved->second) return "";
  const auto words = [](const std::string& overflow) {
    return overflow == kLargest ? "the largest number, 65504" : "an infinity";
  };
  return keel::printable(path) + " was trained where an overflow of f16 becomes " +
         words(saved->second) + ", and here it becomes " + words(here) +
         ": results may differ; the preset of the npu decides that (KEEL_NPU_PRESET, or --preset "
         "of keel train)";
}

}  // namespace keel_cli
