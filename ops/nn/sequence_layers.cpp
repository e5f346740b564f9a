#include "keel/ops/nn/sequence_layers.h"

#include <string>

#include "keel/core/base/checked.h"
#include "keel/core/base/error.h"
#include "keel/ops/composed/rearrange.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/nn/in_name_of.h"
#include "keel/ops/nn/layer_errors.h"
#include "keel/ops/normalization.h"
#include "keel/ops/shape.h"

namespace keel {
namespace {

// [batch, time, ...] to [time, batch, ...] and back.
Value time_first(Value x, CallSite line) { return transpose(Operand(x, line), {1, 0, 2}, line); }

// Runs `sequence` (lstm or gru, which take the time first) over x [batch, time, features].
template <class Weights, class State, class Sequence>
Sequence batch_first(Sequence (*sequence)(Operand, const Weights&, const State&, RecurrentOptions,
                                          CallSite),
                     Value x, const Weights& weights, RecurrentOptions options, CallSite line) {
  Sequence result = sequence(Operand(time_first(x, line), line), weights, {}, options, line);
  result.outputs = time_first(result.outputs, line);
  return result;
}

// x as rows along its last axis, of that many features.
Value require_rows(const std::string& title, const Graph& graph, const Operand& x, int64_t features,
                   CallSite line) {
  const size_t rank = require_value(x, title.c_str(), "x", line).shape().rank();
  if (rank == 0)
    refuse_argument(title, "x", "shape [..., features]", to_string(x.value().type()), line);
  return require_input(title, graph, x, f32, rank, -1, features, line);
}

// x [batch, time, features] for a recurrence over its time. One of no time tells nothing of a batch
// that is not known, which the zeros that it begins with need.
Value require_sequence(const std::string& title, const Graph& graph, const Operand& x,
                       int64_t features, CallSite line) {
  const Value input = require_input(title, graph, x, f32, 3, -1, features, line);
  const Shape& shape = input.shape();
  if (shape[1] < 0 || (shape[1] == 0 && shape[0] < 0)) {
    refuse_argument(title, "x",
                    shape[1] < 0 ? "shape [batch, time, features] with a known time (axis 1)"
                                 : "a known batch (axis 0) beside a time of 0",
                    to_string(input.type()), line);
  }
  return input;
}

void require_heads(const Scope& scope, int64_t width, int64_t heads) {
  require_size("attention", scope, "heads", heads);
  if (width % heads == 0) return;
  refuse_argument(layer_title("attention", scope), "heads",
                  "a number that divides the width " + std::to_string(width), std::to_string(heads),
                  scope.site());
}

// Layers that are made of layers refuse what these would before the first has made its states: the
// graph would keep them, and the names would be taken.
int64_t checked_heads(const Scope& scope, int64_t width, int64_t heads) {
  require_heads(scope, width, heads);
  return heads;
}
// That many times the size, which is how wide a layer inside is.
int64_t times(const char* layer, const Scope& scope, const char* argument, int64_t count,
              int64_t size) {
  const std::string what = layer_title(layer, scope) + ": " + argument;
  try {
    return checked_mul(count, size, what.c_str());
  } catch (const Error& error) {
    throw error.with_site(scope.site());
  }
}
int64_t hidden_of(const Scope& scope, int64_t width, const TransformerBlockOptions& options) {
  return options.hidden == 0 ? times("transformer block", scope, "width", 4, width)
                             : options.hidden;
}
const Scope& checked_block(const Scope& scope, int64_t width, int64_t heads,
                           const TransformerBlockOptions& options) {
  require_size("layer norm", scope / "norm1", "features", width);
  require_heads(scope / "attention", width, heads);
  require_size("dense", scope / "hidden", "units", hidden_of(scope, width, options));
  require_rate(scope / "dropout", options.dropout);
  return scope;
}

}  // namespace

LayerNorm::LayerNorm(const Scope& scope, int64_t features, double epsilon)
    : Module(scope), epsilon_(epsilon) {
  require_size("layer norm", scope, "features", features);
  require_epsilon("layer norm", scope, epsilon, f32);
  weight_ = scope.parameter("weight", ones({features}));
  bias_ = scope.parameter("bias", zeros({features}));
}

Value LayerNorm::operator()(Operand x, CallSite site) const {
  const CallSite line = line_of(x, site);
  const Value input =
      require_rows(layer_title("layer norm", scope()), graph(), x, weight_.shape()[0], line);
  const LabelScope here = open_scope();
  return layer_norm(Operand(input, line), Operand(weight_, line), Operand(bias_, line),
                    {.epsilon = epsilon_}, line);
}

RmsNorm::RmsNorm(const Scope& scope, int64_t features, double epsilon)
    : Module(scope), epsilon_(epsilon) {
  require_size("rms norm", scope, "features", features);
  require_epsilon("rms norm", scope, epsilon, f32);
  weight_ = scope.parameter("weight", ones({features}));
}

Value RmsNorm::operator()(Operand x, CallSite site) const {
  const CallSite line = line_of(x, site);
  const Value input =
      require_rows(layer_title("rms norm", scope()), graph(), x, weight_.shape()[0], line);
  const LabelScope here = open_scope();
  return rms_norm(Operand(input, line), Operand(weight_, line), {.epsilon = epsilon_}, line);
}

Embedding::Embedding(const Scope& scope, int64_t rows, int64_t features) : Module(scope) {
  require_size("embedding", scope, "rows", rows);
  require_size("embedding", scope, "features", features);
  weight_ = scope.parameter("weight", normal({rows, features}, 0, 1));
}

Value Embedding::operator()(Operand ids, CallSite site) const {
  const CallSite line = line_of(ids, site);
  const std::string title = layer_title("embedding", scope());
  const Value rows = require_own(title, graph(), ids, "ids", line);
  const LabelScope here = open_scope();
  return in_name_of({title, {}, "embedding"},
                    [&] { return embedding(Operand(weight_, line), Operand(rows, line), line); });
}

MultiHeadAttention::MultiHeadAttention(const Scope& scope, int64_t width, int64_t heads)
    : Module(scope),
      heads_(checked_heads(scope, width, heads)),
      query_(scope / "query", width, width),
      key_(scope / "key", width, width),
      value_(scope / "value", width, width),
      out_(scope / "out", width, width) {}

// [batch, time, width] to [batch, heads, time, width / heads].
Value MultiHeadAttention::split(Value x, CallSite site) const {
  const Shape& shape = x.shape();
  const Value cut = reshape(Operand(x, site), {-1, shape[1], heads_, shape[2] / heads_}, site);
  return transpose(Operand(cut, site), {0, 2, 1, 3}, site);
}

Value MultiHeadAttention::operator()(Operand x, const AttentionOptions& options,
                                     CallSite site) const {
  const CallSite line = line_of(x, site);
  const std::string title = layer_title("attention", scope());
  const int64_t width = query_.weight().shape()[0];
  const Value input = require_input(title, graph(), x, f32, 3, -1, width, line);
  const int64_t time = input.shape()[1];
  if (time < 1) {
    refuse_argument(title, "x", "a known time of at least 1 (axis 1)", to_string(input.type()),
                    line);
  }
  const LabelScope here = open_scope();
  const Operand read(input, line);
  const Value seen = attention(Operand(split(query_(read, line), line), line),
                               Operand(split(key_(read, line), line), line),
                               Operand(split(value_(read, line), line), line), options, line);
  const Value together = transpose(Operand(seen, line), {0, 2, 1, 3}, line);
  return out_(Operand(reshape(Operand(together, line), {-1, time, width}, line), line), line);
}

TransformerBlock::TransformerBlock(const Scope& scope, int64_t width, int64_t heads,
                                   const TransformerBlockOptions& options)
    : Module(checked_block(scope, width, heads, options)),
      norm1_(scope / "norm1", width),
      norm2_(scope / "norm2", width),
      attention_(scope / "attention", width, heads),
      hidden_(scope / "hidden", width, hidden_of(scope, width, options)),
      out_(scope / "out", hidden_of(scope, width, options), width),
      dropout_(scope / "dropout", options.dropout) {}

Value TransformerBlock::operator()(Operand x, Mode mode, const AttentionOptions& options,
                                   CallSite site) const {
  const CallSite line = line_of(x, site);
  const Value input = require_value(x, "transformer block", "x", line);
  const LabelScope here = open_scope();
  const auto drop = [&](Value v) { return dropout_(Operand(v, line), mode, line); };
  const Value seen = attention_(Operand(norm1_(Operand(input, line), line), line), options, line);
  const Value middle = add(Operand(input, line), Operand(drop(seen), line), line);
  const Value wide = hidden_(Operand(norm2_(Operand(middle, line), line), line), line);
  const Value back = out_(Operand(gelu(Operand(wide, line), line), line), line);
  return add(Operand(middle, line), Operand(drop(back), line), line);
}

Lstm::Lstm(const Scope& scope, int64_t features, int64_t units)
    : Module(scope), features_(features) {
  require_size("lstm", scope, "features", features);
  require_size("lstm", scope, "units", units);
  const int64_t gates = times("lstm", scope, "units", 4, units);
  weights_.input = scope.parameter("weight_ih", glorot_uniform({features, gates}));
  weights_.hidden = scope.parameter("weight_hh", glorot_uniform({units, gates}));
  weights_.bias = scope.parameter("bias", zeros({gates}));
}

LstmSequence Lstm::operator()(Operand x, RecurrentOptions options, CallSite site) const {
  const CallSite line = line_of(x, site);
  const Value input = require_sequence(layer_title("lstm", scope()), graph(), x, features_, line);
  const LabelScope here = open_scope();
  return batch_first(&lstm, input, weights_, options, line);
}

Gru::Gru(const Scope& scope, int64_t features, int64_t units) : Module(scope), features_(features) {
  require_size("gru", scope, "features", features);
  require_size("gru", scope, "units", units);
  const int64_t gates = times("gru", scope, "units", 3, units);
  weights_.input = scope.parameter("weight_ih", glorot_uniform({features, gates}));
  weights_.hidden = scope.parameter("weight_hh", glorot_uniform({units, gates}));
  weights_.input_bias = scope.parameter("bias_ih", zeros({gates}));
  weights_.hidden_bias = scope.parameter("bias_hh", zeros({gates}));
}

GruSequence Gru::operator()(Operand x, RecurrentOptions options, CallSite site) const {
  const CallSite line = line_of(x, site);
  const Value input = require_sequence(layer_title("gru", scope()), graph(), x, features_, line);
  const LabelScope here = open_scope();
  return batch_first(&gru, input, weights_, options, line);
}

}  // namespace keel
