// The ops under attention() (composed/attention.h): scaled dot-product attention, and its gradient
// as an op of its own. Backends compute both in blocks of keys, so that no matrix of scores is in
// memory; sums and scores of 16-bit floats are f32. Floats only.
// Sources: Vaswani et al., "Attention Is All You Need" (2017), section 3.2.1; for the blocks Dao et
// al., "FlashAttention" (2022).
//
// Each function adds one node to the graph of the call (graph/ir/emit.h); dimensions that are not
// known (-1) pass through. Errors and printed graphs name `site`, or where that is not given the
// line that made `queries`.
#ifndef KEEL_OPS_ATTENTION_H
#define KEEL_OPS_ATTENTION_H


#include "keel/core/base/export.h"
#include "keel/graph/ir/attributes.h"
#include "keel/graph/ir/operand.h"
#include "keel/graph/ir/value.h"

namespace keel {

// Attributes of the ops attention and attention_gradient.
struct AttentionAttributes {
  double scale = 1;
  bool causal = false;
  bool wide = false;  // f16 or bf16 operands, f32 results
  static void fields(auto&& visit) {
    visit("scale", &AttentionAttributes::scale);
    visit("causal", &AttentionAttributes::causal);
    visit("wide", &AttentionAttributes::wide);
  }
};

// The results of the op attention: softmax(scale * queries keys^T) values, as attention() says, and
// what its gradient computes the weights from, [..., queries], in f32 (f64 for f64): the largest
// score that each query may look at, no less than the dtype's lowest number, and the sum of the
// exponentials of the scores less the largest. These two pass no gradient.
struct AttentionOutput {
  Value result, largest, total;
};

// Adds the op; `mask` may be invalid. Leading dimensions broadcast.
KEEL_API AttentionOutput attention_with_rows(Operand queries, Operand keys, Operand values,
                                             const Value& mask,
                                             const AttentionAttributes& attributes,
                                             CallSite site = {});

struct AttentionGradients {
  Value queries, keys, values;
};

// Returns the gradients of sum(result * upstream) for queries, keys and values, whose leading
// dimensions are the result's: `forward` is what attention_with_rows made of them. `upstream` has
// their dtype.
KEEL_API AttentionGradients attention_gradient(Operand queries, Operand keys, Operand values,
                                               const Value& mask, const AttentionOutput& forward,
                                               Operand upstream,
                                               const AttentionAttributes& attributes,
                                               CallSite site = {});

}  // namespace keel

#endif  // KEEL_OPS_ATTENTION_H
