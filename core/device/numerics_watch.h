// NumericsWatch: looks for the first numbers that are infinite, NaN, or were stopped at the largest
// f16: which op made them, of what. Owned and called as every OpObserver.
#ifndef KEEL_CORE_DEVICE_NUMERICS_WATCH_H
#define KEEL_CORE_DEVICE_NUMERICS_WATCH_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "keel/core/base/call_site.h"
#include "keel/core/base/dtype.h"
#include "keel/core/base/export.h"
#include "keel/core/device/op_observer.h"
#include "keel/core/tensor/tensor.h"

namespace keel {

// The numbers of an operand: the least and the largest of the finite ones, and how many are none.
struct NumberRange {
  DType dtype = f32;
  int64_t elements = 0;
  double least = 0, most = 0;  // 0 where none is finite
  int64_t infinite = 0, nan = 0;

  bool finite() const noexcept { return infinite == 0 && nan == 0; }
};
KEEL_API NumberRange range_of(const void* elements, DType dtype, int64_t count);
// "f32[51200] from -1.5 to 3e+38, 2 infinite, 1 NaN"; of other dtypes than floats "i32[10]".
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

class KEEL_API NumericsWatch final : public OpObserver {
 public:
  // `keeps_values`: of that op it keeps all operands and results, which takes a copy of each op's
  // operands until then.
  explicit NumericsWatch(bool keeps_values = false) : keeps_values_(keeps_values) {}
  ~NumericsWatch() override;

  void before(const OpRun& run) override;
  void after(const OpRun& run, uint32_t float_status) override;

  const std::optional<NumericsFinding>& first() const noexcept { return first_; }
  // Of that op, as they were when its ranges were taken; empty where none are kept.
  const std::vector<Tensor>& operands() const noexcept { return operands_; }
  const std::vector<Tensor>& results() const noexcept { return results_; }

 private:
  const bool keeps_values_;
  std::vector<NumberRange> ranges_;  // of the operands of the op that runs
  std::optional<NumericsFinding> first_;
  std::vector<Tensor> operands_, results_;
};

}  // namespace keel

#endif  // KEEL_CORE_DEVICE_NUMERICS_WATCH_H
