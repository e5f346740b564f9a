#include "keel/backends/npu/profile/profiling_options.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include <nlohmann/json.hpp>

#include "keel/core/base/environment.h"
#include "keel/core/base/error.h"
#include "keel/core/base/json.h"
#include "keel/core/base/printable.h"

namespace keel::npu {
namespace {

constexpr int64_t kLeastStorageMb = 200, kMostStorageMb = 4294967295;

const std::vector<std::string> kKeys = {
    "output", "storage_limit", "training_trace", "task_trace",  "aicpu", "runtime_api", "hccl",
    "l2",     "fp_point",      "bp_point",       "aic_metrics",
};

// In the order of the enumeration.
const std::vector<std::string> kMetrics = {
    "PipeUtilization", "ArithmeticUtilization", "Memory", "MemoryL0",
    "MemoryUB",        "ResourceConflictRatio", "L2Cache"};

class Reader {
 public:
  Reader(const Json& document, const std::string& source) : view_(document, source) {}

  ProfilingOptions run() {
    for (const std::string& key : view_.keys()) {
      if (std::find(kKeys.begin(), kKeys.end(), key) != kKeys.end()) continue;
      const std::string hint = did_you_mean(key, kKeys);
      warn("no such key '" + printable(key) + "', which is left out" +
           (hint.empty() ? "" : "; " + hint));
    }
    read_output();
    read_storage_limit();
    options_.training_trace = is_on("training_trace", true);
    read_task_trace();
    options_.aicpu = is_on("aicpu", false);
    options_.runtime_api = is_on("runtime_api", false);
    read_points();
    read_metrics();
    if (is_on("hccl", false))
      warn("hccl: collectives are recorded anyway, where several ranks train");
    if (is_on("l2", false)) warn("l2: the model has no figures of hits in L2");
    return options_;
  }

 private:
  void warn(const std::string& text) { options_.warnings.push_back(view_.where() + ": " + text); }

  std::string choice(const char* key, const std::vector<std::string>& choices,
                     const std::string& otherwise) const {
    const auto value = view_.find(key);
    if (!value) return otherwise;
    const std::string& text = value->text();
    if (std::find(choices.begin(), choices.end(), text) != choices.end()) return text;
    std::string expected;
    for (const std::string& c : choices) expected += (expected.empty() ? "" : ", ") + c;
    throw value->error("one of " + expected);
  }
  bool is_on(const char* key, bool otherwise) const {
    return choice(key, {"on", "off"}, otherwise ? "on" : "off") == "on";
  }

  void read_output() {
    const auto value = view_.find("output");
    if (!value) return;
    options_.output = value->text();
    const bool strange = std::any_of(options_.output.begin(), options_.output.end(), [](char c) {
      return static_cast<unsigned char>(c) < ' ' || c == '\x7f';
    });
    if (options_.output.empty() || strange) {
      throw value->error("the path of a folder, without control characters");
    }
  }

  void read_storage_limit() {
    const auto value = view_.find("storage_limit");
    if (!value) return;
    constexpr std::string_view kUnit = "MB";
    const std::string& text = value->text();
    const auto wrong = [&] {
      return value->error("a size from \"" + std::to_string(kLeastStorageMb) + "MB\" to \"" +
                          std::to_string(kMostStorageMb) + "MB\"");
    };
    if (!text.ends_with(kUnit)) throw wrong();
    try {
      options_.storage_limit_mb = parse_integer(text.substr(0, text.size() - kUnit.size()),
                                                "storage_limit", kLeastStorageMb, kMostStorageMb);
    } catch (const Error&) {
      throw wrong();
    }
  }

  void read_task_trace() {
    const std::string trace = choice("task_trace", {"on", "off", "l0", "l1"}, "on");
    options_.task_trace = trace == "off"  ? TaskTrace::kOff
                          : trace == "l0" ? TaskTrace::kL0
                                          : TaskTrace::kL1;
    if (options_.training_trace || options_.task_trace == TaskTrace::kOff) return;
    throw Error({.op = view_.where(),
                 .argument = "task_trace",
                 .expected = "off, as training_trace is, which it wants in a training",
                 .got = view_.find("task_trace") ? trace : trace + " (where it is not given)",
                 .fix = R"(set training_trace to "on", or task_trace to "off")"});
  }

  void read_points() {
    for (const char* key : {"fp_point", "bp_point"}) {
      const auto value = view_.find(key);
      if (!value) continue;
      const std::string& name = value->text();
      if (!name.empty() && !options_.training_trace) {
        throw Error({.op = view_.where(),
                     .argument = key,
                     .message = "is about step_trace.csv, which training_trace leaves out",
                     .fix = R"(set training_trace to "on", or drop it)"});
      }
      (std::string_view(key) == "fp_point" ? options_.fp_point : options_.bp_point) = name;
    }
  }

  void read_metrics() {
    const std::string name = choice("aic_metrics", kMetrics, kMetrics.front());
    const auto at = std::find(kMetrics.begin(), kMetrics.end(), name);
    options_.aic_metrics = static_cast<AicMetrics>(std::distance(kMetrics.begin(), at));
    switch (options_.aic_metrics) {
      case AicMetrics::kPipeUtilization:
        return;
      case AicMetrics::kArithmeticUtilization:
        warn(
            "aic_metrics: ArithmeticUtilization: the model does not tell the vector unit's share "
            "by dtype");
        return;
      case AicMetrics::kMemory:
        warn("aic_metrics: Memory: the model has the rates of global memory only");
        return;
      case AicMetrics::kMemoryL0:
      case AicMetrics::kMemoryUB:
      case AicMetrics::kResourceConflictRatio:
      case AicMetrics::kL2Cache:
        warn("aic_metrics: the model has no figures of " + name +
             ": op_summary.csv has times of the cores only");
    }
  }

  JsonView view_;
  ProfilingOptions options_;
};

}  // namespace

ProfilingOptions parse_profiling_options(const std::string& text, const std::string& source) {
  try {
    const Json document = parse_json(text, source);
    return Reader(document, source).run();
  } catch (const Error& error) {
    // A text that somebody types, unlike a file.
    ErrorInfo info = error.info();
    info.kind = ErrorKind::kInvalidArgument;
    throw Error(info);
  }
}

}  // namespace keel::npu
