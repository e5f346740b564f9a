#include "keel/backends/npu/presets/preset.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "keel/backends/npu/presets/preset_files.h"
#include "keel/core/base/environment.h"
#include "keel/core/base/error.h"
#include "keel/core/base/file.h"
#include "keel/core/base/json.h"
#include "keel/core/base/printable.h"
#include "keel/graph/precision/precision_mode.h"

namespace keel::npu {
namespace {

constexpr const char* kPresetVariable = "KEEL_NPU_PRESET";
constexpr const char* kDefaultPreset = "ascend910b1";
constexpr uint64_t kMostBytes = uint64_t{1} << 20;
constexpr int64_t kKiB = 1024;
// No device is slower than this, and times of one would not fit in 64 bits of ns. Links may be.
constexpr double kLeastGbPerS = 0.1, kLeastLinkGbPerS = 1e-3, kMostGbPerS = 1e6;
constexpr double kLeastShare = 0.01;
constexpr double kLeastFp32Rate = 1e-3;

// Reads parameters one by one, keeps them for printing, and refuses what nobody asked for.
class Reader {
 public:
  Reader(const JsonView& parameters, Preset& preset) : view_(parameters), preset_(preset) {}

  double number(const std::string& name, double min, double max) {
    const JsonView value = parameter(name);
    return value.number(min, max);
  }
  double gb_per_s(const std::string& name) { return number(name, kLeastGbPerS, kMostGbPerS); }
  double link_gb_per_s(const std::string& name) {
    return number(name, kLeastLinkGbPerS, kMostGbPerS);
  }
  double share(const std::string& name) { return number(name, kLeastShare, 1); }
  // A share of another rate, or 0 where the device cannot do it.
  double rate_or_none(const std::string& name, double min) {
    const JsonView value = parameter(name);
    const double rate = value.number(0, 1);
    if (rate != 0 && rate < min) throw value.error(fmt::format("0, for none, or {} to 1", min));
    return rate;
  }
  int64_t integer(const std::string& name, int64_t min, int64_t max) {
    return parameter(name).integer(min, max);
  }
  bool boolean(const std::string& name) { return parameter(name).boolean(); }
  std::string choice(const std::string& name, const std::vector<std::string>& choices) {
    return one_of(parameter(name), choices);
  }
  // A mode of the list, or a word of `others`; none that needs what the device does not have.
  std::string mode(const std::string& name, PrecisionOption option, bool bf16,
                   const std::vector<std::string>& others = {}) {
    const JsonView value = parameter(name);
    std::vector<std::string> choices = precision_names(option);
    choices.insert(choices.end(), others.begin(), others.end());
    const std::string text = one_of(value, choices);
    if (std::find(others.begin(), others.end(), text) != others.end()) return text;
    const std::string& needs = find_precision_mode(text, option).needs;
    if (needs.empty() || (needs == "bf16" && bf16)) return text;
    throw value.error("a mode without " + needs + ", which the device does not have" +
                      (needs == "bf16" ? " where parameters.bf16 is false" : ""));
  }

  // A session that names no mode takes precision_mode: the other list's word for it may be another
  // word, and no other mode.
  void require_one_default() const {
    if (preset_.precision_mode_v2.empty()) return;
    const PrecisionMode& taken =
        find_precision_mode(preset_.precision_mode, PrecisionOption::kMode);
    const PrecisionMode& other =
        find_precision_mode(preset_.precision_mode_v2, PrecisionOption::kModeV2);
    if (compute_alike(taken, other)) return;
    std::string names = "none";
    for (const PrecisionMode& mode : precision_modes(PrecisionOption::kModeV2))
      if (compute_alike(taken, mode)) names = mode.name + " or none";
    throw view_["precision_mode_v2"]["value"].error(names + ", beside precision_mode " +
                                                    taken.name);
  }

  std::vector<DType> dtypes(const std::string& name) {
    const JsonView value = parameter(name);
    std::vector<DType> list;
    for (size_t i = 0; i < value.size(); ++i) {
      try {
        list.push_back(parse_dtype(value[i].text()));
      } catch (const Error&) {
        throw value[i].error("the name of a dtype");
      }
    }
    return list;
  }

