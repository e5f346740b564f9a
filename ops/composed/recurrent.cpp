#include "keel/ops/composed/recurrent.h"

#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "keel/core/base/error.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/ir/graph.h"
#include "keel/ops/composed/filled.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/gather.h"
#include "keel/ops/matmul.h"
#include "keel/ops/shape.h"
#include "keel/ops/slice.h"
#include "keel/ops/split.h"

namespace keel {
namespace {

// The names and sizes that one call goes by.
struct Call {
  const char* op;
  CallSite line;
  DType dtype = f32;
  int64_t gates = 0;
  int64_t units = 0;

  [[noreturn]] void fail(const std::string& argument, const std::string& expected,
                         const std::string& got, const std::string& fix = "") const {
    throw Error({.op = op,
                 .argument = argument,
                 .expected = expected,
                 .got = got,
                 .fix = fix,
                 .site = line});
  }
  // -1 in `shape` is any size, or along the first axis that of axis `like_axis` of `like`. Returns
  // the value behind checks of the sizes that are not known yet.
  Value require(const Value& given, const char* argument, const Shape& shape,
                const Value& like = {}, size_t like_axis = 0) const {
    const Value value = require_value(Operand(given, line), op, argument, line);
    bool fits = value.shape().rank() == shape.rank();
    for (size_t i = 0; fits && i < shape.rank(); ++i) {
      const int64_t got = value.shape()[i];
      fits = shape[i] < 0 || got < 0 || got == shape[i];
    }
    if (!fits || value.dtype() != dtype) {
      fail(argument, to_string(Type{dtype, shape}), to_string(value.type()),
           value.dtype() != dtype ? "convert it with cast(x, dtype)" : "");
    }
    return checked_later(value, argument, shape, like, like_axis);
  }

