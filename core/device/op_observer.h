// OpObserver: is shown each op of a launch as it runs, with its operands and results. It looks, and
// changes nothing. Owned by whoever launches and called on the device's thread; read after
// Stream::synchronize.
#ifndef KEEL_CORE_DEVICE_OP_OBSERVER_H
#define KEEL_CORE_DEVICE_OP_OBSERVER_H

#include <cstdint>
#include <span>
#include <string_view>

#include "keel/core/base/call_site.h"
#include "keel/core/base/export.h"
#include "keel/core/base/shape.h"
#include "keel/core/tensor/tensor.h"

namespace keel {

// Elements in row-major order, in memory of the device that the host can read while it is shown.
struct OpOperand {
  Type type;
  const void* elements = nullptr;  // null where there are none
};
// Copies it to the host, with one NaN for all (canonical_nan.h).
KEEL_API Tensor copy_of(const OpOperand& operand);

// One run of an op. Valid during the call that shows it.
struct OpRun {
  int64_t step = 0;
  std::string_view name;  // with its scope, "hidden1/matmul"
  std::string_view op;
  CallSite site;  // the user's line
  std::span<const OpOperand> inputs, outputs;
  bool infinite_attribute = false;  // one is infinite, as what a pad fills with may be
  bool checks_finiteness = false;   // it makes NaN of infinities to tell whether there are any
};

class KEEL_API OpObserver {
 public:
  virtual ~OpObserver();
  // What they throw ends the launch as an error of the op does, and the states of its step may be
  // lost. An output may lie over an input, so inputs are to be looked at before the op runs; the
  // outputs hold nothing yet.
  virtual void before(const OpRun& run) = 0;
  // `float_status`: what the op raised (float_status.h).
  virtual void after(const OpRun& run, uint32_t float_status) = 0;
};

}  // namespace keel

#endif  // KEEL_CORE_DEVICE_OP_OBSERVER_H
