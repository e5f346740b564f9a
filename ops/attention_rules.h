// The rules that attention and its gradient share: their sizes, which key a query may look at,
// inference, and both as compositions of products and softmax, which is how they run where a
// backend has no kernel for them. Pure functions; those that take Values add nodes to the graph of
// these.
#ifndef KEEL_OPS_ATTENTION_RULES_H
#define KEEL_OPS_ATTENTION_RULES_H

#include <algorithm>
#include <cstdint>
#include <vector>

#include "keel/graph/ir/op_def.h"
#include "keel/ops/attention.h"

namespace keel {

// ---- sizes

// Where the operands of each head lie, in elements: a head is one element of the leading
// dimensions, and has one product of queries and keys.
struct AttentionHead {
  int64_t queries = 0, keys = 0, values = 0, mask = 0;
};

// An attention with all dimensions known.
struct AttentionGeometry {
  // `mask` may be null.
  AttentionGeometry(const AttentionAttributes& attributes, const Shape& queries_shape,
                    const Shape& keys_shape, const Shape& values_shape, const Shape* mask);
  // Of a node whose mask, if it has one, is its input `mask_input`.
  AttentionGeometry(const Node& node, size_t mask_input);

  int64_t queries = 0, keys = 0, features = 0, outputs = 0;
  double scale = 1;
  bool causal = false, masked = false;
  // One step of the mask from a query to the next, and from a key to the next.
  int64_t mask_query_step = 0, mask_key_step = 0;
  std::vector<AttentionHead> heads;

  // Returns how many keys from the front query i may look at, if the mask lets it.
  int64_t keys_before(int64_t query) const {
    return causal ? std::clamp<int64_t>(query + 1 + keys - queries, 0, keys) : keys;
  }
  // `mask` is that of the head.
  bool sees(const bool* mask, int64_t query, int64_t key) const {
    if (key >= keys_before(query)) return false;
    return !masked || mask[query * mask_query_step + key * mask_key_step];
  }
  // Returns the pairs of a query and a key that it may look at, mask aside, of one head.
  int64_t pairs() const;
};

// Returns the dtype of sums and scores.
constexpr DType wide_dtype(DType dtype) { return dtype == f64 ? f64 : f32; }
// Returns the least that `largest` may be: the lowest number of wide_dtype(dtype).
double lowest_score(DType dtype);

// ---- inference

// Returns the shape of the scores. Checks queries, keys and values, which are inputs 0 to 2, their
// attributes, and the mask, if the op has an input `mask_input`.
Shape infer_scores(const InferContext& c, size_t mask_input);

// ---- compositions

// The values that both compositions begin with. `mask` is invalid where every query looks at every
// key.
struct ComposedWeights {
  Value mask, scores, weights;
};
// Inputs 0 to 2 of `c` are queries, keys and values; `mask` may be invalid.
ComposedWeights composed_weights(const BuildContext& c, const Value& mask);

// ---- samples

struct AttentionSample {
  std::vector<Tensor> inputs;  // queries, keys, values, and perhaps a mask
  AttentionAttributes attributes;
};
// The leading dimensions of keys and values may be smaller than the queries' where it `broadcasts`.
AttentionSample draw_attention(SampleSource& source, bool broadcasts);

}  // namespace keel

#endif  // KEEL_OPS_ATTENTION_RULES_H
