// lstm and gru: one step, and all steps of a sequence by a while_loop. Compositions of ops; floats
// of one dtype. Sequences are [time, batch, features] with a known time; what has the batch first
// goes through transpose(x, {1, 0, 2}). Sources: Hochreiter and Schmidhuber, "Long Short-Term
// Memory" (1997), with the forget gate of Gers et al. (2000); Cho et al. (2014) for gru, with the
// reset gate behind the product, as cuDNN and PyTorch have it.
//
// The loops differentiate like other loops: the states at the beginning of each step are kept, or
// of some of them with `recompute_every` (graph/control/control_flow.h). Errors name `site`, or
// where that is not given the line that made x.
#ifndef KEEL_OPS_COMPOSED_RECURRENT_H
#define KEEL_OPS_COMPOSED_RECURRENT_H

#include <cstdint>
#include <optional>

#include "keel/core/base/export.h"
#include "keel/graph/ir/operand.h"
#include "keel/graph/ir/value.h"

namespace keel {

struct RecurrentOptions {
  bool reverse = false;  // from the last step back to the first; outputs stay with their steps
  std::optional<int64_t> recompute_every = {};  // see WhileOptions
};

// ---- lstm

// The gates lie side by side in this order: input, forget, candidate, output.
struct LstmWeights {
  Value input;   // [features, 4 * units]
  Value hidden;  // [units, 4 * units]
  Value bias;    // [4 * units]
};
struct LstmState {
  Value hidden;  // [batch, units]
  Value cell;    // [batch, units]
};
struct LstmSequence {
  Value outputs;   // [time, batch, units]: the hidden state behind each step
  LstmState last;  // the initial one where there is no step
};

// With i, f, o = sigmoid and c = tanh of x input + hidden state * hidden + bias: the next cell is
// f * cell + i * c, the next hidden state o * tanh(next cell). x is [batch, features].
KEEL_API LstmState lstm_cell(Operand x, const LstmState& state, const LstmWeights& weights,
                             CallSite site = {});
// An initial state that is left out is zeros.
KEEL_API LstmSequence lstm(Operand x, const LstmWeights& weights,
                           const std::optional<LstmState>& initial = {},
                           RecurrentOptions options = {}, CallSite site = {});

// ---- gru

// The gates lie side by side in this order: reset, update, candidate.
struct GruWeights {
  Value input;        // [features, 3 * units]
  Value hidden;       // [units, 3 * units]
  Value input_bias;   // [3 * units]
  Value hidden_bias;  // [3 * units]
};
struct GruSequence {
  Value outputs;  // [time, batch, units]
  Value last;     // [batch, units]
};

// With a = x input + input_bias and b = state hidden + hidden_bias, each cut into r, u, c: reset =
// sigmoid(a_r + b_r), update = sigmoid(a_u + b_u), candidate = tanh(a_c + reset * b_c); the next
// state is (1 - update) * candidate + update * state.
KEEL_API Value gru_cell(Operand x, Operand state, const GruWeights& weights, CallSite site = {});
KEEL_API GruSequence gru(Operand x, const GruWeights& weights,
                         const std::optional<Value>& initial = {}, RecurrentOptions options = {},
                         CallSite site = {});

}  // namespace keel

#endif  // KEEL_OPS_COMPOSED_RECURRENT_H
