#include "keel/graph/runtime/step_dump.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

#include "keel/core/base/csv.h"
#include "keel/core/base/file.h"
#include "keel/core/base/json.h"
#include "keel/core/device/float_status.h"
#include "keel/core/tensor/npy.h"

namespace keel {
namespace {

namespace fs = std::filesystem;

// File systems take names of 255 bytes; op, place and ending stand beside it.
constexpr size_t kLongestName = 120;

// Letters, digits, '.', '_' and '-' stay; everything else, as the '/' of scopes, becomes '_', and
// so does a '.' in front, which would hide the file.
std::string in_file_name(std::string_view name) {
  std::string text(name.substr(0, kLongestName));
  for (char& c : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (!plain && c != '.' && c != '_' && c != '-') c = '_';
  }
  if (text.starts_with('.')) text[0] = '_';
  return text;
}

std::string time_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&now, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y%m%d%H%M%S", &parts)};
}

// Makes a folder that nobody else has, of that name or with a number behind it.
std::string make_own_folder(const std::string& path) {
  std::string name = path;
  for (int i = 2;; ++i) {
    std::error_code problem;
    if (fs::create_directory(name, problem)) return name;
    if (problem) throw Error({.op = name, .message = "cannot be made: " + problem.message()});
    name = path + "_" + std::to_string(i);
  }
}

// Makes a folder and returns those that were not there before it, the innermost first.
std::vector<fs::path> make_missing(const std::string& path) {
  std::vector<fs::path> missing;
  std::error_code unknown;
  for (fs::path at = path; !at.empty() && !fs::exists(at, unknown); at = at.parent_path())
    missing.push_back(at);
  make_folder(path);
  return missing;
}

// NumPy has no bf16, and f32 holds each of its values.
Tensor in_npy(const Tensor& tensor) { return tensor.dtype() == bf16 ? tensor.cast(f32) : tensor; }

std::string file_name(std::string_view op, std::string_view name, const char* io, size_t index) {
  return in_file_name(op) + "." + in_file_name(name) + "." + io + "." + std::to_string(index) +
         ".npy";
}

// The sum of the finite elements, each times `factor`, and how many these are.
std::pair<double, int64_t> sum_of_finite(const Tensor& tensor, double factor) {
  double sum = 0;
  int64_t count = 0;
  visit_dtype(tensor.dtype(), [&]<class T>() {
    for (const T element : tensor.data<T>()) {
      const auto value = static_cast<double>(element);
      if (!std::isfinite(value)) continue;
      sum += value * factor;
      ++count;
    }
  });
  return {sum, count};
}

// REQUIRES a finite element, and the range of all of them.
double mean_of_finite(const Tensor& tensor, const NumberRange& range) {
  const auto [sum, count] = sum_of_finite(tensor, 1);
  if (std::isfinite(sum)) return sum / static_cast<double>(count);
  // Numbers near the largest f64 have no finite sum, but a mean. No 2^63 elements scaled so have an
  // infinite one, and what is too small for the scale is nothing beside it.
  constexpr int kScale = 64;
  const auto [scaled, elements] = sum_of_finite(tensor, std::ldexp(1.0, -kScale));
  const double mean = std::ldexp(scaled / static_cast<double>(elements), kScale);
  // Rounding may have taken it past the largest number.
  return std::clamp(mean, range.least, range.most);
}

CsvRow statistics(const Tensor& tensor) {
  const NumberRange range = range_of(tensor.raw(), tensor.dtype(), tensor.num_elements());
  const bool any = range.infinite + range.nan < range.elements;
  return {name_of(tensor.dtype()),
          to_string(tensor.shape()),
          std::to_string(range.elements),
          any ? format_double(range.least) : "",
          any ? format_double(range.most) : "",
          any ? format_double(mean_of_finite(tensor, range)) : "",
          std::to_string(range.infinite),
          std::to_string(range.nan)};
}

std::string kind_of(const NumericsFinding& finding) {
  bool infinite = false, nan = false;
  for (const NumberRange& range : finding.results) {
    infinite = infinite || range.infinite != 0;
    nan = nan || range.nan != 0;
  }
  if (infinite && nan) return "infinite and NaN";
  if (infinite) return "infinite";
  return nan ? "NaN" : describe_float_status(finding.float_status);
}

Json described(const Tensor& tensor, const NumberRange& range, const std::string& file) {
  const auto dims = tensor.shape().dims();
  Json entry;
  entry["file"] = file;
  entry["dtype"] = name_of(tensor.dtype());
  entry["shape"] = std::vector<int64_t>(dims.begin(), dims.end());
  if (range.infinite + range.nan < range.elements) {
    entry["min"] = range.least;
    entry["max"] = range.most;
  }
  entry["infinite"] = range.infinite;
  entry["nan"] = range.nan;
  return entry;
}

Error in_words(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return error.with_context("dump");
  } catch (const std::exception& error) {
    return Error({.op = "dump", .message = error.what()});
  }
}

}  // namespace

StepDump::StepDump(const DumpOptions& options, std::vector<std::string> ops, const Device& device)
    : options_(options), ops_(std::move(ops)), device_(device.index()), ended_(!options.on()) {}

StepDump::~StepDump() { discard_step(); }

bool StepDump::wants(int64_t step) const {
  return options_.enable_dump && !ended_ && options_.steps.contains(step);
}

