#include <iostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <keel/backends/npu/options.h>
#include <keel/backends/npu/presets/preset.h>
#include <keel/core/base/json.h>
#include <keel/core/base/printable.h>
#include <keel/keel.h>
#include <nlohmann/json.hpp>

#include "cli/base/command_line.h"
#include "cli/base/commands.h"
#include "cli/base/flag_errors.h"
#include "cli/base/pass_flags.h"
#include "cli/base/precision_flags.h"
#include "cli/base/rate_table.h"
#include "cli/base/run_flags.h"
#include "cli/base/text_list.h"

namespace keel_cli {
namespace {

// How an op runs on a backend in one dtype.
enum class Way { kNone, kNative, kDecomposed };

Way way_of(const keel::OpDef& op, keel::Backend& backend, keel::DType dtype) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    keel::SampleSource source(seed, dtype, 20);
    const keel::Sample sample = op.sample(source);
    if (!sample.build) return Way::kNone;
    keel::Graph graph;
    keel::Values inputs;
    for (const keel::Tensor& t : sample.inputs) {
      inputs.push_back(graph.input("x" + std::to_string(inputs.size()), t.dtype(), t.shape()));
    }
    graph.set_outputs(sample.build(graph, inputs));
    for (const keel::Node& node : graph.nodes()) {
      if (node.op_name() != op.name) continue;
      if (backend.supports(node).supported) return Way::kNative;
      try {
        keel::decompose(graph, [&](const keel::Node& n) { return backend.supports(n); });
        return Way::kDecomposed;
      } catch (const keel::Error&) {
        return Way::kNone;
      }
    }
  }
  return Way::kNone;
}

struct Row {
  std::string op;
  std::vector<std::vector<std::string>> native;      // by backend: dtype names
  std::vector<std::vector<std::string>> decomposed;  // likewise
};

