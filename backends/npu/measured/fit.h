// Fit: the few physical parameters of a preset by which the model comes closest to a table of
// measurements. All classes of ops share them; nothing is fitted for an op or a row. A fifth of the
// rows (held_out.h) is never looked at in fitting, and says how well the others speak for it. Rows
// are priced as a comparison prices them: with the model's own blocks, operands warm. Searches
// begin at several values, the same for all fits, so that what an earlier fit found in the preset
// has no part in this one, and a fit of a fitted preset gives it again; the best is kept. Pure; any
// thread.
#ifndef KEEL_BACKENDS_NPU_MEASURED_FIT_H
#define KEEL_BACKENDS_NPU_MEASURED_FIT_H

#include <map>
#include <string>
#include <vector>

#include "keel/backends/npu/measured/measured_table.h"
#include "keel/backends/npu/presets/preset.h"
#include "keel/core/base/export.h"

namespace keel::npu {

struct FittedParameter {
  std::string name;  // as the preset's file has it
  double before = 0, after = 0;
  // Values between which the criterion stays within 1 % of its best.
  double low = 0, high = 0;
  // Rows whose price changes by more than 1 % where the parameter changes by 10 %, all and by
  // class: those that it rests on. A parameter that rests on fewer than kLeastRowsOfAParameter is
  // left as it was, or is among `untold` where it came from another fit. One whose source is a
  // publication is left as it was, too: it does not begin with "assumed" or "fitted" and does not
  // end with "assumed to hold here".
  int64_t rows = 0;
  std::map<std::string, int64_t> by_class;
};

// How well a preset meets some rows.
struct FitQuality {
  int64_t rows = 0;
  double met = 0;       // share of the rows, as a comparison counts them
  double distance = 0;  // mean of |log(modelled / measured)|, each at most kFarthest
};

// A search for the best values ends where no parameter alone is a gain, so that it depends on where
// it begins.
struct FitStart {
  std::string name;
  double criterion = 0;  // where the search ended
  bool kept = false;     // it is the fit
};

struct Fit {
  Preset preset;
  std::vector<FitStart> starts;
  int64_t left_out = 0;  // rows that are mapped, but whose work no number holds
  std::vector<FittedParameter> parameters;
  // Another fit found them and no rows tell them here: they have the value that searches begin
  // with.
  std::vector<FittedParameter> untold;
  FitQuality before, after;                    // of the rows that were fitted
  FitQuality held_out_before, held_out_after;  // of those that were not
};

// A kernel may be worse than the device, but not better: that the model is slower than a
// measurement weighs more than that it is faster.
inline constexpr double kWeightAbove = 1.2;
inline constexpr double kFarthest = 0.5;  // that a row counts for: beyond, it is another thing
inline constexpr int64_t kLeastFitRows = 20;
inline constexpr int64_t kLeastRowsOfAParameter = 10;
// A step of the search is taken where the criterion falls by so much.
inline constexpr double kLeastGain = 1e-4;

// Fits to the rows of the table, all taken as measured on one device. Throws Error where fewer than
// kLeastFitRows can be mapped.
KEEL_API Fit fit_preset(const MeasuredTable& table, const Preset& start);

// Returns the text of a preset's file: the start's parameters, with those that were fitted and what
// they rest on as their source.
KEEL_API std::string fitted_preset_text(const Fit& fit, const std::string& table_name);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_MEASURED_FIT_H
