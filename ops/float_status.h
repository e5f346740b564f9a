// float_status: whether computing some values raised the device's float status.
#ifndef KEEL_OPS_FLOAT_STATUS_H
#define KEEL_OPS_FLOAT_STATUS_H

#include "keel/core/base/call_site.h"
#include "keel/core/base/export.h"
#include "keel/graph/ir/graph.h"

namespace keel {

class OpTable;

// Returns a bool scalar: whether an op that the values depend on raised the float status in this
// step (core/device/float_status.h): an f16 result was stopped at +-65504, on devices that
// saturate. False on devices whose overflow gives infinity, where the values themselves tell. Of a
// body it sees what the body computed. Not differentiable. Throws Error without values.
KEEL_API Value float_status(const Values& values, CallSite site = CallSite::here());

void register_float_status(OpTable& table);

}  // namespace keel

#endif  // KEEL_OPS_FLOAT_STATUS_H
