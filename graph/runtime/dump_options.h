// DumpOptions: what a training writes of its steps for people who look for trouble: Ascend's
// enable_dump (operands and results of each op, in the steps that are named) and enable_dump_debug
// (the op that overflowed, in each step with overflow). Plain values, and one reader for each of
// their texts; any thread.
#ifndef KEEL_GRAPH_RUNTIME_DUMP_OPTIONS_H
#define KEEL_GRAPH_RUNTIME_DUMP_OPTIONS_H

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "keel/core/base/error.h"
#include "keel/core/base/export.h"
#include "keel/core/device/backend.h"
#include "keel/graph/ir/value.h"

namespace keel {

// dump_step: single steps and ranges, both ends included, by keel/step: 1 is the first step.
struct KEEL_API DumpSteps {
  struct Range {
    int64_t first = 0, last = 0;
    bool operator==(const Range&) const = default;
  };
  std::vector<Range> ranges;  // empty: every step

  bool contains(int64_t step) const;
  // Returns the first such step behind this one; beyond all where there is none.
  int64_t next_behind(int64_t step) const;
};
inline constexpr size_t kMostDumpSets = 100;
inline constexpr int64_t kNoDumpedStep = std::numeric_limits<int64_t>::max();

enum class DumpMode : uint8_t { kInput, kOutput, kAll };
enum class DumpData : uint8_t { kTensor, kStats };
enum class DumpDebugMode : uint8_t { kAicoreOverflow, kAtomicOverflow, kAll };

struct DumpOptions {
  bool enable_dump = false;
  bool enable_dump_debug = false;
  // A folder that may be written to; it is made where it is missing. What is written lies in
  // path/TIME/DEVICE/MODEL/PROGRAM/STEP. Both are made with the first file.
  std::string path;

  // These are of enable_dump.
  DumpSteps steps = {};
  DumpMode mode = DumpMode::kOutput;
  // Names of the graph's nodes, "hidden1/matmul"; empty: all. One that the backend runs in parts
  // means the part that gives its value, "loss" for instance "loss/div".
  std::vector<std::string> layers = {};
  DumpData data = DumpData::kTensor;
  // These are of enable_dump_debug, and `overflow` of TrainOptions::check_numerics as well: a fetch
  // of rank 0 that is not 0 in steps whose overflow the training deals with, as where loss scaling
  // skips an update: they are steps with overflow, too. Invalid: none.
  DumpDebugMode debug_mode = DumpDebugMode::kAll;
  Value overflow = {};

  std::string model_name = "model";
  // Is told what could not be written; then the training goes on and dumps no more. Without it
  // fit() throws.
  std::function<void(const Error&)> on_failure = {};

  bool on() const noexcept { return enable_dump || enable_dump_debug; }
};

// Read "0|5|10-20" (at most 100 sets; a range's first step comes before its last; 0 is legal and no
// step), "input", "output" or "all", names with spaces between them, "tensor" or "stats", and
// "aicore_overflow", "atomic_overflow" or "all". Throw Error (kInvalidArgument) in the name of
// `from`.
KEEL_API DumpSteps parse_dump_step(const std::string& text, const std::string& from);
KEEL_API DumpMode parse_dump_mode(const std::string& text, const std::string& from);
KEEL_API std::vector<std::string> parse_dump_layer(const std::string& text,
                                                   const std::string& from);
KEEL_API DumpData parse_dump_data(const std::string& text, const std::string& from);
KEEL_API DumpDebugMode parse_dump_debug_mode(const std::string& text, const std::string& from);

// Throws Error where both are enabled, where the folder is none, or it or where it is to be made
// may not be read and written, and where the backend has no such debug mode, saying what it has.
KEEL_API void require_dump(const DumpOptions& dump, const Backend& backend,
                           const DeviceOptions* options);

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_DUMP_OPTIONS_H