  std::vector<EfficiencyPoint> efficiency(const std::string& name) {
    const JsonView value = parameter(name);
    std::vector<EfficiencyPoint> points;
    for (size_t i = 0; i < value.size(); ++i) {
      if (value[i].size() != 2) throw value[i].error("a pair of transfer bytes and share");
      const EfficiencyPoint point{value[i][0].number(1, 1e9), value[i][1].number(kLeastShare, 1)};
      if (i > 0 && (point.bytes <= points.back().bytes || point.share < points.back().share)) {
        throw value[i].error("bytes and share above those of the point before");
      }
      points.push_back(point);
    }
    if (points.empty()) throw value.error("at least one pair of transfer bytes and share");
    return points;
  }

  void finish() const {
    std::vector<std::string> known;
    for (const PresetParameter& p : preset_.parameters) known.push_back(p.name);
    for (const std::string& key : view_.keys()) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      throw Error({.op = view_.where(),
                   .argument = key,
                   .message = "no such parameter",
                   .fix = did_you_mean(key, known)});
    }
  }

 private:
  static std::string one_of(const JsonView& value, const std::vector<std::string>& choices) {
    const std::string& text = value.text();
    if (std::find(choices.begin(), choices.end(), text) != choices.end()) return text;
    std::string expected;
    for (const std::string& c : choices) expected += (expected.empty() ? "" : " or ") + c;
    throw value.error(expected);
  }

  // Names the nearest of the keys that are no parameter: any other one is meant as it stands there.
  [[noreturn]] void refuse_missing(const std::string& name) const {
    const NpuPresetFile complete = builtin_presets().front();
    const Json known = parse_json(complete.text, complete.name);
    std::vector<std::string> unknown;
    for (const std::string& key : view_.keys()) {
      if (!known["parameters"].contains(key)) unknown.push_back(key);
    }
    const std::string meant = nearest(name, unknown);
    throw Error({.op = view_.where(),
                 .message = "'" + name + "' is missing",
                 .fix = meant.empty() ? "" : "the nearest key is '" + meant + "'"});
  }

  JsonView parameter(const std::string& name) {
    if (!view_.find(name)) refuse_missing(name);
    const JsonView entry = view_[name];
    entry.require_only({"value", "source"});
    JsonView value = entry["value"];
    const JsonView source = entry["source"];
    if (source.text().empty()) throw source.error("where the value comes from, or \"assumed\"");
    preset_.parameters.push_back({name, write_json(value.json()), source.text()});
    return value;
  }

