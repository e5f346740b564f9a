// Knob: a parameter of a preset as a fit turns it. Internal to this folder. Plain values; any
// thread.
#ifndef KEEL_BACKENDS_NPU_MEASURED_FIT_KNOBS_H
#define KEEL_BACKENDS_NPU_MEASURED_FIT_KNOBS_H

#include <span>

#include "keel/backends/npu/presets/preset.h"

namespace keel::npu {

struct Knob {
  const char* name;  // as the preset's file has it
  double least, most;
  double first;  // where every search begins, and what an earlier fit's value becomes without rows
  double (*get)(const Preset&);
  void (*set)(Preset&, double);
  bool cuts = false;  // how products are cut follows from it
};

// All that a fit may turn.
std::span<const Knob> knobs();

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_MEASURED_FIT_KNOBS_H
