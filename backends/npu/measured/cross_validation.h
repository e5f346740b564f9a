// Cross-validation: a fit to one part of a table predicts another part, beside a fit to that part
// itself. What the first loses says how far a fit goes beyond the rows that it was made from. Pure;
// any thread.
#ifndef KEEL_BACKENDS_NPU_MEASURED_CROSS_VALIDATION_H
#define KEEL_BACKENDS_NPU_MEASURED_CROSS_VALIDATION_H

#include <functional>
#include <string>
#include <vector>

#include "keel/backends/npu/measured/fit.h"

namespace keel::npu {

// A fit may meet so much less, as a share of the rows, of those that it has not seen.
inline constexpr double kMostLoss = 0.05;

struct CrossValidation {
  std::string fitted_on, predicted;  // the names of the parts
  int64_t rows = 0;                  // mapped ones of the part that is predicted
  double met_by_own = 0;             // share of them, with the fit to that part
  double met = 0;                    // the same, with the fit to the other part
  // The parameters of both fits, by name; one that a fit leaves alone has its value there, too.
  struct Difference {
    std::string name;
    double own = 0, other = 0;
    int64_t rows = 0;  // that the other fit's value rests on; 0 where that fit leaves it alone
    // Share of the rows that the other fit meets besides with this one value of the part's own fit.
    double regained = 0;

    // Returns how many times the one value is the other, at least 1. One that is 0 moved from or to
    // nothing: infinity.
    double moved() const;
  };
  std::vector<Difference> parameters;

  double loss() const { return met_by_own - met; }
  // Returns the parameter that is too close to the rows that it was fitted to: where the loss is
  // above kMostLoss, the one that regains most of it; where none does so alone, the one that moved
  // farthest. Null where the loss is within kMostLoss or both fits are the same.
  KEEL_API const Difference* overfitted() const;
};

struct TablePart {
  std::string name;
  std::function<bool(size_t index, const MeasuredRow&)> has;  // index: of the row in the table
};

// Both ways. Throws Error where either part has fewer rows than a fit needs.
KEEL_API std::vector<CrossValidation> cross_validate(const MeasuredTable& table,
                                                     const Preset& start, const TablePart& first,
                                                     const TablePart& second);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_MEASURED_CROSS_VALIDATION_H
