#include <algorithm>
#include <cctype>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <keel/backends/npu/cost/calibrate.h>
#include <keel/backends/npu/measured/compare.h>
#include <keel/backends/npu/measured/fit.h>
#include <keel/core/base/environment.h>
#include <keel/keel.h>

#include "cli/base/command_line.h"
#include "cli/base/commands.h"
#include "cli/base/flag_errors.h"
#include "cli/base/output_files.h"
#include "cli/base/text_list.h"
#include "cli/calibrate/report.h"

namespace keel_cli {
namespace {

using keel::npu::NamedNet;
using keel::npu::Preset;
using keel::npu::TableLines;

// --preset for all rows; without it, those that name their device have the preset of that name, and
// those that do not have the default one.
std::shared_ptr<const Preset> preset_of(const std::optional<std::string>& asked,
                                        const std::string& device) {
  if (asked) return std::make_shared<const Preset>(keel::npu::load_preset(*asked));
  if (device.empty()) return keel::npu::default_preset();
  // "910b1", "Ascend910B1" and the preset's own name are one device.
  std::string name = device;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (!name.starts_with("ascend")) name = "ascend" + name;
  const std::vector<std::string> presets = keel::npu::preset_names();
  if (std::find(presets.begin(), presets.end(), name) != presets.end())
    return std::make_shared<const Preset>(keel::npu::load_preset(name));
  throw keel::Error({.op = "--measured",
                     .argument = "Device",
                     .expected = "a device with a preset of its name: " + alternatives(presets),
                     .got = device,
                     .fix = "name a preset for all rows with --preset"});
}

// The one device of the rows. Throws Error where there are several; `flag` asks for one.
std::string only_device(const std::string& flag, const keel::npu::MeasuredTable& table) {
  for (const keel::npu::MeasuredRow& row : table.rows) {
    if (row.device == table.rows.front().device) continue;
    throw keel::Error({.op = "calibrate",
                       .argument = "--" + flag,
                       .expected = "rows of one device",
                       .got = table.rows.front().device + " and " + row.device,
                       .fix = "choose one with --device",
                       .kind = keel::ErrorKind::kInvalidArgument});
  }
  return table.rows.empty() ? "" : table.rows.front().device;
}

int fit_measured(const CommandLine& line, const std::string& path, const std::string& out,
                 const keel::npu::MeasuredTable& table) {
  const auto start = preset_of(line.text("preset"), only_device("fit", table));
  const keel::npu::Fit fit = keel::npu::fit_preset(table, *start);
  const std::string name = path.substr(path.rfind('/') + 1);
  keel::write_file_atomically(out, keel::npu::fitted_preset_text(fit, name));
  std::cout << fit_text(start->name, fit);
  return kExitDone;
}

[[noreturn]] void fail_lines(const std::string& flag, const std::string& expected,
                             const std::string& got) {
  throw keel::Error({.op = "calibrate",
                     .argument = "--" + flag,
                     .expected = expected,
                     .got = got,
                     .kind = keel::ErrorKind::kInvalidArgument});
}

// "2-735". `others`: what the flag takes besides.
TableLines parse_lines(const std::string& flag, const std::string& text,
                       const std::string& others = "") {
  const size_t dash = text.find('-');
  if (dash == std::string::npos) fail_lines(flag, "lines of the table, as 2-100" + others, text);
  const auto number = [&](const std::string& part) {
    return keel::parse_integer(part, "--" + flag, 1, kMostCount);
  };
  const TableLines lines{number(text.substr(0, dash)), number(text.substr(dash + 1))};
  if (lines.first > lines.last) fail_lines(flag, "a first line that is not behind the last", text);
  return lines;
}

// Nothing where the flag is not given.
std::optional<TableLines> lines_of(const CommandLine& line, const std::string& flag,
                                   const std::string& others = "") {
  if (!line.has(flag)) return std::nullopt;
  return parse_lines(flag, *line.text(flag), others);
}

// "BERT=2-481" or, where a column of the table says its name, "BERT". Throws Error where two have a
// name or a line in common.
std::vector<NamedNet> nets_of(const CommandLine& line) {
  std::vector<NamedNet> nets;
  for (const std::string& text : line.texts("net")) {
    const size_t equals = text.rfind('=');
    NamedNet net{text.substr(0, equals), std::nullopt};
    if (equals != std::string::npos) net.lines = parse_lines("net", text.substr(equals + 1));
    if (net.name.empty()) fail_lines("net", "a name, as in NAME=2-100", text);
    for (const NamedNet& other : nets) {
      const bool shares = net.lines && other.lines && net.lines->first <= other.lines->last &&
                          other.lines->first <= net.lines->last;
      if (net.name == other.name || shares)
        fail_lines("net", "another name and other lines than those of " + other.name, text);
    }
    nets.push_back(std::move(net));
  }
  return nets;
}

// Throws Error where the table has none of the lines.
void require_lines(const std::optional<TableLines>& lines, const std::string& flag,
                   const keel::npu::MeasuredTable& table) {
  if (!lines || (lines->first <= table.last_line && lines->last > 1)) return;
  fail_lines(flag, fmt::format("rows of the table, in lines 2 to {}", table.last_line),
             fmt::format("{}-{}", lines->first, lines->last));
}

// `lines`: the rows of one part; without them, the odd rows are one.
int validate_fit(const CommandLine& line, const std::optional<TableLines>& lines,
                 const keel::npu::MeasuredTable& table) {
  const auto start = preset_of(line.text("preset"), only_device("cross-validate", table));
  keel::npu::TablePart first{"odd rows", [](size_t i, const auto&) { return i % 2 == 0; }};
  keel::npu::TablePart second{"even rows", [](size_t i, const auto&) { return i % 2 == 1; }};
  if (lines) {
    const TableLines part = *lines;
    const std::string how = *line.text("cross-validate");
    first = {"lines " + how, [=](size_t, const auto& row) { return part.has(row.line); }};
    second = {"the other lines", [=](size_t, const auto& row) { return !part.has(row.line); }};
  }
  const auto validations = keel::npu::cross_validate(table, *start, first, second);
  std::cout << cross_validation_text(validations);
  if (line.has("json"))
    keel::write_file_atomically(*line.text("json"), cross_validation_json(validations));
  return kExitDone;
}

// A fit and a cross-validation are no comparison, which alone has sums and a page.
void require_one_task(const CommandLine& line) {
  const auto refuse = [&](const char* flag, const char* other) {
    if (!line.has(flag) || !line.has(other)) return;
    throw keel::Error({.op = "calibrate",
                       .argument = std::string("--") + other,
                       .message = std::string("is not of a run with --") + flag,
                       .fix = "run it again without one of them",
                       .kind = keel::ErrorKind::kInvalidArgument});
  };
  for (const char* other : {"json", "html", "net", "cross-validate"}) refuse("fit", other);
  for (const char* other : {"html", "net"}) refuse("cross-validate", other);
}

// Throws Error for a table of which no row was compared.
void require_mapped(const std::string& path, const keel::npu::Comparison& comparison) {
  if (!comparison.rows.empty()) return;
  std::string expected = "rows with a duration, and of OP types that are mapped", found;
  bool lacks_rule = false;
  for (const auto& [type, reason] : comparison.why_not) {
    found += (found.empty() ? "" : ", ") + type;
    if (reason == keel::npu::kNoRuleForType)
      lacks_rule = true;
    else
      found += " (" + reason + ")";
  }
  if (lacks_rule) expected += ": " + joined(keel::npu::mapped_types(), ", ");
  throw keel::Error({.op = "calibrate",
                     .argument = path,
                     .expected = expected,
                     .got = found.empty() ? "none with a duration" : "none but of " + found});
}

int compare_measured(const CommandLine& line) {
  require_one_task(line);
  const std::string path = *line.text("measured");
  const std::optional<std::string> preset = line.text("preset");
  const std::string json = line.text("json").value_or(""), html = line.text("html").value_or("");
  const std::string fit = line.text("fit").value_or("");
  require_distinct({{"--json", json}, {"--html", html}, {"--fit", fit}}, {{"--measured", path}});
  if (!fit.empty()) require_writable("--fit", fit);
  if (!json.empty()) require_writable("--json", json);
  if (!html.empty()) require_writable("--html", html);
  if (preset)
    in_flag(
        "--preset", [&] { return keel::npu::load_preset(*preset); }, "preset");
  keel::npu::RowChoice choice;
  choice.device = line.text("device");
  const std::optional<TableLines> lines = lines_of(line, "lines");
  if (lines) choice.lines = *lines;
  choice.nets = nets_of(line);
  const bool by_lines = line.has("cross-validate") && *line.text("cross-validate") != "odd-even";
  if (by_lines) choice.apart = lines_of(line, "cross-validate", ", or odd-even");
  const keel::npu::MeasuredTable table = keel::npu::read_measured(path, choice);
  if (choice.device) require_device(*choice.device, path, table);
  require_lines(lines, "lines", table);
  for (const NamedNet& net : choice.nets) require_lines(net.lines, "net", table);
  require_lines(choice.apart, "cross-validate", table);
  if (line.has("cross-validate")) return validate_fit(line, choice.apart, table);
  if (!fit.empty()) return fit_measured(line, path, fit, table);
  const keel::npu::Comparison comparison = keel::npu::compare(
      table, [&](const std::string& device) { return preset_of(preset, device); });
  require_mapped(path, comparison);
  std::cout << comparison_text(table, comparison);
  if (!json.empty()) keel::write_file_atomically(json, comparison_json(table, comparison));
  if (!html.empty()) keel::write_file_atomically(html, comparison_page(path, table, comparison));
  return kExitDone;
}

}  // namespace

int run_calibrate(const std::vector<std::string>& words) {
  CommandLine line("calibrate",
                   "what the NPU's device model predicts for published measurements, misses "
                   "included, or for those of a profile");
  line.add("measured", "FILE.csv",
           "compare with a table of measured ops: op_summary_*.csv of msprof, kernel_details.csv "
           "of the profiler, or one with the columns of either");
  line.add("preset", "NAME|FILE.json",
           "price all rows with this preset (default: the one of each row's Device)");
  line.add("device", "NAME", "only rows of this Device");
  line.add("lines", "FIRST-LAST", "only rows in these lines of the file, its header being 1");
  line.add_repeated("net", "NAME[=FIRST-LAST]",
                    "sum the ops of a net apart: the rows in these lines, or those whose column "
                    "Net, Model Name or Step ID has the name");
  line.add("json", "FILE",
           "write every row and the figures of each class as JSON, or those of a cross-validation");
  line.add("html", "FILE", "write a page with a plot of modelled against measured");
  line.add("fit", "OUT.json",
           "fit the preset's few physical parameters to the rows, a fifth of them held out, and "
           "write it as a preset");
  line.add(
      "cross-validate", "odd-even|FIRST-LAST",
      "fit to the odd rows and predict the even ones, or to the rows in these lines and predict "
      "the others, and the other way round");
  line.parse(words);
  if (line.wants_help()) {
    std::cout << line.help();
    return kExitDone;
  }
  if (line.has("measured")) return compare_measured(line);
  for (const char* flag :
       {"preset", "device", "lines", "net", "json", "html", "fit", "cross-validate"}) {
    if (!line.has(flag)) continue;
    throw keel::Error({.op = "calibrate",
                       .argument = std::string("--") + flag,
                       .message = "belongs to a table of measurements",
                       .fix = "name the table with --measured FILE.csv",
                       .kind = keel::ErrorKind::kInvalidArgument});
  }
  std::cout << keel::npu::calibration_table(keel::npu::calibrate());
  return kExitDone;
}

}  // namespace keel_cli
