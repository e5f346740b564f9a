#include "keel/backends/common/cube/rate_file.h"

#include <chrono>
#include <filesystem>
#include <thread>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "keel/core/base/environment.h"
#include "keel/core/base/error.h"
#include "keel/core/base/file.h"
#include "keel/core/base/json.h"
#include "keel/version.h"

namespace keel {
namespace {

constexpr int64_t kFormat = 2;
constexpr uint64_t kMostBytes = uint64_t{64} << 10;
constexpr double kMostGflops = 1e7;
constexpr std::chrono::milliseconds kLongestWait{10'000}, kWaitStep{2};

std::string text_of(const Processor& p, const std::string& isa, const std::string& version) {
  return p.vendor + "-" + std::to_string(p.family) + "-" + std::to_string(p.model) + "-" +
         std::to_string(p.stepping) + "-" + isa + "-" + version;
}
std::string text_of(const RateKey& key) {
  return text_of(key.processor, name_of(key.isa), key.version);
}

// Kernels of builds that are watched, or not optimised, have other rates.
std::string version_of_build() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return KEEL_VERSION "+sanitised";
#elif !defined(__OPTIMIZE__)
  return KEEL_VERSION "+unoptimised";
#else
  return KEEL_VERSION;
#endif
}

// Returns the key that a file says it is of, as text. REQUIRES nothing of it: the file may be
// anybody's.
std::string key_text_in(const JsonView& file) {
  const JsonView processor = file["processor"];
  processor.require_only({"vendor", "family", "model", "stepping"});
  return text_of({processor["vendor"].text(), processor["family"].integer(0),
                  processor["model"].integer(0), processor["stepping"].integer(0)},
                 file["isa"].text(), file["keel_version"].text());
}

bool is_there(const std::string& path) {
  std::error_code unknown;
  return std::filesystem::exists(path, unknown);
}

// Waits, for a while, until no other process that measures holds the folder; without it several
// would take the processor from one another.
void lock(const std::string& folder, std::optional<FolderLock>& held) {
  if (access(folder.c_str(), R_OK | W_OK | X_OK) != 0 || !std::filesystem::is_directory(folder))
    throw Error({.op = folder, .expected = "a folder that files can be written to"});
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

RateKey rate_key() { return {this_processor(), vector::host_isa(), version_of_build()}; }

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
  rates.turns = file["turns"].integer(kLeastTurns);
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
  // Too few turns choose nothing, and the next process may have the time.
  if (unwritable.empty() && kept.rates.turns >= kLeastTurns) {
    if (folder && !held && read_kept(key, path, kept)) return kept;
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

}  // namespace keel
