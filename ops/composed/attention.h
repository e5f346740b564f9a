// attention: scaled dot-product attention, by the op of that name (ops/attention.h); floats only.
// Scores and sums of 16-bit floats are f32.
// Backends compute it in blocks, forward and backward: no matrix of scores is in memory.
//
// Source: Vaswani et al., "Attention Is All You Need" (2017), section 3.2.1.
#ifndef KEEL_OPS_COMPOSED_ATTENTION_H
#define KEEL_OPS_COMPOSED_ATTENTION_H

#include <optional>

#include "keel/core/base/export.h"
#include "keel/graph/ir/operand.h"
#include "keel/graph/ir/value.h"

namespace keel {

struct AttentionOptions {
  // Says where a query may look at a key: bool, of a shape that broadcasts to [..., queries, keys].
  Value mask = {};
  // Query i looks at keys up to i + keys - queries: the last query at all of them.
  bool causal = false;
  std::optional<double> scale = {};  // of the scores; 1 / sqrt(features) where left out
};

// softmax(scale * queries keys^T) values: [..., queries, features], [..., keys, features] and [...,
// keys, outputs] to [..., queries, outputs]; leading dimensions (batch, heads) broadcast. What the
// mask excludes has weight 0 and passes no gradient, whatever its score, NaN and infinities too; a
// query that may look at nothing gets zeros. (A value that is infinite or NaN may make NaN of
// weight 0, as in any product; and so may such a key in the gradient of queries.)
//
// Errors name `site`, or where that is not given the line that made `queries`.
KEEL_API Value attention(Operand queries, Operand keys, Operand values,
                         const AttentionOptions& options = {}, CallSite site = {});

}  // namespace keel

#endif  // KEEL_OPS_COMPOSED_ATTENTION_H
