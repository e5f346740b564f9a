// Softmax and the cross entropy on top of it, in forms that neither overflow nor lose digits.
// Floats only.
//
// Each function adds one node (softmax and log_softmax along another axis than the last: also
// transposes) to the graph of the call (graph/ir/emit.h). Errors and printed graphs name `site`, or
// where that is not given the line that made the first operand.
#ifndef KEEL_OPS_LOSS_H
#define KEEL_OPS_LOSS_H

#include <cstdint>

#include "keel/core/base/export.h"
#include "keel/graph/ir/attributes.h"
#include "keel/graph/ir/operand.h"
#include "keel/graph/ir/value.h"

namespace keel {

struct CrossEntropyOptions {
  // Lies in [0, 1): each target becomes (1 - label_smoothing) * target + label_smoothing / classes.
  double label_smoothing = 0;
  static void fields(auto&& visit) {
    visit("label_smoothing", &CrossEntropyOptions::label_smoothing);
  }
};

// exp(x) / sum(exp(x)) along an axis.
KEEL_API Value softmax(Operand x, int64_t axis = -1, CallSite site = {});
// log(softmax(x)).
KEEL_API Value log_softmax(Operand x, int64_t axis = -1, CallSite site = {});

// -sum(target * log_softmax(logits)) for each row: [batch, classes] to [batch]. `targets` are class
// ids of any integer dtype, [batch], or weights of the classes of logits' dtype, [batch, classes]
// (probabilities, if they add up to 1). A class id out of range is an error at run time that names
// it.
KEEL_API Value softmax_cross_entropy(Operand logits, Operand targets,
                                     CrossEntropyOptions options = {}, CallSite site = {});

// Returns its gradient for logits, a node of its own so that backends compute it in one pass:
// (softmax(logits) * sum(target) - target) * upstream, with upstream of shape [batch]. Class ids
// add up to 1.
KEEL_API Value softmax_cross_entropy_grad(Operand logits, Operand targets, Operand upstream,
                                          CrossEntropyOptions options = {}, CallSite site = {});

}  // namespace keel

#endif  // KEEL_OPS_LOSS_H
