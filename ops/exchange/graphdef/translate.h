// The selected part of a TensorFlow graph in the terms of the importer that it shares with ONNX:
// its nodes, sorted such that each comes behind what it reads, are nodes of the domain
// "tensorflow", its weights initializers, its functions bodies. Internal to the import; one thread.
#ifndef KEEL_OPS_EXCHANGE_GRAPHDEF_TRANSLATE_H
#define KEEL_OPS_EXCHANGE_GRAPHDEF_TRANSLATE_H

#include "keel/ops/exchange/graphdef/op_rules.h"
#include "keel/ops/exchange/graphdef/selection.h"
#include "keel/ops/exchange/onnx/importer.h"
#include "keel/ops/exchange/onnx/read_model.h"

namespace keel::graphdef {

// Attributes that nodes are given here, for their rules: of a variable that is not to be trained,
// of a node that only initial values need, and the names of the variables that a node assigns to.
inline constexpr const char* kUntrained = "keel_untrained";
using onnx::kInitial;
inline constexpr const char* kVariables = "keel_variables";

// The reason why a node in a body is refused, and what is thrown for it.
inline constexpr const char* kAssignsInside =
    "assigns to a variable inside of a function, a branch or a loop";
class AssignsInside : public Error {
 public:
  using Error::Error;
};

// Throws AssignsInside, and Error for nodes that wait for each other, for functions that are not
// there or call themselves, and for tensors that do not fit the read budget.
onnx::ModelProto translate(const Selection& selection, const OpRules& rules);

}  // namespace keel::graphdef

#endif  // KEEL_OPS_EXCHANGE_GRAPHDEF_TRANSLATE_H
