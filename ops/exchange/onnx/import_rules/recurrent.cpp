// LSTM, GRU and RNN: a loop over time, forwards, backwards or both. Sequences are [time, batch,
// features], with layout 1 [batch, time, features].
#include <functional>
#include <string>

#include "keel/graph/control/control_flow.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/exchange/onnx/import_indices.h"
#include "keel/ops/exchange/onnx/import_rules.h"
#include "keel/ops/exchange/onnx/import_shapes.h"
#include "keel/ops/gather.h"
#include "keel/ops/matmul.h"
#include "keel/ops/slice.h"
#include "keel/ops/split.h"

namespace keel::onnx {
namespace {

using Ints = std::vector<int64_t>;

// One direction of a node: its weights, and what is common to all.
struct Direction {
  Value input;                    // [features, gates * units]
  Value hidden;                   // [units, gates * units]
  Value candidate;                // of a gru: its last [units, units], the same in all turns
  Value input_bias, hidden_bias;  // [gates * units]; invalid without
  Value peepholes;                // [3 * units]; invalid without
  int64_t units = 0;
  double clip = 0;  // of the activations' arguments; 0: none
  std::vector<std::string> activations;
  bool linear_before_reset = false;
  bool coupled = false;  // the forget gate is what the input gate leaves

  Value activate(size_t i, Value x) const {
    if (clip > 0) x = clamp(x, -clip, clip, {});
    const std::string& name = activations[i];
    if (name == "Sigmoid") return sigmoid(x, {});
    if (name == "Tanh") return tanh(x, {});
    return relu(x, {});
  }
};

// The states behind one step; the first of them is its output.
using Step = Values (*)(const Direction& d, const Value& x, const Values& states);

Value part(const Value& all, int64_t i, int64_t units) {
  return slice(all, {0, i * units}, {kToEnd, (i + 1) * units}, {}, {});
}
Value vector_part(const Value& all, int64_t i, int64_t units) {
  return slice(all, {i * units}, {(i + 1) * units}, {}, {});
}
Value plus(const Value& x, const Value& bias) { return bias.valid() ? add(x, bias, {}) : x; }

Values rnn_step(const Direction& d, const Value& x, const Values& states) {
  const Value sums = plus(
      plus(add(matmul(x, d.input, {}, {}), matmul(states[0], d.hidden, {}, {}), {}), d.input_bias),
      d.hidden_bias);
  return {d.activate(0, sums)};
}

// Gates in the order update, reset, candidate.
Values gru_step(const Direction& d, const Value& x, const Values& states) {
  const int64_t n = d.units;
  const Value a = plus(matmul(x, d.input, {}, {}), d.input_bias);
  const Value b = plus(matmul(states[0], d.hidden, {}, {}), d.hidden_bias);
  const Value update = d.activate(0, add(part(a, 0, n), part(b, 0, n), {}));
  const Value reset = d.activate(0, add(part(a, 1, n), part(b, 1, n), {}));
  Value before = mul(reset, part(b, 2, n), {});
  if (!d.linear_before_reset) {
    before = matmul(mul(reset, states[0], {}), d.candidate, {}, {});
    if (d.hidden_bias.valid()) before = add(before, vector_part(d.hidden_bias, 2, n), {});
  }
  const Value candidate = d.activate(1, add(part(a, 2, n), before, {}));
  return {add(mul(sub(1.0, update, {}), candidate, {}), mul(update, states[0], {}), {})};
}

// Gates in the order input, output, forget, cell.
Values lstm_step(const Direction& d, const Value& x, const Values& states) {
  const int64_t n = d.units;
  const Value sums = plus(
      plus(add(matmul(x, d.input, {}, {}), matmul(states[0], d.hidden, {}, {}), {}), d.input_bias),
      d.hidden_bias);
  const auto gate = [&](int64_t i, int64_t peephole, const Value& cell) {
    Value sum = part(sums, i, n);
    if (d.peepholes.valid())
      sum = add(sum, mul(vector_part(d.peepholes, peephole, n), cell, {}), {});
    return d.activate(0, sum);
  };
  const Value& cell = states[1];
  const Value input = gate(0, 0, cell);
  const Value forget = d.coupled ? sub(1.0, input, {}) : gate(2, 2, cell);
  const Value next =
      add(mul(forget, cell, {}), mul(input, d.activate(1, part(sums, 3, n)), {}), {});
  const Value output = gate(1, 1, next);
  return {mul(output, d.activate(2, next), {}), next};
}

// Runs the steps over x [time, batch, features]; behind the end of a sequence states stay and
// outputs are 0. Returns the outputs [time, batch, units] and the last states.
Values run_steps(NodeContext& c, const Direction& d, const Value& x, const Values& initial,
                 const Value& lengths, bool reverse, Step step) {
  const Shape shape = c.known_shape(x, "its sequences");
  const int64_t time = shape[0];
  const Value empty = c.result(Tensor::full(x.dtype({}), {}, -0.0));
  std::vector<Operand> variables{Operand(broadcast_to(empty, {time, shape[1], d.units}, {}))};
  for (const Value& state : initial) variables.emplace_back(state);
  const auto always = [](const Values& v) {
    return v[0].graph({}).constant(Tensor::full(boolean, {}, 1), {});
  };
  const auto body = [&](const Values& v) {
    const Value count = v[0].graph({}).iteration();
    const Value at = reverse ? sub(time - 1, count, {}) : count;
    const Values states(v.begin() + 1, v.end());
    Values next = step(d, gather(x, at, 0, {}), states);
    Value output = next[0];
    if (lengths.valid()) {
      const Value inside = expand_dims(less(at, lengths, {}), {1}, {});
      output = select(inside, output, 0.0, {});
      for (size_t i = 0; i < next.size(); ++i) next[i] = select(inside, next[i], states[i], {});
    }
    next.insert(next.begin(), scatter_add(v[0], at, output, {}));
    return next;
  };
  return while_loop(variables, always, body, {.trip_count = time}, {});
}

struct Kind {
  int64_t gates;
  size_t states;
  std::vector<std::string> activations;  // without any in the node
  Step step;
};

std::vector<std::string> activations_of(NodeContext& c, const Kind& kind, size_t directions) {
  std::vector<std::string> names;
  if (const AttributeProto* given = c.find_attribute("activations")) names = given->strings;
  const size_t due = directions * kind.activations.size();
  // ONNX's default for an RNN is two names, which files have for one direction, too.
  if (due == 1 && names.size() == 2) names.pop_back();
  if (!names.empty() && names.size() != due) {
    c.refuse("it names " + std::to_string(names.size()) + " activations, where it takes " +
             std::to_string(due));
  }
  for (size_t i = 0; names.size() < due; ++i)
    names.push_back(kind.activations[i % kind.activations.size()]);
  for (const std::string& name : names) {
    if (name != "Sigmoid" && name != "Tanh" && name != "Relu")
      c.refuse("its activation is " + name);
  }
  if (c.has_attribute("activation_alpha") || c.has_attribute("activation_beta"))
    c.refuse("its activations have parameters");
  return names;
}

// Returns the number of units. Refuses inputs that do not fit it, or the sequences, [time, batch,
// features].
int64_t checked_units(NodeContext& c, const Kind& kind, size_t directions, const Shape& sequences,
                      bool batch_first) {
  c.require_rank(c.in(2), 3, 3, "its recurrent weights are");
  const int64_t units = c.known_shape(c.in(2), "its recurrent weights")[2];
  const int64_t said = c.attribute("hidden_size", units);
  if (said != units) {
    c.refuse("its hidden_size is " + std::to_string(said) + ", and its recurrent weights are of " +
             std::to_string(units) + " units");
  }
  const auto each = static_cast<int64_t>(directions);
  const int64_t batch = sequences[1], rows = kind.gates * units;
  c.require_shape(c.in(1), {each, rows, sequences[2]}, "its weights are");
  c.require_shape(c.in(2), {each, rows, units}, "its recurrent weights are");
  if (c.has(3)) c.require_shape(c.in(3), {each, 2 * rows}, "its biases are");
  if (c.has(4)) c.require_shape(c.in(4), {batch}, "its lengths of sequences are");
  for (size_t i = 5; i < 5 + kind.states; ++i) {
    const Shape states = batch_first ? Shape{batch, each, units} : Shape{each, batch, units};
    if (c.has(i)) c.require_shape(c.in(i), states, "its initial states are");
  }
  if (kind.states == 2 && c.has(7))
    c.require_shape(c.in(7), {each, 3 * units}, "its peepholes are");
  return units;
}

// Element `direction` of a value with one for each direction first; invalid where it is left out.
Value of_direction(NodeContext& c, size_t input, size_t direction) {
  if (!c.has(input)) return {};
  return gather(c.in(input), c.result(Tensor::scalar(static_cast<int64_t>(direction))), 0, {});
}

Direction direction_of(NodeContext& c, const Kind& kind, size_t i, int64_t units) {
  Direction d;
  d.units = units;
  d.input = transpose(of_direction(c, 1, i), {}, {});
  d.hidden = transpose(of_direction(c, 2, i), {}, {});
  if (kind.gates == 3) d.candidate = part(d.hidden, 2, d.units);
  if (const Value bias = of_direction(c, 3, i); bias.valid()) {
    d.input_bias = vector_part(bias, 0, kind.gates * d.units);
    d.hidden_bias = vector_part(bias, 1, kind.gates * d.units);
  }
  return d;
}

Values recurrent(NodeContext& c, const Kind& kind) {
  const std::string which = c.choice("direction", {"forward", "reverse", "bidirectional"});
  const size_t directions = which == "bidirectional" ? 2 : 1;
  const bool batch_first = c.attribute("layout", int64_t{0}) != 0;
  c.ignore("output_sequence");
  const std::vector<std::string> activations = activations_of(c, kind, directions);
  const double clip = c.attribute("clip", 0.0);
  const bool linear = c.attribute("linear_before_reset", int64_t{0}) != 0;
  const bool coupled = c.attribute("input_forget", int64_t{0}) != 0;
  Value x = c.in(0);
  c.require_rank(x, 3, 3, "its sequences are");
  if (batch_first) x = transpose(x, {1, 0, 2}, {});
  const Shape shape = c.known_shape(x, "its sequences");
  const int64_t units = checked_units(c, kind, directions, shape, batch_first);
  const Value lengths = c.has(4) ? sequence_lengths(c, 4, shape[0]) : Value();
  std::vector<Values> results(1 + kind.states);
  for (size_t i = 0; i < directions; ++i) {
    Direction d = direction_of(c, kind, i, units);
    d.clip = clip;
    d.linear_before_reset = linear;
    d.coupled = coupled;
    const size_t each = kind.activations.size();
    d.activations.assign(activations.begin() + static_cast<std::ptrdiff_t>(i * each),
                         activations.begin() + static_cast<std::ptrdiff_t>((i + 1) * each));
    if (kind.states == 2) d.peepholes = of_direction(c, 7, i);
    Values initial;
    for (size_t s = 0; s < kind.states; ++s) {
      if (!c.has(5 + s)) {
        initial.push_back(zeros_of(c.graph(), {x.dtype({}), {shape[1], d.units}}, {}));
        continue;
      }
      const Value first = batch_first ? transpose(c.in(5 + s), {1, 0, 2}, {}) : c.in(5 + s);
      initial.push_back(gather(first, c.result(Tensor::scalar(static_cast<int64_t>(i))), 0, {}));
    }
    const Values made =
        run_steps(c, d, x, initial, lengths, which == "reverse" || i == 1, kind.step);
    for (size_t k = 0; k < made.size(); ++k) results[k].push_back(made[k]);
  }
  // Outputs [time, directions, batch, units], states [directions, batch, units].
  Values outputs{stack(results[0], 1, {})};
  for (size_t s = 0; s < kind.states; ++s) outputs.push_back(stack(results[1 + s], 0, {}));
  if (batch_first) {
    outputs[0] = transpose(outputs[0], {2, 0, 1, 3}, {});
    for (size_t s = 1; s < outputs.size(); ++s) outputs[s] = transpose(outputs[s], {1, 0, 2}, {});
  }
  return outputs;
}

Values rnn_of(NodeContext& c) { return recurrent(c, {1, 1, {"Tanh"}, rnn_step}); }
Values gru_of(NodeContext& c) { return recurrent(c, {3, 1, {"Sigmoid", "Tanh"}, gru_step}); }
Values lstm_of(NodeContext& c) {
  return recurrent(c, {4, 2, {"Sigmoid", "Tanh", "Tanh"}, lstm_step});
}

}  // namespace

void register_import_recurrent(ImportRules& rules) {
  rules.add("RNN", rnn_of);
  rules.add("GRU", gru_of);
  rules.add("LSTM", lstm_of);
}

}  // namespace keel::onnx