int64_t StepDump::most_steps(int64_t step, int64_t steps) const {
  if (!options_.enable_dump || ended_) return steps;
  const int64_t next = options_.steps.next_behind(step);
  return std::min(steps, std::max<int64_t>(1, next - 1 - step));
}

bool StepDump::writes(DumpMode one) const {
  return options_.mode == one || options_.mode == DumpMode::kAll;
}

template <class Action>
void StepDump::attempt(Action action) noexcept {
  if (ended_) return;
  try {
    action();
    return;
  } catch (...) {
    failure_ = std::current_exception();
  }
  ended_ = true;
  discard_step();
}

void StepDump::open_step(int64_t step, int program) {
  if (run_folder_.empty()) {
    made_ = make_missing(options_.path);
    run_folder_ = make_own_folder(options_.path + "/" + time_now());
  }
  const std::string parent = run_folder_ + "/" + std::to_string(device_) + "/" +
                             in_file_name(options_.model_name) + "/" + std::to_string(program);
  step_folder_ = parent + "/" + std::to_string(step);
  unfinished_ = parent + "/." + std::to_string(step) + ".unfinished";
  std::error_code problem;
  fs::create_directories(unfinished_, problem);
  if (problem) throw Error({.op = unfinished_, .message = "cannot be made: " + problem.message()});
}

void StepDump::publish_step() {
  std::error_code problem;
  fs::rename(unfinished_, step_folder_, problem);
  if (problem) throw Error({.op = step_folder_, .message = "cannot be made: " + problem.message()});
  unfinished_.clear();
  ++steps_;
}

void StepDump::discard_step() noexcept {
  if (unfinished_.empty()) return;
  std::error_code ignored;
  fs::remove_all(unfinished_, ignored);
  unfinished_.clear();
  if (steps_ != 0) return;
  // Without a step there is no folder at all; in one that was made for it others may have files.
  fs::remove_all(run_folder_, ignored);
  run_folder_.clear();
  for (const fs::path& made : std::exchange(made_, {})) fs::remove(made, ignored);
}

void StepDump::begin(int64_t step, int program) {
  shown_ = 0;
  table_.clear();
  attempt([&] { open_step(step, program); });
}

void StepDump::end(bool done) {
  if (!done) return discard_step();
  attempt([&] {
    if (options_.data == DumpData::kStats) {
      const CsvRow header = {"task",     "node", "op",  "io",   "index",    "dtype", "shape",
                             "elements", "min",  "max", "mean", "infinite", "nan",   "line"};
      write_file_atomically(unfinished_ + "/stats.csv", write_csv_row(header) + table_);
    }
    publish_step();
  });
}

void StepDump::before(const OpRun& run) {
  ++shown_;
  chosen_ = ops_.empty() || std::find(ops_.begin(), ops_.end(), run.name) != ops_.end();
  if (chosen_ && writes(DumpMode::kInput)) write(run, "input", run.inputs);
}

void StepDump::after(const OpRun& run, uint32_t) {
  if (chosen_ && writes(DumpMode::kOutput)) write(run, "output", run.outputs);
}

void StepDump::write(const OpRun& run, const char* io, std::span<const OpOperand> operands) {
  attempt([&] {
    constexpr size_t kDigits = 6;
    std::string task = std::to_string(shown_);
    if (task.size() < kDigits) task.insert(0, kDigits - task.size(), '0');
    for (size_t i = 0; i < operands.size(); ++i) {
      const Tensor tensor = copy_of(operands[i]);
      if (options_.data == DumpData::kTensor) {
        write_npy(unfinished_ + "/" + task + "." + file_name(run.op, run.name, io, i),
                  in_npy(tensor));
        continue;
      }
      CsvRow row = {std::to_string(shown_), std::string(run.name), std::string(run.op), io,
                    std::to_string(i)};
      for (std::string& cell : statistics(tensor)) row.push_back(std::move(cell));
      row.push_back(run.site.known() ? to_string(run.site) : "");
      table_ += write_csv_row(row);
    }
  });
}

void StepDump::write_finding(const NumericsWatch& watch, int program) {
  const NumericsFinding& finding = *watch.first();
  attempt([&] {
    open_step(finding.step, program);
    Json report;
    report["step"] = finding.step;
    report["name"] = finding.name;
    report["op"] = finding.op;
    report["kind"] = kind_of(finding);
    report["text"] = to_string(finding);
    if (finding.site.known()) report["line"] = to_string(finding.site);
    const auto add = [&](const char* list, const char* io, const std::vector<Tensor>& tensors,
                         const std::vector<NumberRange>& ranges) {
      report[list] = Json::array();
      for (size_t i = 0; i < tensors.size(); ++i) {
        const std::string file = file_name(finding.op, finding.name, io, i);
        write_npy(unfinished_ + "/" + file, in_npy(tensors[i]));
        report[list].push_back(described(tensors[i], ranges[i], file));
      }
    };
    add("inputs", "input", watch.operands(), finding.operands);
    add("outputs", "output", watch.results(), finding.results);
    write_file_atomically(unfinished_ + "/overflow.json", write_json(report, 2) + "\n");
    publish_step();
  });
}

void StepDump::settle() {
  if (failure_ == nullptr) return;
  const Error failure = in_words(std::exchange(failure_, nullptr));
  if (!options_.on_failure) throw Error(failure);
  options_.on_failure(failure);
}

}  // namespace keel
