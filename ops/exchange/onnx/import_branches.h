// Conditionals of the formats that are imported: two bodies on one condition. Internal to the
// import; adds nodes to the graph that is being built.
#ifndef KEEL_OPS_EXCHANGE_ONNX_IMPORT_BRANCHES_H
#define KEEL_OPS_EXCHANGE_ONNX_IMPORT_BRANCHES_H

#include "keel/ops/exchange/onnx/import_rules.h"

namespace keel::onnx {

// The results of one of two bodies of these operands, by a bool scalar. A dimension that one body
// knows and the other does not is a reshape in the latter: what is run has one type whichever is
// taken.
Values conditional(NodeContext& c, const Value& condition, const Values& operands,
                   const GraphProto& then_body, const GraphProto& else_body);

}  // namespace keel::onnx

#endif  // KEEL_OPS_EXCHANGE_ONNX_IMPORT_BRANCHES_H
