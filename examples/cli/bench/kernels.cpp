#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "cli/base/flag_errors.h"
#include "cli/base/text_list.h"
#include "cli/bench/bench.h"
#include "cli/bench/kernel_cases.h"
#include "cli/bench/machine_peaks.h"

namespace keel_cli {
namespace {

constexpr double kSlowSeconds = 1;  // of such a kernel larger ones are not measured
constexpr size_t kCacheBytes = size_t{256} << 10, kMemoryBytes = size_t{256} << 20;

// One kernel on one backend: a step without inputs, many of them in a launch.
class KernelRun {
 public:
  KernelRun(const KernelCase& kernel, const std::string& backend, int threads) {
    const keel::Value result = kernel.build(graph_);
    session_.emplace(graph_, keel::device(backend), keel::SessionOptions{.threads = threads});
    loop_.emplace(session_->sink({.fetches = {result}}));
    step_seconds_ = run(1);
  }

  // Seconds of a step, from a launch that takes about so long.
  double measure(double seconds) {
    const double fitting = std::min(1e7, seconds / std::max(1e-8, step_seconds_));
    step_seconds_ = run(std::max<int64_t>(1, std::llround(fitting)));
    return step_seconds_;
  }
  double step_seconds() const { return step_seconds_; }

 private:
  // The device's own time, from the first task to the last: fetching the result is not the
  // kernel's.
  double run(int64_t steps) {
    const keel::LoopReport report = loop_->run(steps);
    const int64_t ns = report.busy_ns > 0 ? report.busy_ns : report.wall_ns;
    return static_cast<double>(ns) * 1e-9 / static_cast<double>(steps);
  }

  keel::Graph graph_;
  std::optional<keel::Session> session_;
  std::optional<keel::Loop> loop_;
  double step_seconds_ = 0;
};

struct KernelsSuiteFlags {
  KernelChoice choice;
  std::vector<std::string> backends;
  std::vector<int64_t> threads;
  double seconds = 0.2;
};

class KernelsBench {
 public:
  explicit KernelsBench(const KernelsSuiteFlags& flags) : flags_(flags) {
    json_["rounds"] = kRounds;
    for (const char* table : {"limits", "rows", "left_out"}) json_[table] = keel::Json::array();
  }

  keel::Json run() {
    for (const int64_t threads : flags_.threads) measure_limits(static_cast<int>(threads));
    std::cout << fmt::format(
        "\nkernels, wall time on the device, medians of {} rounds in turns with the machine's "
        "limits; roof: the lower of multiply-add peak and bandwidth x flop a byte\n"
        "{:<24} {:<5} {:<8} {:>7} {:>11} {:>6} {:>9} {:>8} {:>12} {:>6}\n",
        kRounds, "kernel", "dtype", "backend", "threads", "us", "+-%", "GFLOP/s", "GB/s",
        "roof GFLOP/s", "share");
    for (const KernelCase& kernel : kernel_cases(flags_.choice)) {
      for (const int64_t threads : flags_.threads) contest(kernel, static_cast<int>(threads));
    }
    print_left_out();
    return std::move(json_);
  }

