#include <algorithm>
#include <array>
#include <iostream>
#include <iterator>

#include <fmt/core.h>
#include <keel/core/base/file.h>
#include <keel/core/base/json.h>
#include <keel/core/base/printable.h>
#include <keel/keel.h>
#include <keel/ops/conformance/cases.h>
#include <keel/ops/conformance/scorecard.h>
#include <nlohmann/json.hpp>

#include "cli/base/command_line.h"
#include "cli/base/commands.h"
#include "cli/base/output_files.h"
#include "cli/base/run_flags.h"
#include "cli/onnx/backend_tests.h"

namespace keel_cli {
namespace {

using keel::conformance::Score;
using keel::conformance::Verdict;

constexpr Verdict kVerdicts[] = {Verdict::kPass, Verdict::kComposed, Verdict::kUnsupported,
                                 Verdict::kFail};

int64_t count_of(const std::vector<Score>& scores, Verdict verdict) {
  return std::count_if(scores.begin(), scores.end(),
                       [&](const Score& score) { return score.verdict == verdict; });
}

std::string cell_of(Verdict verdict) {
  return verdict == Verdict::kFail ? "FAIL" : keel::conformance::name_of(verdict);
}

std::string row_of(const std::string& op,
                   const std::array<std::string, std::size(keel::kDTypes)>& cells) {
  std::string text = fmt::format("  {:<28}", op);
  for (const std::string& cell : cells) text += fmt::format(" {:<11}", cell);
  text.erase(text.find_last_not_of(' ') + 1);
  return text + "\n";
}

// A row for each op, as soon as its dtypes are known; empty where the op takes no such dtype.
class Table {
 public:
  Table() {
    for (size_t d = 0; d < cells_.size(); ++d) cells_[d] = keel::name_of(keel::kDTypes[d]);
    std::cout << row_of("", cells_);
  }
  void add(const Score& score) {
    if (score.op != op_) print();
    op_ = score.op;
    const auto column = std::find(std::begin(keel::kDTypes), std::end(keel::kDTypes), score.dtype);
    cells_[static_cast<size_t>(column - std::begin(keel::kDTypes))] = cell_of(score.verdict);
  }
  void print() {
    if (!op_.empty()) std::cout << row_of(op_, cells_) << std::flush;
    op_.clear();
    cells_.fill("");
  }

