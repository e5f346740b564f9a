// Layers of sequences [batch, time, features]: normalisation of rows, embedding, attention, the
// transformer block, recurrence. Modules (module.h), called as often as wanted.
#ifndef KEEL_OPS_NN_SEQUENCE_LAYERS_H
#define KEEL_OPS_NN_SEQUENCE_LAYERS_H

#include <cstdint>

#include "keel/core/base/export.h"
#include "keel/graph/ir/operand.h"
#include "keel/ops/composed/attention.h"
#include "keel/ops/composed/recurrent.h"
#include "keel/ops/nn/layers.h"
#include "keel/ops/nn/module.h"

namespace keel {

// layer_norm along the last axis, times a scale and plus an offset of each feature.
class KEEL_API LayerNorm : public Module {
 public:
  // Makes the parameters "weight" and "bias", each [features]. Throws Error for features < 1 and
  // an epsilon that is negative, or not finite in f32.
  LayerNorm(const Scope& scope, int64_t features, double epsilon = 1e-5);
  // x: [..., features], f32.
  Value operator()(Operand x, CallSite site = {}) const;

 private:
  double epsilon_;
  Value weight_, bias_;
};

// rms_norm along the last axis, times a scale of each feature.
class KEEL_API RmsNorm : public Module {
 public:
  // Makes the parameter "weight" [features]. Throws Error for features < 1 and an epsilon that is
  // negative, or not finite in f32.
  RmsNorm(const Scope& scope, int64_t features, double epsilon = 1e-5);
  // x: [..., features], f32.
  Value operator()(Operand x, CallSite site = {}) const;

 private:
  double epsilon_;
  Value weight_;
};

// A row of a table for each id: ids [...] to [..., features].
class KEEL_API Embedding : public Module {
 public:
  // Makes the parameter "weight" [rows, features]. Throws Error for sizes < 1.
  Embedding(const Scope& scope, int64_t rows, int64_t features);
  // ids: any integer dtype.
  Value operator()(Operand ids, CallSite site = {}) const;

 private:
  Value weight_;
};

// Scaled dot-product attention of several heads, of x with itself: [batch, time, width] to the
// same.
class KEEL_API MultiHeadAttention : public Module {
 public:
  // Makes four Dense layers: "query", "key", "value", "out". Throws Error unless the heads divide
  // the width.
  MultiHeadAttention(const Scope& scope, int64_t width, int64_t heads);
  // x's time must be known. Of `options`, mask broadcasts to [batch, heads, time, time].
  Value operator()(Operand x, const AttentionOptions& options = {}, CallSite site = {}) const;

 private:
  Value split(Value x, CallSite site) const;

  int64_t heads_;
  Dense query_, key_, value_, out_;
};

struct TransformerBlockOptions {
  int64_t hidden = 0;  // units of the layer between; 0: four times the width
  double dropout = 0;  // behind the attention and behind the two dense layers
};

// x + attention(norm(x)), and of that y + out(gelu(hidden(norm(y)))): the block with the norms in
// front. Source: Xiong et al., "On Layer Normalization in the Transformer Architecture" (2020).
class KEEL_API TransformerBlock : public Module {
 public:
  // Makes "norm1", "attention", "norm2", "hidden", "out". Throws Error like its layers.
  TransformerBlock(const Scope& scope, int64_t width, int64_t heads,
                   const TransformerBlockOptions& options = {});
  Value operator()(Operand x, Mode mode, const AttentionOptions& options = {},
                   CallSite site = {}) const;

 private:
  LayerNorm norm1_, norm2_;
  MultiHeadAttention attention_;
  Dense hidden_, out_;
  Dropout dropout_;
};

// An lstm over [batch, time, features], whose time is known.
class KEEL_API Lstm : public Module {
 public:
  // Makes the parameters "weight_ih" [features, 4 * units], "weight_hh" [units, 4 * units] and
  // "bias" [4 * units]. Throws Error for sizes < 1.
  Lstm(const Scope& scope, int64_t features, int64_t units);
  // outputs: [batch, time, units]; the last state's parts are [batch, units].
  LstmSequence operator()(Operand x, RecurrentOptions options = {}, CallSite site = {}) const;

 private:
  int64_t features_;
  LstmWeights weights_;
};

// A gru over the same.
class KEEL_API Gru : public Module {
 public:
  // Makes "weight_ih" [features, 3 * units], "weight_hh" [units, 3 * units], "bias_ih" and
  // "bias_hh" [3 * units]. Throws Error for sizes < 1.
  Gru(const Scope& scope, int64_t features, int64_t units);
  GruSequence operator()(Operand x, RecurrentOptions options = {}, CallSite site = {}) const;

 private:
  int64_t features_;
  GruWeights weights_;
};

}  // namespace keel

#endif  // KEEL_OPS_NN_SEQUENCE_LAYERS_H