 private:
  void measure_limits(int threads) {
    std::vector<keel::Json> entries;
    std::vector<Turn> turns;
    std::vector<double> units;
    const auto add = [&](const char* name, const char* level, const char* unit, size_t bytes,
                         Turn turn, double of_unit = 1e9) {
      keel::Json entry;
      entry["threads"] = threads;
      entry["name"] = name;
      entry["level"] = level;
      entry["unit"] = unit;
      if (bytes > 0) entry["bytes"] = bytes;
      entries.push_back(entry);
      turns.push_back(std::move(turn));
      units.push_back(of_unit);
    };
    for (const keel::DType dtype : {keel::f32, keel::bf16}) {
      if (auto peak = compute_peak(dtype, threads)) {
        const char* name = dtype == keel::f32 ? "multiply-add f32" : "multiply-add bf16";
        add(name, "registers", "GFLOP/s", 0, std::move(*peak));
      }
    }
    for (const Traffic traffic : {Traffic::kRead, Traffic::kCopy, Traffic::kTriad}) {
      add(name_of(traffic), "cache", "GB/s", kCacheBytes, bandwidth(traffic, kCacheBytes, threads));
      add(name_of(traffic), "memory", "GB/s", kMemoryBytes,
          bandwidth(traffic, kMemoryBytes, threads));
    }
    // Two threads hand a line over, however many there are.
    if (threads > 1 && !std::exchange(has_hand_overs_, true)) {
      add("hand-over", "caches", "M/s", 0, hand_overs(), 1e6);
      entries.back()["threads"] = 2;
    }
    const auto measured = take_turns(turns, flags_.seconds);
    std::cout << fmt::format("this machine's limits, {} thread{}\n", threads,
                             threads == 1 ? "" : "s");
    for (size_t i = 0; i < entries.size(); ++i) {
      const Spread rate = spread_of(measured[i]);
      const double in_unit = rate.median / units[i];
      entries[i]["rate"] = in_unit;
      entries[i]["spread"] = rate.share;
      std::cout << fmt::format("  {:<18} {:<10} {:>9.1f} {} (+-{:.1f} %)\n",
                               entries[i]["name"].get<std::string>(),
                               entries[i]["level"].get<std::string>(), in_unit,
                               entries[i]["unit"].get<std::string>(), rate.share * 100);
      json_["limits"].push_back(entries[i]);
    }
  }

  // The backends and the limits of this kernel take turns.
  void contest(const KernelCase& kernel, int threads) {
    std::vector<std::pair<std::string, std::unique_ptr<KernelRun>>> runs;
    for (const std::string& backend : flags_.backends) {
      if (auto run = make_run(kernel, backend, threads)) runs.emplace_back(backend, std::move(run));
    }
    if (runs.empty()) return;
    std::vector<Turn> turns = {
        bandwidth(kernel.traffic, static_cast<size_t>(kernel.bytes), threads)};
    auto peak = compute_peak(kernel.dtype, threads);
    if (peak) turns.push_back(std::move(*peak));
    const size_t first = turns.size();
    for (const auto& run : runs) {
      turns.push_back(
          [kernel_run = run.second.get()](double seconds) { return kernel_run->measure(seconds); });
    }
    const auto measured = take_turns(turns, flags_.seconds);
    const double bytes_a_second = spread_of(measured[0]).median;
    std::optional<double> roof;
    if (first > 1) {
      roof = std::min(spread_of(measured[1]).median, bytes_a_second * kernel.flop / kernel.bytes);
    }
    for (size_t i = 0; i < runs.size(); ++i)
      add(kernel, runs[i].first, threads, spread_of(measured[first + i]), roof);
  }

  std::unique_ptr<KernelRun> make_run(const KernelCase& kernel, const std::string& backend,
                                      int threads) {
    const std::string key =
        fmt::format("{} {} {} {}", kernel.kind, keel::name_of(kernel.dtype), backend, threads);
    const auto slow = slow_.find(key);
    if (slow != slow_.end() && kernel.flop > slow->second) {
      leave_out(kernel, backend, threads, "smaller ones take more than a second");
      return nullptr;
    }
    try {
      auto run = std::make_unique<KernelRun>(kernel, backend, threads);
      if (run->step_seconds() > kSlowSeconds) slow_.emplace(key, kernel.flop);
      return run;
    } catch (const keel::Error& error) {
      leave_out(kernel, backend, threads, error.what());
      return nullptr;
    }
  }

  static keel::Json names_of(const KernelCase& kernel, const std::string& backend, int threads) {
    keel::Json json;
    json["kind"] = kernel.kind;
    json["kernel"] = kernel.name;
    json["dtype"] = keel::name_of(kernel.dtype);
    json["backend"] = backend;
    json["threads"] = threads;
    return json;
  }

  void leave_out(const KernelCase& kernel, const std::string& backend, int threads,
                 const std::string& reason) {
    keel::Json entry = names_of(kernel, backend, threads);
    entry["reason"] = reason;
    json_["left_out"].push_back(entry);
  }

