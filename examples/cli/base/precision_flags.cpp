#include "cli/base/precision_flags.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include <keel/core/base/file.h>

#include "cli/base/errors.h"
#include "cli/base/flag_errors.h"

namespace keel_cli {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 20;
constexpr const char* kModeFlags[] = {"precision", "precision-mode", "precision-mode-v2"};
constexpr const char* kFileFlags[] = {"modify-mixlist", "customize-dtypes"};

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

keel::MixList mix_list_of(const std::string& text, const std::string& source, bool warns) {
  std::vector<std::string> warnings;
  keel::MixList list = keel::parse_mix_list(text, source, keel::builtin_ops(), warnings);
  if (warns) {
    for (const std::string& warning : warnings) print_warning(warning);
  }
  return list;
}

}  // namespace

std::string PrecisionFlags::mode_on(const keel::Backend& backend,
                                    const keel::DeviceOptions* options) const {
  return keel::resolve(value, backend, options).mode->name;
}

void PrecisionFlags::require_for_training(const keel::Backend& backend,
                                          const keel::DeviceOptions* options) const {
  const auto resolved = keel::resolve(value, backend, options);
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
  using keel::PrecisionOption;
  PrecisionFlags flags;
  const auto name = [&](const char* flag, PrecisionOption option) {
    return line.choice(flag, keel::precision_names(option)).value_or("");
  };
  require_one_mode(line);
  flags.value.name = name("precision", PrecisionOption::kShort);
  flags.value.mode = name("precision-mode", PrecisionOption::kMode);
  flags.value.mode_v2 = name("precision-mode-v2", PrecisionOption::kModeV2);
  const auto read = [&](const char* flag, const std::string& file) {
    return in_flag(flag, [&] { return keel::read_file(file, kMostBytes); });
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
  std::map<std::string, std::string> form{{"precision", mode}};
  if (!flags.mix_list.empty()) form["mix_list"] = flags.mix_list;
  if (!flags.dtypes.empty()) form["customize_dtypes"] = flags.dtypes;
  return form;
}

PrecisionFlags saved_precision(const SavedEntry& find, const std::string& source) {
  PrecisionFlags flags;
  const auto mode = find("precision");
  if (mode)
    flags.value = keel::parse_in_file(source, [&] { return keel::Precision::named(*mode); });
  if (const auto text = find("mix_list")) {
    flags.mix_list = *text;
    flags.value.mix_list = mix_list_of(*text, source + ": mix_list", false);
  }
  if (const auto text = find("customize_dtypes")) {
    flags.dtypes = *text;
    flags.value.dtypes = keel::parse_dtype_overrides(*text, source + ": customize_dtypes");
  }
  return flags;
}

}  // namespace keel_cli
