#include "keel/graph/runtime/accelerate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "keel/core/base/environment.h"
#include "keel/core/base/error.h"
#include "keel/core/base/json.h"
#include "keel/graph/runtime/most_steps.h"

namespace keel {
namespace {

struct Range {
  double least, most, usual;
};
constexpr const char* kTargetLoss = "TARGET_LOSS";
constexpr Range kOfSteps = {0.2, 0.9, 0.9};
constexpr Range kOfLoss = {1.01, 1.5, 1.05};

const Range& range_of(AccelerateTrigger trigger) {
  return trigger == AccelerateTrigger::kStep ? kOfSteps : kOfLoss;
}

std::vector<std::string> fields_of(const std::string& text) {
  std::vector<std::string> fields(1);
  for (const char c : text) {
    if (c == '|')
      fields.emplace_back();
    else
      fields.back() += c;
  }
  return fields;
}

std::optional<double> number_in_environment(const char* name) {
  const auto text = environment_text(name);
  if (!text) return std::nullopt;
  return parse_number(*text, name);
}

Error needs(const char* what, const char* variable) {
  return Error({.op = "accelerate_train_mode",
                .argument = what,
                .expected = "a number, or the environment variable " + std::string(variable),
                .got = "neither",
                .kind = ErrorKind::kInvalidArgument});
}

}  // namespace

AccelerateTrainMode parse_accelerate_train_mode(const std::string& text, const std::string& from) {
  const std::vector<std::string> fields = fields_of(text);
  if (fields.size() < 2 || fields.size() > 3) {
    throw Error({.op = from,
                 .expected = "<fast|fast1>|<step|loss>[|ratio]",
                 .got = "'" + text + "'",
                 .kind = ErrorKind::kInvalidArgument});
  }
  AccelerateTrainMode mode;
  mode.low = parse_choice(fields[0], from, {"fast", "fast1"}) == "fast" ? f16 : bf16;
  mode.trigger = parse_choice(fields[1], from, {"step", "loss"}) == "step"
                     ? AccelerateTrigger::kStep
                     : AccelerateTrigger::kLoss;
  const Range& range = range_of(mode.trigger);
  mode.ratio = fields.size() < 3 || fields[2].empty()
                   ? range.usual
                   : parse_number(fields[2], from, range.least, range.most);
  return mode;
}

std::string to_string(const AccelerateTrainMode& mode) {
  return std::string(mode.low == f16 ? "fast" : "fast1") +
         (mode.trigger == AccelerateTrigger::kStep ? "|step|" : "|loss|") +
         format_double(mode.ratio);
}

Precision fast_precision(const AccelerateTrainMode& mode, const Precision& own,
                         const Backend& backend, const DeviceOptions* options) {
  static constexpr std::array<const char*, 4> kBases = {"allow_fp32_to_fp16",
                                                        "must_keep_origin_dtype", "origin", "fp32"};
  const std::string& base = resolve(own, backend, options).mode->name;
  if (std::find(kBases.begin(), kBases.end(), base) == kBases.end()) {
    throw Error({.op = "accelerate_train_mode",
                 .argument = "precision",
                 .expected = "allow_fp32_to_fp16, must_keep_origin_dtype, origin, fp32 or none, "
                             "which the training ends in",
                 .got = base,
                 .kind = ErrorKind::kInvalidArgument});
  }
  Precision fast;
  fast.mode = mode.low == f16 ? "allow_mix_precision_fp16" : "allow_mix_precision_bf16";
  fast.dtypes = own.dtypes;
  resolve(fast, backend, options);
  return fast;
}

std::optional<int64_t> total_step_in_environment() {
  return environment_integer("TOTAL_STEP", 1, kMostSteps);
}

std::optional<int64_t> step_now_in_environment() {
  constexpr const char* kStepNow = "STEP_NOW";
  const auto now = environment_integer(kStepNow, 0, kMostSteps);
  const auto total = total_step_in_environment();
  if (!now || !total || *now <= *total) return now;
  throw Error({.op = kStepNow,
               .expected = "at most the " + std::to_string(*total) + " of TOTAL_STEP",
               .got = std::to_string(*now),
               .kind = ErrorKind::kInvalidArgument});
}

std::optional<double> loss_now_in_environment() { return number_in_environment("LOSS_NOW"); }

std::optional<double> target_loss_in_environment() { return number_in_environment(kTargetLoss); }

AcceleratedTraining with_environment(AcceleratedTraining training) {
  const auto total_step = total_step_in_environment();
  const auto step_now = step_now_in_environment();
  const double loss_now = loss_now_in_environment().value_or(0);
  const auto target_loss = target_loss_in_environment();
  TellMeStepOrLoss& tell = training.tell;
  if (training.mode.trigger == AccelerateTrigger::kStep) {
    if (tell.total_step == 0) tell.total_step = total_step.value_or(0);
    if (!tell.step_now) tell.step_now = step_now;
    return training;
  }
  if (!tell.final_loss) tell.final_loss = target_loss;
  if (!tell.final_loss) throw needs("final_loss", kTargetLoss);
  if (loss_now != 0 && !training.switched_at && loss_now <= loss_bound(training))
    training.switched_at = 0;
  return training;
}

// A ratio is the double next to the decimal that was written, and the product is rounded once more:
// 100 * 0.29 lies an ulp below 29. Either is off by less than one part in 2^52, so that what is so
// near to a whole number is that number.
int64_t last_fast_step(const AccelerateTrainMode& mode, int64_t total_steps) {
  constexpr double kRounded = 1 + 4 * std::numeric_limits<double>::epsilon();
  return static_cast<int64_t>(std::trunc(static_cast<double>(total_steps) * mode.ratio * kRounded));
}

double loss_bound(const AcceleratedTraining& training) {
  const double final_loss = training.tell.final_loss.value_or(0);
  const double ratio = training.mode.ratio;
  return final_loss * (final_loss < 0 ? 2 - ratio : ratio);
}

}  // namespace keel
