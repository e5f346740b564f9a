// NumericsWatch: what a launch fills in that looks for the first numbers that are infinite, NaN, or
// were stopped at the largest f16: which op made them, of what. Owned by whoever launches; the
// device writes it, read after Stream::synchronize.
#ifndef KEEL_CORE_DEVICE_NUMERICS_WATCH_H
#define KEEL_CORE_DEVICE_NUMERICS_WATCH_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "keel/core/base/call_site.h"
#include "keel/core/base/dtype.h"
#include "keel/core/base/export.h"

namespace keel {

// The floats of an operand: the least and the largest of the finite ones, and how many are none.
struct NumberRange {
  DType dtype = f32;
  int64_t elements = 0;
  double least = 0, most = 0;  // 0 where none is finite
  int64_t infinite = 0, nan = 0;

  bool finite() const noexcept { return infinite == 0 && nan == 0; }
};
// Floats only: other dtypes have nothing but their number of elements. `elements` is theirs.
KEEL_API NumberRange range_of(const void* elements, DType dtype, int64_t count);
// "f32[51200] from -1.5 to 3e+38, 2 infinite, 1 NaN".
KEEL_API std::string to_string(const NumberRange& range);

struct NumericsFinding {
  int64_t step = 0;
  std::string name;  // with its scope, "hidden1/matmul"
  std::string op;
  CallSite site;                      // the user's line
  uint32_t float_status = 0;          // what it raised
  std::vector<NumberRange> operands;  // before it ran
  std::vector<NumberRange> results;
};
// "step 57: exp made 3 infinite numbers (model.cpp:12): input 0 f32[40] from -2 to 120; output 0
// ...".
KEEL_API std::string to_string(const NumericsFinding& finding);

struct NumericsWatch {
  std::optional<NumericsFinding> first;
};

}  // namespace keel

#endif  // KEEL_CORE_DEVICE_NUMERICS_WATCH_H