  const JsonView& view_;
  Preset& preset_;
};

void read_cores(Reader& reader, Preset& p) {
  p.cube_cores = reader.integer("cube_cores", 1, 1024);
  p.vector_cores = reader.integer("vector_cores", 1, 1024);
  p.clock_mhz = reader.integer("clock_mhz", 1, 100000);
  p.cube_m = reader.integer("cube_m", 1, 1024);
  p.cube_n = reader.integer("cube_n", 1, 1024);
  p.cube_k = reader.integer("cube_k", 1, 1024);
  p.cube_fp32_rate = reader.rate_or_none("cube_fp32_rate", kLeastFp32Rate);
  p.bf16 = reader.boolean("bf16");
  p.precision_mode = reader.mode("precision_mode", PrecisionOption::kMode, p.bf16);
  p.precision_mode_v2 =
      reader.mode("precision_mode_v2", PrecisionOption::kModeV2, p.bf16, {"none"});
  if (p.precision_mode_v2 == "none") p.precision_mode_v2.clear();
  reader.require_one_default();
  p.saturate_f16 = reader.choice("fp16_overflow", {"saturate", "inf_nan"}) == "saturate";
  p.atomic_add_dtypes = reader.dtypes("atomic_add_dtypes");
  p.vector_bytes_per_cycle = reader.integer("vector_bytes_per_cycle", 8, 1 << 20);
}

void read_memories(Reader& reader, Preset& p) {
  constexpr int64_t kMostKiB = int64_t{1} << 30;
  p.ub_bytes = reader.integer("ub_kib", kLeastUnifiedBuffer / kKiB, kMostKiB) * kKiB;
  p.l1_bytes = reader.integer("l1_kib", 16, kMostKiB) * kKiB;
  p.l0a_bytes = reader.integer("l0a_kib", 4, kMostKiB) * kKiB;
  p.l0b_bytes = reader.integer("l0b_kib", 4, kMostKiB) * kKiB;
  p.l0c_bytes = reader.integer("l0c_kib", 4, kMostKiB) * kKiB;
  p.l1_to_l0a_bytes_per_cycle = reader.integer("l1_to_l0a_bytes_per_cycle", 1, 1 << 20);
  p.l1_to_l0b_bytes_per_cycle = reader.integer("l1_to_l0b_bytes_per_cycle", 1, 1 << 20);
  p.l0c_out_bytes_per_cycle = reader.integer("l0c_out_bytes_per_cycle", 1, 1 << 20);
  p.l2_bytes = reader.integer("l2_mib", 0, 1 << 20) * kKiB * kKiB;
  p.l2_gb_per_s = reader.gb_per_s("l2_gb_per_s");
  p.hbm_gb_per_s = reader.gb_per_s("hbm_gb_per_s");
  p.hbm_bytes = reader.integer("hbm_gib", 1, 1 << 20) * kKiB * kKiB * kKiB;
  p.hbm_efficiency = reader.efficiency("hbm_efficiency");
}

void read_costs(Reader& reader, Preset& p) {
  p.gm_ub_issue_ns = reader.number("gm_ub_issue_ns", 0, 1e9);
  p.gm_ub_gb_per_s = reader.gb_per_s("gm_ub_gb_per_s");
  p.gm_l1_issue_ns = reader.number("gm_l1_issue_ns", 0, 1e9);
  p.gm_l1_gb_per_s = reader.gb_per_s("gm_l1_gb_per_s");
  p.unaligned_ub_factor = reader.number("unaligned_ub_factor", 1, 100);
  p.unaligned_l1_factor = reader.number("unaligned_l1_factor", 1, 100);
  p.task_base_ns = reader.integer("task_base_ns", 0, 1000000000);
  p.task_per_block_ns = reader.integer("task_per_block_ns", 0, 1000000000);
  p.kernel_prologue_ns = reader.integer("kernel_prologue_ns", 0, 1000000000);
  p.gm_ub_row_ns = reader.number("gm_ub_row_ns", 0, 1e6);
  p.vector_share = reader.share("vector_share");
  p.cube_share = reader.share("cube_share");
  p.scalar_cycles_per_tile = reader.integer("scalar_cycles_per_tile", 0, 1000000);
  p.cube_vector_sync_ns = reader.integer("cube_vector_sync_ns", 0, 1000000000);
  p.control_task_ns = reader.integer("control_task_ns", 0, 1000000000);
  p.ai_cpu_task_ns = reader.integer("ai_cpu_task_ns", 0, 1000000000);
  p.ai_cpu_gb_per_s = reader.link_gb_per_s("ai_cpu_gb_per_s");
  p.launch_sync_ns = reader.integer("launch_sync_ns", 0, 1000000000);
  p.pcie_gb_per_s = reader.link_gb_per_s("pcie_gb_per_s");
  p.pcie_latency_ns = reader.integer("pcie_latency_ns", 0, 1000000000);
}

void read_links(Reader& reader, Preset& p) {
  p.hccs_gb_per_s = reader.link_gb_per_s("hccs_gb_per_s");
  p.hccs_latency_ns = reader.integer("hccs_latency_ns", 0, 1000000000);
  p.card_pcie_gb_per_s = reader.link_gb_per_s("card_pcie_gb_per_s");
  p.network_gb_per_s = reader.link_gb_per_s("network_gb_per_s");
  p.network_latency_ns = reader.integer("network_latency_ns", 0, 1000000000);
}

// The devices' memory is that of the default preset, so that a wrong variable is an error also
// where a session names a preset of its own: the error has to say which of the two it means.
Preset load_default_preset() {
  const auto named = environment_text(kPresetVariable);
  if (!named) return load_preset(kDefaultPreset);
  try {
    return load_preset(*named);
  } catch (const Error& error) {
    throw error.with_context(kPresetVariable);
  }
}

double multiply_adds_per_ns(const Preset& p) {
  return static_cast<double>(p.cube_m * p.cube_n * p.cube_k * p.cube_cores) * p.clock_ghz();
}

}  // namespace

double Preset::cube_f16_tflops() const { return 2e-3 * multiply_adds_per_ns(*this); }
double Preset::cube_f32_tflops() const { return cube_f16_tflops() / cube_passes(*this, f32); }
double Preset::vector_f16_gflops() const {
  const int64_t lanes = vector_bytes_per_cycle / 2;
  return static_cast<double>(lanes * vector_cores) * clock_ghz();
}
double Preset::vector_f32_gflops() const {
  const int64_t lanes = vector_bytes_per_cycle / 4;
  return static_cast<double>(lanes * vector_cores) * clock_ghz();
}
int64_t Preset::vector_cores_of_a_cube() const {
  return split_cores() ? std::max<int64_t>(1, vector_cores / cube_cores) : 1;
}
bool Preset::has_atomic_add(DType dtype) const {
  return std::find(atomic_add_dtypes.begin(), atomic_add_dtypes.end(), dtype) !=
         atomic_add_dtypes.end();
}

