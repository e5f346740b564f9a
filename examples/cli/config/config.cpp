#include <algorithm>
#include <iostream>

#include <fmt/core.h>
#include <keel/core/base/file.h>
#include <keel/core/base/printable.h>
#include <keel/keel.h>

#include "cli/base/command_line.h"
#include "cli/base/commands.h"
#include "cli/base/environment_table.h"
#include "cli/base/errors.h"
#include "cli/base/output_files.h"
#include "cli/config/adapter_options.h"

namespace keel_cli {
namespace {

// Prints what became of each option.
void print_report(std::ostream& out, const AdapterTranslation& translation) {
  for (const TranslatedOption& option : translation.options) {
    std::string text;
    if (option.fate == OptionFate::kFlag) {
      text = option.flag + " " + keel::write_json(translation.config[option.flag]);
      if (!option.why.empty()) text += ": " + option.why;
    } else {
      text = (option.fate == OptionFate::kNoEffect ? "no effect: " : "unsupported: ") + option.why;
    }
    out << fmt::format("{:<24} {}\n", option.option, keel::printable(text));
  }
}

// All at once, so that nobody meets them one after the other.
int refuse_unsupported(const AdapterTranslation& translation, const keel::Json& document,
                       const std::string& source) {
  std::string list;
  int64_t count = 0;
  for (const TranslatedOption& option : translation.options) {
    if (option.fate != OptionFate::kUnsupported) continue;
    ++count;
    list += (list.empty() ? "" : "; ") + option.option + " " +
            keel::write_json(document[option.option]) + " (" + option.why + ")";
  }
  if (count == 0) return kExitDone;
  print_error(keel::Error(
      {.op = source,
       .message = fmt::format("Keel has nothing for {} of its options: {}", count, list)}));
  return kExitUnsupported;
}

// The files that a training with these options reads: its configuration must not replace them.
std::vector<NamedFile> files_of(const AdapterTranslation& translation) {
  const std::vector<std::string>& flags = common_input_flags();
  std::vector<NamedFile> files;
  for (const TranslatedOption& option : translation.options) {
    if (std::find(flags.begin(), flags.end(), option.flag) == flags.end()) continue;
    const keel::Json& value = translation.config[option.flag];
    if (value.is_string()) files.push_back({option.option, value.get<std::string>()});
  }
  return files;
}

int translate(const std::string& file, const std::string& out) {
  require_distinct({{"--out", out}}, {{"--from-adapter", file}});
  const keel::Json document = read_config_file(file);
  const AdapterTranslation translation = translate_adapter_options(document, file);
  require_distinct({{"--out", out}}, files_of(translation));
  if (const int code = refuse_unsupported(translation, document, file); code != kExitDone)
    return code;
  require_trainable(translation, file);
  const std::string text = keel::write_json(translation.config, 2) + "\n";
  if (out.empty()) {
    print_report(std::cerr, translation);
    std::cout << text;
  } else {
    require_writable("--out", out);
    keel::write_file_atomically(out, text);
    print_report(std::cout, translation);
  }
  return kExitDone;
}

// Values that are wrong are shown with the rest, and are errors behind it.
int show_environment() {
  const std::vector<EnvironmentRow> rows = read_environment_table();
  size_t width = 0;
  for (const EnvironmentRow& row : rows) width = std::max(width, row.name.size());
  for (const EnvironmentRow& row : rows) {
    std::cout << fmt::format("{:<{}} {:<12} {}{}\n", row.name, width,
                             keel::printable(row.value.value_or("-"), 200),
                             row.error.empty() ? "" : "WRONG: ", row.about);
  }
  std::cout << std::flush;
  int code = kExitDone;
  for (const EnvironmentRow& row : rows) {
    if (row.error.empty()) continue;
    print_error(keel::Error(row.error));
    code = kExitWrongArgument;
  }
  return code;
}

}  // namespace

int run_config(const std::vector<std::string>& words) {
  CommandLine line("config",
                   "makes a file for `keel train --config` of options of Ascend's TensorFlow "
                   "adapter, or shows the environment");
  line.add("from-adapter", "FILE.json", "a JSON object with the adapter's options");
  line.add("out", "FILE.json", "where the flags go (standard output)");
  line.add("environment", "", "the variables that Keel reads: values, what each does");
  line.parse(words);
  if (line.wants_help()) {
    std::cout << line.help();
    return kExitDone;
  }
  const auto file = line.text("from-adapter");
  const std::string out = line.text("out").value_or("");
  if (file.has_value() == line.has("environment") || (!out.empty() && !file)) {
    throw keel::Error({.op = "keel config",
                       .expected = "--from-adapter FILE.json [--out FILE.json], or --environment",
                       .got = file                      ? "both"
                              : line.has("environment") ? "--environment and --out"
                              : out.empty()             ? "neither"
                                                        : "--out alone",
                       .kind = keel::ErrorKind::kInvalidArgument});
  }
  if (!file) return show_environment();
  static_cast<void>(keel::log_level_in_environment());  // an error if it names no level
  return translate(*file, out);
}

}  // namespace keel_cli
