#include "cli/base/precision_flags.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include <keel/core/base/file.h>

#include "cli/base/errors.h"
#include "cli/base/flag_errors.h"

namespace keel_cli {
namespace {

constexpr uint64_t kMostRulesBytes = uint64_t{1} << 20;
constexpr const char* kModeFlags[] = {"precision", "precision-mode", "precision-mode-v2"};
constexpr keel::PrecisionOption kModeOptions[] = {
    keel::PrecisionOption::kShort, keel::PrecisionOption::kMode, keel::PrecisionOption::kModeV2};
constexpr const char* kFileFlags[] = {"modify-mixlist", "customize-dtypes"};
// Entries of a saved file.
constexpr const char *kModeEntry = "precision", *kListEntry = "mix_list",
                     *kRulesEntry = "customize_dtypes";

// The library refuses several, too, but calls them by its own names.
void require_one_mode(const CommandLine& line) {
  std::string given;
  int count = 0;
  for (const char* flag : kModeFlags) {
    if (!line.has(flag)) continue;
    given += (count++ == 0 ? "--" : " and --") + std::string(flag) + " " + *line.text(flag);
  }
  if (count <= 1) return;
  throw keel::Error({.op = "precision",
                     .expected = "one of --precision, --precision-mode and --precision-mode-v2",
                     .got = given,
                     .kind = keel::ErrorKind::kInvalidArgument});
}

// Returns the name that one of the three flags gives; empty where it is not given. A name of
// another flag is told as one: the nearest name of this flag would mislead.
std::string mode_named(const CommandLine& line, size_t which) {
  const std::string name = line.text(kModeFlags[which]).value_or("");
  try {
    return line.choice(kModeFlags[which], keel::precision_names(kModeOptions[which])).value_or("");
  } catch (const keel::Error& error) {
    keel::ErrorInfo info = error.info();
    for (size_t i = std::size(kModeFlags); i-- > 0;) {
      const std::vector<std::string> names = keel::precision_names(kModeOptions[i]);
      if (std::find(names.begin(), names.end(), name) != names.end())
        info.fix = "it is a name of --" + std::string(kModeFlags[i]) + ": use that flag";
    }
    throw keel::Error(std::move(info));
  }
}

keel::MixList mix_list_of(const std::string& text, const std::string& source, bool warns) {
  std::vector<std::string> warnings;
  keel::MixList list = keel::parse_mix_list(text, source, keel::builtin_ops(), warnings);
  if (warns) {
    for (const std::string& warning : warnings) print_warning(warning);
  }
  return list;
}

}  // namespace

std::string PrecisionFlags::mode_flag() const {
  if (!mode_given) return "";
  if (!value.mode.empty()) return "--precision-mode";
  return value.mode_v2.empty() ? "--precision" : "--precision-mode-v2";
}

keel::ResolvedPrecision PrecisionFlags::resolved_on(const keel::Backend& backend,
                                                    const keel::DeviceOptions* options) const {
  try {
    return keel::resolve(value, backend, options);
  } catch (const keel::Error& error) {
    keel::ErrorInfo info = error.info();
    if (info.op != "mix list" || !mix_list_given) throw;
    info.op = "--modify-mixlist";
    if (const std::string flag = mode_flag(); !flag.empty()) info.got = flag + " " + info.got;
    info.fix = "add --precision-mode allow_mix_precision" +
               std::string(mode_given ? " instead" : "") + ", or drop the list";
    throw keel::Error(std::move(info));
  }
}

std::string PrecisionFlags::mode_on(const keel::Backend& backend,
                                    const keel::DeviceOptions* options) const {
  return resolved_on(backend, options).mode->name;
}

void PrecisionFlags::require_for_training(const keel::Backend& backend,
                                          const keel::DeviceOptions* options) const {
  const auto resolved = resolved_on(backend, options);
  if (!resolved.mode->for_inference) return;
  const auto refuse = [&](const std::string& who, const std::string& what, const char* fix) {
    throw keel::Error({.op = who,
                       .argument = resolved.mode->name,
                       .message = what + "is for inference, and a training updates states",
                       .fix = fix,
                       .kind = keel::ErrorKind::kInvalidArgument});
  };
  if (resolved.is_default)
    refuse(backend.name(), "the default precision, ",
           "add --precision-mode must_keep_origin_dtype");
  if (!value.mode_v2.empty())
    refuse("--precision-mode-v2", "", "choose a mode for training, such as origin");
  refuse("--precision-mode", "", "choose a mode for training, such as must_keep_origin_dtype");
}

void declare_precision_flags(CommandLine& line) {
  line.add("precision", alternatives(keel::precision_names()),
           "mixed: products of 16-bit operands with f32 sums, all else f32 (the device's default)");
  line.add("precision-mode", alternatives(keel::precision_names(keel::PrecisionOption::kMode)),
           "instead: a precision_mode");
  line.add("precision-mode-v2", alternatives(keel::precision_names(keel::PrecisionOption::kModeV2)),
           "instead: a precision_mode_v2");
  line.add("modify-mixlist", "FILE", "JSON: which ops a mixed mode computes low, and which never");
  line.add("customize-dtypes", "FILE", "dtypes of single nodes and ops, whatever the mode says");
}

bool has_precision_flag(const CommandLine& line) {
  const auto given = [&](const char* flag) { return line.has(flag); };
  return std::any_of(std::begin(kModeFlags), std::end(kModeFlags), given) ||
         std::any_of(std::begin(kFileFlags), std::end(kFileFlags), given);
}

PrecisionFlags read_precision(const CommandLine& line) {
  PrecisionFlags flags;
  require_one_mode(line);
  const auto given = [&](const char* flag) { return line.has(flag); };
  flags.mode_given = std::any_of(std::begin(kModeFlags), std::end(kModeFlags), given);
  flags.mix_list_given = line.has("modify-mixlist");
  flags.dtypes_given = line.has("customize-dtypes");
  flags.value.name = mode_named(line, 0);
  flags.value.mode = mode_named(line, 1);
  flags.value.mode_v2 = mode_named(line, 2);
  const auto read = [&](const char* flag, const std::string& file) {
    return in_flag(flag, [&] { return keel::read_file(file, kMostRulesBytes); });
  };
  if (const auto file = line.text("modify-mixlist")) {
    flags.mix_list = read("--modify-mixlist", *file);
    flags.value.mix_list = mix_list_of(flags.mix_list, *file, true);
  }
  if (const auto file = line.text("customize-dtypes")) {
    flags.dtypes = read("--customize-dtypes", *file);
    flags.value.dtypes = keel::parse_dtype_overrides(flags.dtypes, *file);
  }
  return flags;
}

std::map<std::string, std::string> saved_form(const PrecisionFlags& flags,
                                              const std::string& mode) {
  std::map<std::string, std::string> form{{kModeEntry, mode}};
  if (!flags.mix_list.empty()) form[kListEntry] = flags.mix_list;
  if (!flags.dtypes.empty()) form[kRulesEntry] = flags.dtypes;
  return form;
}

PrecisionFlags saved_precision(const SavedEntry& find, const std::string& source) {
  PrecisionFlags flags;
  const auto mode = find(kModeEntry);
  if (mode)
    flags.value = keel::parse_in_file(source, [&] { return keel::Precision::named(*mode); });
  if (const auto text = find(kListEntry)) {
    flags.mix_list = *text;
    flags.value.mix_list = mix_list_of(*text, source + ": mix_list", false);
  }
  if (const auto text = find(kRulesEntry)) {
    flags.dtypes = *text;
    flags.value.dtypes = keel::parse_dtype_overrides(*text, source + ": customize_dtypes");
  }
  return flags;
}

PrecisionFlags precision_over(const PrecisionFlags& flags, const SavedEntry& find,
                              const std::string& source) {
  // The file's list and rules were written for its mode: another one stands alone.
  const bool own_list = flags.mix_list_given || flags.mode_given;
  const bool own_rules = flags.dtypes_given || flags.mode_given;
  const auto left_to_file = [&](const std::string& name) -> std::optional<std::string> {
    const bool is_own = name == kModeEntry   ? flags.mode_given
                        : name == kListEntry ? own_list
                                             : own_rules;
    return is_own ? std::nullopt : find(name);
  };
  PrecisionFlags result = saved_precision(left_to_file, source);
  result.mode_given = flags.mode_given;
  result.mix_list_given = flags.mix_list_given;
  result.dtypes_given = flags.dtypes_given;
  if (flags.mode_given) {
    result.value.name = flags.value.name;
    result.value.mode = flags.value.mode;
    result.value.mode_v2 = flags.value.mode_v2;
  }
  if (own_list) {
    result.mix_list = flags.mix_list;
    result.value.mix_list = flags.value.mix_list;
  }
  if (own_rules) {
    result.dtypes = flags.dtypes;
    result.value.dtypes = flags.value.dtypes;
  }
  return result;
}

}  // namespace keel_cli
