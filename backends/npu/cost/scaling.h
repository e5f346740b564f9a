// Scaling: how much longer a training step takes on many cards, each with a batch of its own, by
// the prices of sums over them (collective.h), with published trainings beside. Without overlap the
// whole sum comes on top of a step; with overlap only what does not fit beside the backward pass,
// which is assumed to be two thirds of a step. A real training lies between the two. Pure functions
// of a preset; any thread.
#ifndef KEEL_BACKENDS_NPU_COST_SCALING_H
#define KEEL_BACKENDS_NPU_COST_SCALING_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "keel/backends/npu/presets/preset.h"
#include "keel/core/base/export.h"

namespace keel::npu {

inline constexpr int64_t kMostScaledCards = 1024;

struct ScaledTraining {
  std::string name;
  int64_t gradient_bytes = 0;
  double step_ms = 0;  // on one card
};

struct ScalingPoint {
  int64_t cards = 1;
  std::string algorithm;
  double reduce_ms = 0;
  // Cards' worth of work done by a card: 1 where a step takes no longer than on one card.
  double efficiency = 1;
  double overlapped_efficiency = 1;
};
// REQUIRES cards >= 1 and step_ms > 0.
KEEL_API ScalingPoint scale(const Preset& preset, const ScaledTraining& training, int64_t cards);
// On 1, 2, 4 ... up to kMostScaledCards cards.
KEEL_API std::vector<ScalingPoint> scale(const Preset& preset, const ScaledTraining& training);

// The trainings of the published figures, as they are on one Ascend 910.
KEEL_API std::vector<ScaledTraining> published_trainings();

// A published figure beside the model without overlap.
struct PublishedScaling {
  std::string training, source;
  int64_t cards = 1;
  double efficiency = 1;        // published
  bool lower_bound = false;     // published as "more than"
  std::optional<double> bound;  // the largest error that passes; none: reported only
  ScalingPoint modelled = {};
  double extra_ms = 0;  // of a step, published
  double error() const { return modelled.efficiency - efficiency; }
  // Says whether it lies between the model without overlap and that with it.
  bool within_range() const {
    return efficiency >= modelled.efficiency && efficiency <= modelled.overlapped_efficiency;
  }
  bool miss() const { return bound && (error() > *bound || error() < -*bound); }
};
// Returns all of them, by the preset ascend910.
KEEL_API std::vector<PublishedScaling> compare_published_scaling();

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_COST_SCALING_H