  void add(const KernelCase& kernel, const std::string& backend, int threads, const Spread& seconds,
           std::optional<double> roof) {
    const double flops = kernel.flop / seconds.median;
    const double bytes = kernel.bytes / seconds.median;
    keel::Json entry = names_of(kernel, backend, threads);
    entry["flop"] = kernel.flop;
    entry["bytes"] = kernel.bytes;
    entry["flop_per_byte"] = kernel.flop / kernel.bytes;
    entry["us"] = seconds.median * 1e6;
    entry["spread"] = seconds.share;
    entry["gflops"] = flops * 1e-9;
    entry["gbytes_per_second"] = bytes * 1e-9;
    if (roof) {
      entry["roof_gflops"] = *roof * 1e-9;
      entry["share_of_roof"] = flops / *roof;
    }
    json_["rows"].push_back(entry);
    std::cout << fmt::format(
                     "{:<24} {:<5} {:<8} {:>7} {:>11.2f} {:>6.1f} {:>9.2f} {:>8.2f} {:>12} {:>6}\n",
                     kernel.name, keel::name_of(kernel.dtype), backend, threads,
                     seconds.median * 1e6, seconds.share * 100, flops * 1e-9, bytes * 1e-9,
                     roof ? fmt::format("{:.1f}", *roof * 1e-9) : "-",
                     roof ? fmt::format("{:.2f}", flops / *roof) : "-")
              << std::flush;
  }

  void print_left_out() const {
    for (const keel::Json& row : json_["left_out"]) {
      std::cout << fmt::format("left out: {} {} on {}: {}\n", row["kernel"].get<std::string>(),
                               row["dtype"].get<std::string>(), row["backend"].get<std::string>(),
                               row["reason"].get<std::string>());
    }
  }

  const KernelsSuiteFlags& flags_;
  bool has_hand_overs_ = false;
  std::map<std::string, double> slow_;  // by kind, dtype, backend, threads: its operations
  keel::Json json_;
};

void declare_kernels_suite(CommandLine& line) {
  declare_backends(line, "cpu,npu");
  declare_thread_counts(line, "compute threads, the device's included", "1");
  line.add("kernels", "KIND,KIND,...", "of products, elementwise, sums, softmax (all)");
  line.add("sizes", "N,N,...", "of square products (256,512,1024,2048)");
  line.add("dtypes", "NAME,NAME,...", "of f32, bf16, f16 (f32,bf16,f16)");
  line.add("kib", "N,N,...", "of an operand of element-wise ops and sums (64,65536)");
  declare_seconds(line, "each row and each limit", "0.2");
}

// Throws Error for a flag about sizes of kernels none of which are measured.
void require_sized(const CommandLine& line, const KernelChoice& choice, const std::string& flag,
                   const std::vector<std::string>& kinds) {
  const bool any = std::any_of(kinds.begin(), kinds.end(), [&](const std::string& kind) {
    return std::find(choice.kinds.begin(), choice.kinds.end(), kind) != choice.kinds.end();
  });
  if (any || !line.has(flag)) return;
  const std::string sized = joined(kinds, " and ");
  refuse_flag("--" + flag, "is about " + sized + ", and --kernels has none of them",
              "drop it, or add them to --kernels");
}

keel::Json measure_kernels(const CommandLine& line) {
  KernelsSuiteFlags flags;
  flags.backends = read_backends(line, {"cpu", "npu"});
  flags.threads = read_thread_counts(line, {1});
  flags.choice.kinds = line.choices("kernels", kernel_kinds(), kernel_kinds());
  flags.choice.sizes = line.integers("sizes", 1, 16384, {256, 512, 1024, 2048});
  const std::vector<std::string> dtypes = {"f32", "bf16", "f16"};
  for (const std::string& name : line.choices("dtypes", dtypes, dtypes))
    flags.choice.dtypes.push_back(keel::parse_dtype(name));
  flags.choice.kib = line.integers("kib", 1, 1 << 20, {64, 65536});
  flags.seconds = read_seconds(line, 0.2);
  require_sized(line, flags.choice, "sizes", {"products"});
  require_sized(line, flags.choice, "kib", {"elementwise", "sums"});
  return KernelsBench(flags).run();
}

}  // namespace

Suite kernels_suite() {
  return {"kernels", "single kernels beside this machine's measured limits", declare_kernels_suite,
          measure_kernels};
}

}  // namespace keel_cli
