// Calibration: what the model predicts for published measurements, and how far off it is. Pure; any
// thread.
#ifndef KEEL_BACKENDS_NPU_COST_CALIBRATE_H
#define KEEL_BACKENDS_NPU_COST_CALIBRATE_H

#include <string>
#include <vector>

#include "keel/core/base/export.h"

namespace keel::npu {

struct CalibrationRow {
  int fact = 0;        // rows of one fact belong together
  std::string name;    // "fp16 add 8192x8192 on ascend910b1, 48 cores, 8 KB"
  std::string source;  // who published it
  std::string unit;    // "us", "TFLOP/s"
  double prediction = 0;
  double published = 0;  // the middle where a range was published
  double error = 0;      // (prediction - published) / published
  double bound = 0;      // largest |error| that passes
  bool pass = false;
  bool used_for_fitting = false;  // a parameter was set by it, so that it proves little
};

// Returns the facts that the model can express, in order; they use the built-in presets.
KEEL_API std::vector<CalibrationRow> calibrate();

// Returns whether each rung of fact 4 is faster than the one before it, as published.
KEEL_API bool calibration_order_holds(const std::vector<CalibrationRow>& rows);

// Writes the rows as a table for people, misses included.
KEEL_API std::string calibration_table(const std::vector<CalibrationRow>& rows);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_COST_CALIBRATE_H
