// AccelerateTrainMode: a training whose first part computes in mixed precision and whose rest in
// the session's own: Ascend's accelerate_train_mode, "fast|step|0.9". There is one change, at an
// exact step for every loop size, and never one back; the states carry over bit for bit. Plain
// values; any thread.
#ifndef KEEL_GRAPH_RUNTIME_ACCELERATE_H
#define KEEL_GRAPH_RUNTIME_ACCELERATE_H

#include <cstdint>
#include <optional>
#include <string>

#include "keel/core/base/export.h"
#include "keel/core/device/device.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/precision/precision.h"

namespace keel {

enum class AccelerateTrigger : uint8_t { kStep, kLoss };

struct AccelerateTrainMode {
  DType low = f16;  // f16 of "fast", bf16 of "fast1"
  AccelerateTrigger trigger = AccelerateTrigger::kStep;
  // By steps it is 0.2 to 0.9: the first trunc(total * ratio) are fast, of the ratio as it is
  // written (29 of 100 by 0.29). By the loss it is 1.01 to 1.5: the fast part ends with the first
  // step whose loss is at most loss_bound().
  double ratio = 0.9;
};

// Reads "<fast|fast1>|<step|loss>[|ratio]"; without a ratio, or with an empty one, it is 0.9 of the
// steps or 1.05 times the loss. Throws Error (kInvalidArgument) in the name of `from`.
KEEL_API AccelerateTrainMode parse_accelerate_train_mode(const std::string& text,
                                                         const std::string& from);
KEEL_API std::string to_string(const AccelerateTrainMode& mode);

// Returns the precision of the fast part. Throws Error (kInvalidArgument) where the session's own
// is none that it goes with (allow_fp32_to_fp16, must_keep_origin_dtype, origin, fp32, or none
// named), and where the device lacks the dtype.
KEEL_API Precision fast_precision(const AccelerateTrainMode& mode, const Precision& own,
                                  const Backend& backend, const DeviceOptions* options);

// Tells a training how far it is, for the change: the steps of all of it, or the loss and what it
// is to come to.
struct TellMeStepOrLoss {
  int64_t total_step = 0;                // 0: where the fit ends
  std::optional<int64_t> step_now = {};  // when the fit begins; else keel/step
  Value loss = {};                       // a float scalar of the step
  std::optional<double> final_loss = {};
};

// The description that a Trainer is given.
struct AcceleratedTraining {
  AccelerateTrainMode mode = {};
  TellMeStepOrLoss tell = {};
  std::optional<int64_t> switched_at = {};  // of a training that goes on behind its change
};

// Return what the environment variables TOTAL_STEP, STEP_NOW, LOSS_NOW and TARGET_LOSS say, which
// are how a job tells Ascend's framework how far it is; nothing where one is not set. Throw Error
// (kInvalidArgument) in the variable's name for what is no such number, and for a STEP_NOW beyond
// TOTAL_STEP.
KEEL_API std::optional<int64_t> total_step_in_environment();
KEEL_API std::optional<int64_t> step_now_in_environment();
KEEL_API std::optional<double> loss_now_in_environment();
KEEL_API std::optional<double> target_loss_in_environment();

// Returns the same with what the environment says where the caller does not. A LOSS_NOW other than
// 0 that is low enough is a change before the first step. Throws Error (kInvalidArgument) for a
// variable that is wrong, also one that is not needed, and where the trigger's numbers are nowhere.
KEEL_API AcceleratedTraining with_environment(AcceleratedTraining training);

// Returns the last fast step of a training of so many.
KEEL_API int64_t last_fast_step(const AccelerateTrainMode& mode, int64_t total_steps);
// Returns the largest loss that ends the fast part: ratio times the final one. For a final one
// below 0, of which Ascend's framework does not speak, it lies as far above it:
// (2 - ratio) times.
KEEL_API double loss_bound(const AcceleratedTraining& training);

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_ACCELERATE_H
