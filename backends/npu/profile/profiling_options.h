// ProfilingOptions: what a profile shall hold, by the names and values of Ascend's profiling
// options. A JSON object of texts, read strictly: a value that is none of the listed ones, or
// options that exclude each other, are errors, where the real tool takes them for "off".
//
//   output          the folder; for whoever writes the profile
//   storage_limit   "200MB" to "4294967295MB": the most that all files may take together
//   training_trace  on, off: step_trace.csv
//   task_trace      on (the same as l1), l1, l0, off: op_summary.csv, op_statistic.csv,
//                   timeline.json, advice.txt; on, l1 and l0 want training_trace. l0 leaves advice
//                   out, and in op_summary.csv and the timeline what launches are made of: op
//                   types, blocks, shapes, figures, lanes of the units
//   aicpu           on, off: aicpu.csv
//   runtime_api     on, off: api_statistic.csv
//   aic_metrics     which columns of figures op_summary.csv has
//   fp_point, bp_point  names of the nodes at which a step's forward pass begins and its backward
//                   pass ends, in step_trace.csv; "": found
//   hccl            on, off: a warning says that collectives are recorded either way
//   l2              on, off: a warning says that the model has no figures of hits in L2
//
// Plain values and pure functions; any thread.
#ifndef KEEL_BACKENDS_NPU_PROFILE_PROFILING_OPTIONS_H
#define KEEL_BACKENDS_NPU_PROFILE_PROFILING_OPTIONS_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "keel/core/base/export.h"

namespace keel::npu {

enum class TaskTrace : uint8_t { kOff, kL0, kL1 };

enum class AicMetrics : uint8_t {
  kPipeUtilization,        // busy time of each unit, and its share
  kArithmeticUtilization,  // share of the cube by dtype, operations of cube and vector units
  kMemory,                 // rates from and to global memory
  kMemoryL0,               // these have no figures in the model
  kMemoryUB,
  kResourceConflictRatio,
  kL2Cache,
};

// Holds the defaults for options that are not given.
struct ProfilingOptions {
  std::string output = {};
  std::optional<int64_t> storage_limit_mb = {};
  bool training_trace = true;
  TaskTrace task_trace = TaskTrace::kL1;
  bool aicpu = false;
  bool runtime_api = false;
  AicMetrics aic_metrics = AicMetrics::kPipeUtilization;
  std::string fp_point = {}, bp_point = {};
  // For people: keys that are not known, and what was asked for that the model does not have.
  std::vector<std::string> warnings = {};
};

// `source` names the text in errors ("--profiling-options", "PROFILING_OPTIONS"). Throws Error
// (kInvalidArgument) naming key, what was expected and what came.
KEEL_API ProfilingOptions parse_profiling_options(const std::string& text,
                                                  const std::string& source);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_PROFILE_PROFILING_OPTIONS_H
