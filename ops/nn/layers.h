// Layers: functions that make the states they need and return their output. Compositions of ops; a
// state made by a layer belongs to the root graph, also where the layer is used inside a body of
// control flow.
//
//   auto h      = relu(dense(x, 512, {.name = "hidden"}));
//   auto logits = dense(h, 10, {.name = "logits"});
// or
//   auto logits = sequential(x, {dense_layer(512), activation(relu), dropout_layer(0.2, training),
//   dense_layer(10)});
#ifndef KEEL_OPS_NN_LAYERS_H
#define KEEL_OPS_NN_LAYERS_H

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "keel/core/base/export.h"
#include "keel/graph/ir/operand.h"
#include "keel/ops/nn/initializers.h"

namespace keel {

struct DenseOptions {
  std::string name =
      {};  // prefix of the states' names; empty: "dense", "dense_1", ... whichever is free
  bool use_bias = true;
  InitializerFunction weights = glorot_uniform;
  InitializerFunction bias = zeros;
};
// matmul(x, w) + b, for x of shape [..., features]: [..., units]. Makes the states "<name>/w"
// [features, units] and
// "<name>/b" [units] of x's dtype. Throws Error where the number of features is not known or a name
// is taken.
KEEL_API Value dense(Operand x, int64_t units, const DenseOptions& options = {},
                     CallSite site = {});

// A layer as a value, for sequential: from the input and the user's line to the output.
using Layer = std::function<Value(Value, CallSite)>;
KEEL_API Layer dense_layer(int64_t units, DenseOptions options = {});
KEEL_API Layer dropout_layer(double rate, bool training = true);
// An element-wise function such as relu or tanh.
KEEL_API Layer activation(Value (*function)(Operand, CallSite));

// One layer after the other.
KEEL_API Value sequential(Operand x, const std::vector<Layer>& layers, CallSite site = {});

}  // namespace keel

#endif  // KEEL_OPS_NN_LAYERS_H