double cube_passes(const Preset& preset, DType dtype) {
  if (dtype != f32) return 1;
  return preset.cube_fp32_rate > 0 ? 1 / preset.cube_fp32_rate : 3;
}

Preset parse_preset(const std::string& text, const std::string& name, const std::string& source) {
  const Json document = parse_json(text, source);
  const JsonView view(document, source);
  view.require_only({"description", "series", "parameters"});
  Preset preset;
  preset.name = name;
  preset.description = view["description"].text();
  const JsonView series = view["series"];
  preset.series = series.text();
  if (preset.series != "910" && preset.series != "910B" && preset.series != "310") {
    throw series.error("910, 910B or 310");
  }
  const JsonView parameters = view["parameters"];
  Reader reader(parameters, preset);
  read_cores(reader, preset);
  if (preset.split_cores() && preset.vector_cores % preset.cube_cores != 0) {
    throw Error({.op = parameters.where(),
                 .argument = "vector_cores",
                 .expected = "as many for each of the " + std::to_string(preset.cube_cores) +
                             " cube cores, which have vector cores of their own in series 910B, "
                             "and at least one",
                 .got = std::to_string(preset.vector_cores)});
  }
  read_memories(reader, preset);
  read_costs(reader, preset);
  read_links(reader, preset);
  reader.finish();
  return preset;
}

Preset load_preset(const std::string& name_or_path) {
  const bool path = name_or_path.find('/') != std::string::npos || name_or_path.ends_with(".json");
  if (path) {
    const size_t slash = name_or_path.rfind('/');
    std::string name = name_or_path.substr(slash == std::string::npos ? 0 : slash + 1);
    if (name.ends_with(".json")) name.resize(name.size() - 5);
    return parse_preset(read_file(name_or_path, kMostBytes), name, name_or_path);
  }
  for (const NpuPresetFile& file : builtin_presets()) {
    if (file.name == name_or_path) {
      return parse_preset(file.text, file.name, "preset " + file.name);
    }
  }
  std::string names;
  for (const std::string& name : preset_names()) names += (names.empty() ? "" : ", ") + name;
  throw Error({.op = "preset",
               .argument = name_or_path,
               .expected = "one of " + names + ", or the path of a .json file",
               .fix = did_you_mean(name_or_path, preset_names()),
               .kind = ErrorKind::kInvalidArgument});
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const NpuPresetFile& file : builtin_presets()) names.push_back(file.name);
  return names;
}

std::shared_ptr<const Preset> default_preset() {
  static const auto preset = std::make_shared<const Preset>(load_default_preset());
  return preset;
}

std::string describe_preset(const Preset& p) {
  std::string text =
      fmt::format("{}: {}\n\npeaks (computed):\n", printable(p.name), printable(p.description));
  text += fmt::format("  cube f16    {:9.1f} TFLOP/s\n", p.cube_f16_tflops());
  text += fmt::format("  cube f32    {:9.1f} TFLOP/s{}\n", p.cube_f32_tflops(),
                      p.cube_fp32_rate > 0 ? "" : " (three f16 passes)");
  text += fmt::format("  vector f16  {:9.1f} GFLOP/s\n", p.vector_f16_gflops());
  text += fmt::format("  vector f32  {:9.1f} GFLOP/s\n", p.vector_f32_gflops());
  text += fmt::format("  memory      {:9.1f} GB/s\n", p.hbm_gb_per_s);
  text += "\nparameters:\n";
  for (const PresetParameter& parameter : p.parameters) {
    text += fmt::format("  {:<26} {:<28} {}\n", parameter.name, printable(parameter.value),
                        printable(parameter.source));
  }
  return text;
}

std::string presets_with_bf16() {
  // Each op that a preset cannot compute in bf16 asks; to read all presets takes milliseconds.
  static const std::string names = [] {
    std::string text;
    for (const std::string& name : preset_names()) {
      if (load_preset(name).bf16) text += (text.empty() ? "" : ", ") + name;
    }
    return text;
  }();
  return names;
}

}  // namespace keel::npu
