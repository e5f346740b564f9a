#include "keel/backends/npu/isa/rate_file.h"

#include <chrono>
#include <filesystem>
#include <thread>

#include <nlohmann/json.hpp>

#include "keel/core/base/environment.h"
#include "keel/core/base/error.h"
#include "keel/core/base/file.h"
#include "keel/core/base/json.h"
#include "keel/version.h"

namespace keel::npu {
namespace {

constexpr int64_t kFormat = 1;
constexpr uint64_t kMostBytes = uint64_t{64} << 10;
constexpr double kMostGflops = 1e7;
constexpr std::chrono::milliseconds kLongestWait{500}, kWaitStep{2};

std::string text_of(const RateKey& key) {
  const Processor& p = key.processor;
  return p.vendor + "-" + std::to_string(p.family) + "-" + std::to_string(p.model) + "-" +
         std::to_string(p.stepping) + "-" + name_of(key.isa) + "-" + key.version;
}

// Returns the key that a file says it is of, as text. REQUIRES nothing of it: the file may be
// anybody's.
std::string key_text_in(const JsonView& file) {
  RateKey key;
  const JsonView processor = file["processor"];
  processor.require_only({"vendor", "family", "model", "stepping"});
  key.processor = {processor["vendor"].text(), processor["family"].integer(0),
                   processor["model"].integer(0), processor["stepping"].integer(0)};
  key.version = file["keel_version"].text();
  const std::string isa = file["isa"].text();
  const Processor& p = key.processor;
  return p.vendor + "-" + std::to_string(p.family) + "-" + std::to_string(p.model) + "-" +
         std::to_string(p.stepping) + "-" + isa + "-" + key.version;
}

bool is_there(const std::string& path) {
  std::error_code unknown;
  return std::filesystem::exists(path, unknown);
}

// Waits, for a while, until no other process that measures holds the folder; without it several
// would take the processor from one another.
void lock(const std::string& folder, std::optional<FolderLock>& held) {
  for (auto waited = std::chrono::milliseconds(0); !held && waited < kLongestWait;
       waited += kWaitStep) {
    try {
      held.emplace(folder);
    } catch (const Error&) {
      std::this_thread::sleep_for(kWaitStep);
    }
  }
}

// Reads the file into `kept`; returns whether that gave its rates.
bool read_kept(const RateKey& key, const std::string& path, KeptRates& kept) {
  if (!is_there(path)) return false;
  try {
    kept.rates = read_rates(key, read_file(path, kMostBytes), path);
    kept.path = path;
    return true;
  } catch (const Error& error) {
    kept.problem = error.what();
    return false;
  }
}

}  // namespace

RateKey rate_key() { return {this_processor(), vector::host_isa(), KEEL_VERSION}; }

std::optional<std::string> rate_folder() {
  const auto cache = environment_text("XDG_CACHE_HOME");
  if (cache && std::filesystem::path(*cache).is_absolute()) return *cache + "/keel";
  const auto home = environment_text("HOME");
  if (home && std::filesystem::path(*home).is_absolute()) return *home + "/.cache/keel";
  return std::nullopt;
}

std::string rate_file_name(const RateKey& key) { return "rates-" + text_of(key) + ".json"; }

std::string write_rates(const RateKey& key, const KernelRates& rates) {
  Json file;
  file["format"] = kFormat;
  file["keel_version"] = key.version;
  file["isa"] = name_of(key.isa);
  file["processor"] = {{"vendor", key.processor.vendor},
                       {"family", key.processor.family},
                       {"model", key.processor.model},
                       {"stepping", key.processor.stepping}};
  file["turns"] = rates.turns;
  for (const KernelRate& rate : rates.cells) {
    file["gflops"][name_of(rate.dtype)][name_of(rate.shape)][name_of(rate.kernel)] = rate.gflops;
  }
  return write_json(file, 2) + "\n";
}

KernelRates read_rates(const RateKey& key, std::string_view text, const std::string& source) {
  const Json document = parse_json(text, source);
  const JsonView file(document, source);
  file.require_only({"format", "keel_version", "isa", "processor", "turns", "gflops"});
  file["format"].integer(kFormat, kFormat);
  if (const std::string of = key_text_in(file); of != text_of(key)) {
    throw Error({.op = source, .expected = "rates of " + text_of(key), .got = "those of " + of});
  }
  KernelRates rates = rate_cells(key.isa);
  size_t kernels = 0;
  for (const std::string& dtype : file["gflops"].keys()) {
    for (const std::string& shape : file["gflops"][dtype].keys())
      kernels += file["gflops"][dtype][shape].keys().size();
  }
  rates.turns = file["turns"].integer(1);
  for (KernelRate& rate : rates.cells) {
    const JsonView cell =
        file["gflops"][name_of(rate.dtype)][name_of(rate.shape)][name_of(rate.kernel)];
    rate.gflops = cell.number(0, kMostGflops);
    if (rate.gflops == 0) throw cell.error("a number above 0");
  }
  if (kernels != rates.cells.size()) {
    throw Error({.op = source,
                 .expected = std::to_string(rates.cells.size()) + " rates",
                 .got = std::to_string(kernels)});
  }
  return rates;
}

KeptRates keep_rates(const RateKey& key, const std::optional<std::string>& folder,
                     FunctionRef<KernelRates()> measure) {
  KeptRates kept;
  const std::string path = folder ? *folder + "/" + rate_file_name(key) : "";
  if (folder && read_kept(key, path, kept)) return kept;
  std::optional<FolderLock> held;
  std::string unwritable = folder ? "" : "neither XDG_CACHE_HOME nor HOME names a folder";
  if (folder) {
    try {
      if (!is_there(*folder)) make_folder(*folder);
      lock(*folder, held);
      kept.problem.clear();
      if (read_kept(key, path, kept)) return kept;
    } catch (const Error& error) {
      unwritable = error.what();
    }
  }
  kept.rates = measure();
  kept.measured = true;
  if (unwritable.empty()) {
    try {
      write_file_atomically(path, write_rates(key, kept.rates));
      kept.path = path;
    } catch (const Error& error) {
      unwritable = error.what();
    }
  }
  if (!unwritable.empty()) kept.problem = unwritable;
  return kept;
}

}  // namespace keel::npu