 private:
  // The steps broadcast, so that a size of 1 would stand for any other.
  Value checked_later(Value value, const char* argument, const Shape& shape, const Value& like,
                      size_t like_axis) const {
    std::vector<int64_t> axes;
    Shape known;
    for (size_t i = 0; i < shape.rank(); ++i) {
      if (shape[i] < 0 || value.shape()[i] >= 0) continue;
      axes.push_back(static_cast<int64_t>(i));
      known.push_back(shape[i]);
    }
    if (!axes.empty()) {
      std::vector<int64_t> all(axes.size());
      std::iota(all.begin(), all.end(), 0);
      const Value sizes = zeros_of(value.graph(), {boolean, known}, line);
      value = same_dims(value, sizes, {axes, all, op, argument}, line);
    }
    if (!like.valid() || shape[0] >= 0) return value;
    return same_dims(value, like, {{0}, {static_cast<int64_t>(like_axis)}, op, argument}, line);
  }
};

// Checks x, of this rank with features last, and the two matrices of the weights, which become
// their checked values.
Call begin(const char* op, const Operand& x, size_t rank, int64_t gates, Value& input,
           Value& hidden, CallSite site) {
  Call call{.op = op, .line = site.known() ? site : x.site(), .gates = gates};
  const Value value = require_value(x, op, "x", call.line);
  call.dtype = value.dtype();
  if (!is_float(call.dtype)) {
    call.fail("x", "a float dtype", name_of(call.dtype), "convert it with cast(x, dtype)");
  }
  if (value.shape().rank() != rank || (rank == 3 && value.shape()[0] < 0)) {
    call.fail(
        "x",
        rank == 2 ? "shape [batch, features]" : "shape [time, batch, features] with a known time",
        to_string(value.shape()));
  }
  const Value matrix = call.require(hidden, "hidden weights", {-1, -1});
  call.units = matrix.shape()[0];
  if (call.units < 1) {
    call.fail("hidden weights", "a known number of units, at least 1", to_string(matrix.type()));
  }
  hidden = call.require(hidden, "hidden weights", {call.units, gates * call.units});
  input = call.require(input, "input weights", {value.shape().back(), gates * call.units}, value,
                       rank - 1);
  return call;
}

// Returns the parts of [batch, gates * units].
Values gates_of(const Call& call, const Value& all) { return split(all, call.gates, 1, call.line); }

Value product(const Call& call, const Value& x, const Value& weights) {
  return matmul(x, weights, {}, call.line);
}

// Zeros of [batch, units] for the batch of x, [time, batch, features].
Value zero_state(const Call& call, const Value& x) {
  const Shape& shape = x.shape();
  if (shape[1] >= 0) {
    return zeros_of(x.graph(), {call.dtype, {shape[1], call.units}}, call.line);
  }
  if (shape[0] == 0 || shape[2] < 1) {
    call.fail("x", "a known batch, or an initial state", to_string(shape));
  }
  const Value column =
      reshape(slice(x, {0, 0, 0}, {1, kToEnd, 1}, {}, call.line), {-1, 1}, call.line);
  return broadcast_to(zeros_like(column, call.line), {-1, call.units}, call.line);
}

// The next states of one step; the first of them is its output.
using Step = std::function<Values(const Value& x, const Values& states)>;

// `step` for each of x's first axis. Returns the outputs, one behind the other, and the last
// states.
Values run_steps(const Call& call, const Value& x, const Values& initial,
                 const RecurrentOptions& options, const Step& step) {
  const int64_t time = x.shape()[0];
  // Here, since the loop would refuse it in its own name.
  if (options.recompute_every && *options.recompute_every < 1)
    call.fail("recompute_every", "at least 1", std::to_string(*options.recompute_every));
  // A row of -0 takes what is added to it bit by bit, and scatter_add works in place in a loop.
  const Value row = full_like(initial[0], -0.0, call.line);
  std::vector<Operand> variables{Operand(broadcast_to(row, {time, -1, -1}, call.line), call.line)};
  for (const Value& state : initial) variables.emplace_back(state, call.line);
  const auto always = [&](const Values& v) {
    return v[0].graph().constant(Tensor::full(boolean, {}, 1), call.line);
  };
  const auto body = [&](const Values& v) {
    const Value count = v[0].graph().iteration();
    const Value at = options.reverse ? sub(time - 1, count, call.line) : count;
    Values next =
        step(gather(x, Operand(at, call.line), 0, call.line), Values(v.begin() + 1, v.end()));
    next.insert(next.begin(), scatter_add(v[0], Operand(at, call.line), next[0], call.line));
    return next;
  };
  return while_loop(variables, always, body,
                    {.trip_count = time, .recompute_every = options.recompute_every}, call.line);
}

Values lstm_step(const Call& call, const Value& x, const Values& state,
                 const LstmWeights& weights) {
  const CallSite line = call.line;
  const Value sums =
      add(product(call, x, weights.input), product(call, state[0], weights.hidden), line);
  const Values gates = gates_of(call, add(sums, weights.bias, line));
  const Value kept = mul(sigmoid(gates[1], line), state[1], line);
  const Value added = mul(sigmoid(gates[0], line), tanh(gates[2], line), line);
  const Value cell = add(kept, added, line);
  return {mul(sigmoid(gates[3], line), tanh(cell, line), line), cell};
}

Value gru_step(const Call& call, const Value& x, const Value& state, const GruWeights& weights) {
  const CallSite line = call.line;
  const Values a = gates_of(call, add(product(call, x, weights.input), weights.input_bias, line));
  const Values b =
      gates_of(call, add(product(call, state, weights.hidden), weights.hidden_bias, line));
  const Value reset = sigmoid(add(a[0], b[0], line), line);
  const Value update = sigmoid(add(a[1], b[1], line), line);
  const Value candidate = tanh(add(a[2], mul(reset, b[2], line), line), line);
  return add(mul(sub(1, update, line), candidate, line), mul(update, state, line), line);
}

Call begin_lstm(const char* op, const Operand& x, size_t rank, LstmWeights& weights,
                CallSite site) {
  const Call call = begin(op, x, rank, 4, weights.input, weights.hidden, site);
  weights.bias = call.require(weights.bias, "bias", {4 * call.units});
  return call;
}

Call begin_gru(const char* op, const Operand& x, size_t rank, GruWeights& weights, CallSite site) {
  const Call call = begin(op, x, rank, 3, weights.input, weights.hidden, site);
  weights.input_bias = call.require(weights.input_bias, "input bias", {3 * call.units});
  weights.hidden_bias = call.require(weights.hidden_bias, "hidden bias", {3 * call.units});
  return call;
}

}  // namespace

LstmState lstm_cell(Operand x, const LstmState& state, const LstmWeights& weights, CallSite site) {
  LstmWeights checked = weights;
  const Call call = begin_lstm("lstm_cell", x, 2, checked, site);
  const Shape shape{x.value().shape()[0], call.units};
  const Value hidden = call.require(state.hidden, "hidden state", shape, x.value(), 0);
  const Value cell = call.require(state.cell, "cell", shape, x.value(), 0);
  const Values next = lstm_step(call, x.value(), {hidden, cell}, checked);
  return {next[0], next[1]};
}

LstmSequence lstm(Operand x, const LstmWeights& weights, const std::optional<LstmState>& initial,
                  RecurrentOptions options, CallSite site) {
  LstmWeights checked = weights;
  const Call call = begin_lstm("lstm", x, 3, checked, site);
  const Shape shape{x.value().shape()[1], call.units};
  Values states;
  if (initial) {
    states = {call.require(initial->hidden, "initial hidden state", shape, x.value(), 1),
              call.require(initial->cell, "initial cell", shape, x.value(), 1)};
  } else {
    // Each its own: the loop copies a value that begins several variables.
    states = {zero_state(call, x.value()), zero_state(call, x.value())};
  }
  const Values all = run_steps(
      call, x.value(), states, options,
      [&](const Value& row, const Values& s) { return lstm_step(call, row, s, checked); });
  return {all[0], {all[1], all[2]}};
}

Value gru_cell(Operand x, Operand state, const GruWeights& weights, CallSite site) {
  GruWeights checked = weights;
  const Call call = begin_gru("gru_cell", x, 2, checked, site);
  const Value given = require_value(state, call.op, "state", call.line);
  const Value before =
      call.require(given, "state", {x.value().shape()[0], call.units}, x.value(), 0);
  return gru_step(call, x.value(), before, checked);
}

GruSequence gru(Operand x, const GruWeights& weights, const std::optional<Value>& initial,
                RecurrentOptions options, CallSite site) {
  GruWeights checked = weights;
  const Call call = begin_gru("gru", x, 3, checked, site);
  const Shape shape{x.value().shape()[1], call.units};
  const Value first = initial ? call.require(*initial, "initial state", shape, x.value(), 1)
                              : zero_state(call, x.value());
  const Values all =
      run_steps(call, x.value(), {first}, options, [&](const Value& row, const Values& s) {
        return Values{gru_step(call, row, s[0], checked)};
      });
  return {all[0], all[1]};
}

}  // namespace keel
