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
  int64_t negative_infinite = 0;  // of the infinite ones

  bool finite() const noexcept { return infinite == 0 && nan == 0; }
};
KEEL_API NumberRange range_of(const void* elements, DType dtype, int64_t count);
// "f32[51200] from -1.5 to 3e+38, 2 infinite, 1 NaN"; of other dtypes than floats "i32[10]".
KEEL_API std::string to_string(const NumberRange& range);

// Says how far an op is to blame for the numbers of its results that are infinite or NaN; the later
// ones more than those before.
enum class Blame : uint8_t {
  kNone,      // there are none
  kCarried,   // they are infinities, and so were operands or an attribute, as a mask is meant to be
  kDoubtful,  // they are such as an operand had, but NaN, or infinities of the other sign
  kMade,      // NaN or infinite, as no operand and no attribute was, or stopped at the largest f16
};

struct NumericsFinding {
  int64_t step = 0;
  std::string name;  // with its scope, "hidden1/matmul"
  std::string op;
  CallSite site;              // the user's line
  uint32_t float_status = 0;  // what it raised
  Blame blame = Blame::kMade;
  std::vector<NumberRange> operands;  // before it ran
  std::vector<NumberRange> results;
};
// "step 57: exp made 3 infinite numbers (model.cpp:12): input 0 f32[40] from -2 to 120; output 0
// ...".
KEEL_API std::string to_string(const NumericsFinding& finding);

// Finds the first op that made such numbers. An infinity that stands in an operand may be meant,
// and is no fault of the op; what an op makes NaN of it is. Where no op made any, the first of
// those that are doubtful is found, and else the first that carried some: numbers that came with
// the data are seen there.
class KEEL_API NumericsWatch final : public OpObserver {
 public:
  // `keeps_values`: of that op it keeps all operands and results, which takes a copy of each op's
  // operands until then.
  explicit NumericsWatch(bool keeps_values = false) : keeps_values_(keeps_values) {}
  ~NumericsWatch() override;

  void before(const OpRun& run) override;
  void after(const OpRun& run, uint32_t float_status) override;

  // The finding until now.
  const std::optional<NumericsFinding>& first() const noexcept { return first_; }
  // Of that op, as they were when its ranges were taken; empty where none are kept.
  const std::vector<Tensor>& operands() const noexcept { return operands_; }
  const std::vector<Tensor>& results() const noexcept { return results_; }

 private:
  // Says whether nothing that comes can be more to blame.
  bool done() const noexcept { return first_ && first_->blame == Blame::kMade; }

  const bool keeps_values_;
  std::vector<NumberRange> ranges_;  // of the operands of the op that runs
  std::vector<Tensor> copies_;       // the same, where they are kept
  std::optional<NumericsFinding> first_;
  std::vector<Tensor> operands_, results_;
};

}  // namespace keel

#endif  // KEEL_CORE_DEVICE_NUMERICS_WATCH_H