 private:
  std::string op_;
  std::array<std::string, std::size(keel::kDTypes)> cells_;
};

void print_detail(const Score& score) {
  std::cout << "  " << score.op << " " << keel::name_of(score.dtype) << ": "
            << keel::printable(score.detail, 2000) << "\n";
}

void print_details(const std::vector<Score>& scores, Verdict verdict) {
  if (count_of(scores, verdict) == 0) return;
  std::cout << "\n" << keel::conformance::name_of(verdict) << ":\n";
  for (const Score& score : scores)
    if (score.verdict == verdict) print_detail(score);
}

// The table's "pass" and "composed" leave something open: gradients that the backend does not run.
void print_notes(const std::vector<Score>& scores) {
  const auto has_note = [](const Score& score) {
    const bool agrees = score.verdict == Verdict::kPass || score.verdict == Verdict::kComposed;
    return agrees && !score.detail.empty();
  };
  if (std::none_of(scores.begin(), scores.end(), has_note)) return;
  std::cout << "\nforward only, in some cases at least:\n";
  for (const Score& score : scores)
    if (has_note(score)) print_detail(score);
}

keel::Json json_of(const keel::Device& device, int cases, const std::vector<Score>& scores) {
  keel::Json json;
  json["keel_version"] = KEEL_VERSION;
  json["backend"] = device.backend().name();
  json["device"] = device.name();
  json["cases_of_an_op"] = cases;
  for (const Verdict verdict : kVerdicts)
    json["counts"][keel::conformance::name_of(verdict)] = count_of(scores, verdict);
  json["scores"] = keel::Json::array();
  for (const Score& score : scores) {
    json["scores"].push_back({{"op", score.op},
                              {"dtype", keel::name_of(score.dtype)},
                              {"verdict", keel::conformance::name_of(score.verdict)},
                              {"cases", score.cases},
                              {"detail", score.detail}});
  }
  return json;
}

// ---- the backend tests of ONNX

constexpr OnnxVerdict kOnnxVerdicts[] = {OnnxVerdict::kPassed, OnnxVerdict::kRefused,
                                         OnnxVerdict::kFailed};

int64_t count_of(const std::vector<OnnxScore>& scores, OnnxVerdict verdict) {
  return std::count_if(scores.begin(), scores.end(),
                       [&](const OnnxScore& score) { return score.verdict == verdict; });
}

keel::Json json_of(const std::string& folder, const std::string& backend,
                   const std::vector<OnnxScore>& scores) {
  keel::Json json;
  json["keel_version"] = KEEL_VERSION;
  json["backend"] = backend;
  json["folder"] = folder;
  for (const OnnxVerdict verdict : kOnnxVerdicts)
    json["counts"][name_of(verdict)] = count_of(scores, verdict);
  json["cases"] = keel::Json::array();
  for (const OnnxScore& score : scores) {
    json["cases"].push_back({{"name", score.name},
                             {"verdict", name_of(score.verdict)},
                             {"detail", score.detail},
                             {"bound", score.bound},
                             {"computed_at_import", score.computed_at_import}});
  }
  return json;
}

// The files that the cases are read from, for require_distinct.
std::vector<NamedFile> files_of_cases(const std::string& folder,
                                      const std::vector<std::string>& except) {
  std::vector<NamedFile> files;
  for (std::string& path : backend_test_files(folder, except))
    files.push_back({"--onnx", std::move(path)});
  return files;
}

int run_onnx(const std::string& folder, const keel::Device& device,
             const std::vector<std::string>& except, const std::string& file) {
  const std::string backend = device.backend().name();
  std::cout << "conformance of " << backend << ": the backend tests of ONNX in "
            << keel::printable(folder) << "\n\n";
  const std::vector<OnnxScore> scores =
      run_backend_tests(folder, device, except, [](const OnnxScore& score) {
        std::cout << "  " << name_of(score.verdict) << " " << keel::printable(score.name);
        if (!score.detail.empty()) std::cout << ": " << keel::printable(score.detail, 2000);
        std::cout << "\n" << std::flush;
      });
  std::cout << "\n";
  for (const OnnxVerdict verdict : kOnnxVerdicts) {
    std::cout << (verdict == kOnnxVerdicts[0] ? "" : ", ") << count_of(scores, verdict) << " "
              << name_of(verdict);
  }
  if (!except.empty()) std::cout << "; " << except.size() << " left out";
  std::cout << "\n";
  if (!file.empty()) {
    keel::write_file_atomically(file, keel::write_json(json_of(folder, backend, scores), 2) + "\n");
  }
  return count_of(scores, OnnxVerdict::kFailed) == 0 ? kExitDone : kExitNotConformant;
}

}  // namespace

int run_conformance(const std::vector<std::string>& words) {
  CommandLine line("conformance",
                   "runs every op in every dtype on a backend, forward and gradient, and compares "
                   "with the references; exit code 3 where something is wrong");
  line.add("backend", "NAME", "ref, cpu, npu, or what a plugin brings (npu)");
  line.add("ops", "NAME,NAME,...", "only these (all that compute something)");
  line.add("cases", "N", "random cases of each op, at least ten of each dtype (50)");
  line.add("onnx", "FOLDER",
           "instead, the backend tests of the ONNX project below a folder, imported and run: "
           "passed, refused by the import, failed");
  line.add("except", "NAME,NAME,...", "with --onnx: cases that are left out");
  line.add("json", "FILE", "writes the scorecard as JSON");
  line.parse(words);
  if (line.wants_help()) {
    std::cout << line.help();
    return kExitDone;
  }
  const std::string backend = read_backend(line);
  const int cases = static_cast<int>(line.integer("cases", 1, 1000000).value_or(50));
  std::vector<std::string> names;
  for (const keel::OpDef* op : keel::conformance::computing_ops()) names.push_back(op->name);
  const std::vector<std::string> ops = line.choices("ops", names, {});
  const std::string file = line.text("json").value_or("");
  const auto folder = line.text("onnx");
  if (folder && (line.has("ops") || line.has("cases"))) {
    throw keel::Error({.op = "--onnx",
                       .message = "goes with neither --ops nor --cases",
                       .kind = keel::ErrorKind::kInvalidArgument});
  }
  if (!folder && line.has("except")) {
    throw keel::Error({.op = "--except",
                       .message = "goes with --onnx only",
                       .kind = keel::ErrorKind::kInvalidArgument});
  }
  // The device is made once, before all cases: what is wrong in the environment is no failure of
  // each of them.
  const keel::Device device = device_to_run_on(backend);
  if (folder) {
    const std::vector<std::string> except = line.choices("except", backend_test_names(*folder), {});
    require_distinct({{"--json", file}},
                     file.empty() ? std::vector<NamedFile>{} : files_of_cases(*folder, except));
    require_writable("--json", file);
    return run_onnx(*folder, device, except, file);
  }
  require_distinct({{"--json", file}}, {});
  require_writable("--json", file);

  std::cout << "conformance of " << backend << ": " << cases
            << " random cases of each op, forward and gradient\n\n";
  Table table;
  const std::vector<Score> scores = keel::conformance::scorecard(
      keel::backend(backend),
      {.cases = cases, .ops = ops, .listen = [&](const Score& score) { table.add(score); }});
  table.print();
  print_notes(scores);
  print_details(scores, Verdict::kUnsupported);
  print_details(scores, Verdict::kFail);
  std::cout << "\n";
  for (const Verdict verdict : kVerdicts) {
    std::cout << (verdict == kVerdicts[0] ? "" : ", ") << count_of(scores, verdict) << " "
              << keel::conformance::name_of(verdict);
  }
  std::cout << "\n";
  if (!file.empty())
    keel::write_file_atomically(file, keel::write_json(json_of(device, cases, scores), 2) + "\n");
  return count_of(scores, Verdict::kFail) == 0 ? kExitDone : kExitNotConformant;
}

}  // namespace keel_cli