std::vector<Row> support_matrix(const std::vector<std::string>& backends) {
  std::vector<Row> rows;
  for (const keel::OpDef* op : keel::builtin_ops().all()) {
    if (!op->sample) continue;
    Row row{op->name, {}, {}};
    for (const std::string& name : backends) {
      row.native.emplace_back();
      row.decomposed.emplace_back();
      for (const keel::DType dtype : keel::kDTypes) {
        const Way way = way_of(*op, keel::backend(name), dtype);
        if (way == Way::kNative) row.native.back().push_back(keel::name_of(dtype));
        if (way == Way::kDecomposed) row.decomposed.back().push_back(keel::name_of(dtype));
      }
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

void print_json(const std::vector<std::string>& backends, const std::vector<Row>& rows) {
  keel::Json json;
  json["keel_version"] = KEEL_VERSION;
  for (const std::string& name : backends) {
    for (const keel::DeviceInfo& device : keel::backend(name).devices()) {
      keel::Json entry;
      entry["backend"] = name;
      entry["device"] = device.name;
      entry["description"] = device.description;
      entry["memory_bytes"] = device.memory_bytes;
      for (const auto& [key, value] : device.properties) entry["properties"][key] = value;
      json["devices"].push_back(entry);
    }
  }
  for (const Row& row : rows) {
    for (size_t i = 0; i < backends.size(); ++i) {
      json["ops"][row.op][backends[i]] = {{"native", row.native[i]},
                                          {"decomposed", row.decomposed[i]}};
    }
  }
  std::cout << keel::write_json(json, 2) << "\n";
}

void print_text(const std::vector<std::string>& backends, const std::vector<Row>& rows) {
  std::cout << "keel " << KEEL_VERSION << "\n\ndevices:\n";
  for (const std::string& name : backends) {
    std::vector<std::pair<std::string, std::string>> told;  // once for devices that are alike
    for (const keel::DeviceInfo& device : keel::backend(name).devices()) {
      std::cout << "  " << keel::printable(device.name) << "  "
                << keel::printable(device.description);
      if (device.memory_bytes != 0) std::cout << ", " << (device.memory_bytes >> 20) << " MiB";
      std::cout << "\n";
      if (device.properties == std::exchange(told, device.properties)) continue;
      for (const auto& [key, value] : device.properties) {
        std::string indented = keel::printable_lines(value);
        for (size_t at = 0; (at = indented.find('\n', at)) != std::string::npos; at += 7) {
          indented.replace(at, 1, "\n      ");
        }
        std::cout << "    " << keel::printable(key) << ": " << indented << "\n";
      }
    }
  }
  std::cout << "\nops (dtypes in parentheses run as a composition of other ops):\n";
  for (const Row& row : rows) {
    std::cout << "  " << row.op << "\n";
    for (size_t i = 0; i < backends.size(); ++i) {
      std::cout << "    " << fmt::format("{:<6}", backends[i]) << joined(row.native[i], " ");
      if (!row.decomposed[i].empty()) std::cout << " (" << joined(row.decomposed[i], " ") << ")";
      std::cout << "\n";
    }
  }
}

// A dumped library is that of every mixed mode, with what --modify-mixlist changes.
void require_no_mode(const CommandLine& line) {
  for (const char* flag :
       {"precision", "precision-mode", "precision-mode-v2", "customize-dtypes"}) {
    if (line.has(flag))
      refuse_flag(std::string("--") + flag,
                  "does not go with --dump-ops-info, whose lists are the same "
                  "under every mode",
                  "drop it");
  }
}

// Refuses flags that what is asked for would leave unread.
void require_read(const CommandLine& line) {
  for (const char* task : {"passes", "rates", "dump-ops-info"}) {
    if (!line.has(task)) continue;
    for (const char* other : {"passes", "rates", "dump-ops-info", "preset", "backend"}) {
      if (std::string_view(other) != task && line.has(other))
        refuse_flag(std::string("--") + other, std::string("does not go with --") + task,
                    "drop one of the two");
    }
    if (std::string_view(task) == "dump-ops-info") {
      require_no_mode(line);
    } else if (has_precision_flag(line)) {
      refuse_flag(std::string("--") + task, "does not go with flags about precision",
                  "drop one of the two");
    }
    return;
  }
  if (has_precision_flag(line)) {
    const std::string backend = read_backend(line);
    if (line.has("preset") && backend != "npu")
      refuse_flag("--preset", "is about the NPU, and the backend is " + backend,
                  "drop it, or use --backend npu");
    return;
  }
  if (line.has("backend"))
    refuse_flag("--backend", "is about precision modes, and none is named",
                "add --precision-mode NAME, or drop it");
  if (line.has("preset") && line.has("json"))
    refuse_flag("--json", "does not go with --preset, which is described as text",
                "drop it, or name a --precision-mode");
}

// Prints the form that a precision mode gives each op.
void print_precision(const CommandLine& line) {
  const std::string name = read_backend(line);
  std::shared_ptr<const keel::DeviceOptions> options;
  if (const auto preset = line.text("preset"))
    options = in_flag(
        "--preset", [&] { return keel::npu::options(*preset); }, "preset");
  const keel::Backend& backend = keel::backend(name);
  const keel::ResolvedPrecision precision =
      read_precision(line).resolved_on(backend, options.get());
  const auto rows = keel::precision_table(
      precision, [&](const keel::Node& node) { return backend.supports(node, options.get()); });
  if (line.has("json")) {
    keel::Json json;
    json["precision"] = precision.mode->name;
    json["backend"] = name;
    for (const keel::PrecisionRow& row : rows)
      json["ops"][row.op][keel::name_of(row.dtype)] = row.choice;
    std::cout << keel::write_json(json, 2) << "\n";
    return;
  }
  std::cout << precision.mode->name << ": " << precision.mode->summary << "\n\n";
  for (const keel::PrecisionRow& row : rows) {
    std::cout << fmt::format("  {:<26} {:<5} {}\n", row.op, keel::name_of(row.dtype),
                             keel::printable(row.choice));
  }
}

}  // namespace

int run_info(const std::vector<std::string>& words) {
  CommandLine line("info", "version, backends, devices, and which op runs where");
  line.add("json", "", "as one JSON object");
  line.add("preset", "NAME|FILE", "instead: the NPU preset's parameters, their sources, its peaks");
  line.add("backend", "ref|cpu|npu", "whose ops a precision mode is shown for (npu)");
  line.add("dump-ops-info", "", "instead: which ops mixed precision computes low, and which never");
  line.add("passes", "", "instead: the compiler's passes, and which may be switched off");
  line.add("rates", "",
           "instead: what this processor multiplies in a second, and by which kernels");
  declare_precision_flags(line);
  line.parse(words);
  if (line.wants_help()) {
    std::cout << line.help();
    return kExitDone;
  }
  require_read(line);
  if (line.has("passes")) {
    print_passes(line.has("json"));
    return kExitDone;
  }
  if (line.has("rates")) {
    print_rates(line.has("json"));
    return kExitDone;
  }
  if (line.has("dump-ops-info")) {
    std::cout << keel::write_ops_info(keel::builtin_ops(), read_precision(line).value.mix_list);
    return kExitDone;
  }
  if (has_precision_flag(line)) {
    print_precision(line);
    return kExitDone;
  }
  if (const auto preset = line.text("preset")) {
    std::cout << keel::npu::describe_preset(in_flag(
        "--preset", [&] { return keel::npu::load_preset(*preset); }, "preset"));
    return kExitDone;
  }
  const std::vector<std::string> backends = keel::backend_names();
  const std::vector<Row> rows = support_matrix(backends);
  if (line.has("json"))
    print_json(backends, rows);
  else
    print_text(backends, rows);
  return kExitDone;
}

}  // namespace keel_cli
