// The gradient of attention, an op of its own.
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "keel/graph/ir/emit.h"
#include "keel/graph/ir/op_table.h"
#include "keel/graph/ir/sample.h"
#include "keel/ops/attention_rules.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/infer_rules.h"
#include "keel/ops/matmul.h"
#include "keel/ops/reduce.h"
#include "keel/ops/shape.h"

namespace keel {
namespace {

enum Input : size_t { kQueries, kKeys, kValues, kResult, kLargest, kTotal, kUpstream, kMask };

Value mask_of(const BuildContext& c) { return c.inputs.size() > kMask ? c.inputs[kMask] : Value(); }

// ---- inference

bool agree(const Shape& a, const Shape& b, size_t axes) {
  for (size_t i = 0; i < axes; ++i) {
    if (a[i] >= 0 && b[i] >= 0 && a[i] != b[i]) return false;
  }
  return true;
}

std::vector<Type> infer_attention_gradient(const InferContext& c) {
  const Shape scores = infer_scores(c, kMask);
  const bool wide = c.as<AttentionAttributes>().wide;
  const DType dtype = c.inputs[kQueries].dtype;
  const Shape rows = scores.without_dim(scores.rank() - 1);
  Shape result = rows;
  result.push_back(c.inputs[kValues].shape.back());
  const auto require = [&](size_t input, DType expected, const Shape& shape) {
    const Type& own = c.inputs[input];
    const bool fits = own.dtype == expected && own.shape.rank() == shape.rank() &&
                      agree(own.shape, shape, shape.rank());
    c.require(input, fits, to_string(Type{expected, shape}) + ", as attention has it");
  };
  require(kResult, wide ? f32 : dtype, result);
  require(kLargest, wide_dtype(dtype), rows);
  require(kTotal, wide_dtype(dtype), rows);
  require(kUpstream, dtype, result);
  std::vector<Type> types;
  for (size_t i = kQueries; i <= kValues; ++i) {
    const Shape& own = c.inputs[i].shape;
    const bool fits = own.rank() == scores.rank() && agree(own, scores, own.rank() - 2);
    c.require(i, fits, "the leading dimensions of the scores, which are " + to_string(scores));
    types.push_back({wide ? f32 : dtype, own});
  }
  return types;
}

// ---- reference

// The weights and slopes of one query, in double, from queries and keys anew: what the forward op
// kept is rounded.
struct ReferenceRow {
  std::vector<double> weights, slopes;  // slopes: of the loss, for each weight
};

void fill_row(const ReferenceContext& c, const AttentionGeometry& g, const AttentionHead& head,
              const bool* mask, int64_t row, int64_t query, ReferenceRow& made) {
  const Tensor &q = c.inputs[kQueries], &k = c.inputs[kKeys], &v = c.inputs[kValues];
  const Tensor& dy = c.inputs[kUpstream];
  double largest = lowest_score(q.dtype()), total = 0, mean = 0;
  for (int64_t j = 0; j < g.keys; ++j) {
    double score = 0, slope = 0;
    for (int64_t f = 0; f < g.features; ++f) {
      score += q.at(head.queries + query * g.features + f) * k.at(head.keys + j * g.features + f);
    }
    for (int64_t o = 0; o < g.outputs; ++o)
      slope += dy.at(row * g.outputs + o) * v.at(head.values + j * g.outputs + o);
    const auto at = static_cast<size_t>(j);
    made.weights[at] = score * g.scale;
    made.slopes[at] = slope;
    if (g.sees(mask, query, j)) largest = std::fmax(largest, made.weights[at]);
  }
  for (int64_t j = 0; j < g.keys; ++j) {
    double& weight = made.weights[static_cast<size_t>(j)];
    weight = g.sees(mask, query, j) ? std::exp(weight - largest) : 0;
    total += weight;
  }
  for (int64_t j = 0; j < g.keys; ++j) {
    const auto at = static_cast<size_t>(j);
    if (g.sees(mask, query, j)) made.weights[at] /= total;
    if (made.weights[at] != 0) mean += made.weights[at] * made.slopes[at];
  }
  for (int64_t j = 0; j < g.keys; ++j) made.slopes[static_cast<size_t>(j)] -= mean;
}

void reference_attention_gradient(const ReferenceContext& c) {
  const Tensor &q = c.inputs[kQueries], &k = c.inputs[kKeys], &v = c.inputs[kValues];
  const Tensor& dy = c.inputs[kUpstream];
  const bool masked = c.inputs.size() > kMask;
  const AttentionGeometry g(c.as<AttentionAttributes>(), q.shape(), k.shape(), v.shape(),
                            masked ? &c.inputs[kMask].shape() : nullptr);
  const bool* mask = masked ? c.inputs[kMask].data<bool>().data() : nullptr;
  std::vector<double> dq(static_cast<size_t>(q.num_elements()), 0),
      dk(static_cast<size_t>(k.num_elements()), 0), dv(static_cast<size_t>(v.num_elements()), 0);
  ReferenceRow made{std::vector<double>(static_cast<size_t>(g.keys)),
                    std::vector<double>(static_cast<size_t>(g.keys))};
  int64_t row = 0;
  for (const AttentionHead& head : g.heads) {
    for (int64_t i = 0; i < g.queries; ++i, ++row) {
      fill_row(c, g, head, mask + head.mask, row, i, made);
      for (int64_t j = 0; j < g.keys; ++j) {
        const double weight = made.weights[static_cast<size_t>(j)];
        if (weight == 0) continue;
        for (int64_t o = 0; o < g.outputs; ++o) {
          dv[static_cast<size_t>(head.values + j * g.outputs + o)] +=
              weight * dy.at(row * g.outputs + o);
        }
        const double slope = weight * made.slopes[static_cast<size_t>(j)] * g.scale;
        for (int64_t f = 0; f < g.features; ++f) {
          const int64_t from = head.queries + i * g.features + f;
          const int64_t to = head.keys + j * g.features + f;
          dq[static_cast<size_t>(from)] += slope * k.at(to);
          dk[static_cast<size_t>(to)] += slope * q.at(from);
        }
      }
    }
  }
  const std::vector<double>* sums[] = {&dq, &dk, &dv};
  for (size_t i = 0; i < 3; ++i) {
    for (size_t e = 0; e < sums[i]->size(); ++e)
      c.outputs[i].set(static_cast<int64_t>(e), (*sums[i])[e]);
  }
}

// ---- decomposition

// The values that the decomposition and the gradient of the gradient begin with: the weights P, dP
// = G V^T of the upstream gradient G, and their difference from its mean in the row.
struct Slopes {
  ComposedWeights composed;
  Value slopes, centred;
};

Value row_sum(const Value& x, CallSite site) { return sum(x, {-1}, true, site); }

Slopes slopes_of(const BuildContext& c, const Value& upstream) {
  const CallSite site = c.site;
  const bool narrow = size_of(upstream.dtype()) == 2;
  Slopes made;
  made.composed = composed_weights(c, mask_of(c));
  made.slopes = matmul(upstream, c.inputs[kValues], {.transpose_b = true, .wide = narrow}, site);
  // A value that is not a number passes no gradient where nobody looks at it.
  if (made.composed.mask.valid()) made.slopes = select(made.composed.mask, made.slopes, 0, site);
  const Value mean = row_sum(mul(made.composed.weights, made.slopes, site), site);
  made.centred = sub(made.slopes, mean, site);
  return made;
}

Values decompose_attention_gradient(const BuildContext& c) {
  const CallSite site = c.site;
  const auto& attributes = c.as<AttentionAttributes>();
  // Weights and slopes are rounded only where the results are.
  const DType dtype = attributes.wide ? f32 : c.inputs[kQueries].dtype();
  const auto operand = [&](const Value& v) { return cast(v, dtype, site); };
  const Slopes made = slopes_of(c, c.inputs[kUpstream]);
  const Value& weights = made.composed.weights;
  const Value slopes = operand(mul(mul(weights, made.centred, site), attributes.scale, site));
  const MatmulAttributes turned{.transpose_a = true};
  return {matmul(slopes, operand(c.inputs[kKeys]), {}, site),
          matmul(slopes, operand(c.inputs[kQueries]), turned, site),
          matmul(operand(weights), operand(c.inputs[kUpstream]), turned, site)};
}

// ---- gradient of the gradient

Value plus(const Value& a, const Value& b, CallSite site) {
  if (!a.valid() || !b.valid()) return a.valid() ? a : b;
  return add(a, b, site);
}
// A product with an operand that is not there is not there, either.
Value product(const Value& a, const Value& b, MatmulAttributes options, CallSite site) {
  return a.valid() && b.valid() ? matmul(a, b, options, site) : Value();
}

// With P, dP and centred = dP - rowsum(P dP) as above, dS = P centred, and dq = scale dS k, dk =
// scale dS^T q, dv = P^T G: given what flows back to each of these, differentiates all of them for
// q, k, v and G. What the forward op kept follows from q, k and v, so they get all of it.
Values gradient_of_attention_gradient(const BuildContext& c) {
  const CallSite site = c.site;
  const double scale = c.as<AttentionAttributes>().scale;
  const DType dtype = c.inputs[kQueries].dtype();
  const auto widened = [&](const Value& v) {
    return v.valid() ? cast(v, wide_dtype(dtype), site) : v;
  };
  const Value q = widened(c.inputs[kQueries]), k = widened(c.inputs[kKeys]),
              v = widened(c.inputs[kValues]), upstream = widened(c.inputs[kUpstream]);
  const Value to_dq = widened(c.output_gradients[0]), to_dk = widened(c.output_gradients[1]),
              to_dv = widened(c.output_gradients[2]);
  const Slopes made = slopes_of(c, c.inputs[kUpstream]);
  const Value& weights = made.composed.weights;
  const Value slopes = mul(mul(weights, made.centred, site), scale, site);
  // This flows to dS.
  Value to_slopes = plus(product(to_dq, k, {.transpose_b = true}, site),
                         product(q, to_dk, {.transpose_b = true}, site), site);
  if (to_slopes.valid()) to_slopes = mul(to_slopes, scale, site);
  Value to_weights = product(upstream, to_dv, {.transpose_b = true}, site);
  Value along, to_dp;
  if (to_slopes.valid()) {
    along = row_sum(mul(to_slopes, weights, site), site);
    to_dp = mul(weights, sub(to_slopes, along, site), site);
    const Value curved =
        sub(mul(to_slopes, made.centred, site), mul(along, made.slopes, site), site);
    to_weights = plus(to_weights, curved, site);
  }
  Value to_scores;
  if (to_weights.valid()) {
    const Value mean = row_sum(mul(weights, to_weights, site), site);
    to_scores = mul(mul(weights, sub(to_weights, mean, site), site), scale, site);
  }
  const MatmulAttributes turned{.transpose_a = true};
  Values flows(c.inputs.size());
  flows[kQueries] = plus(product(slopes, to_dk, {}, site), product(to_scores, k, {}, site), site);
  flows[kKeys] =
      plus(product(slopes, to_dq, turned, site), product(to_scores, q, turned, site), site);
  flows[kValues] = product(to_dp, upstream, turned, site);
  flows[kUpstream] = plus(product(weights, to_dv, {}, site), product(to_dp, v, {}, site), site);
  for (Value& flow : flows) {
    if (flow.valid()) flow = cast(flow, dtype, site);
  }
  return flows;
}

// ---- samples

Sample sample_attention_gradient(SampleSource& source) {
  if (!is_float(source.dtype())) return {};
  AttentionSample drawn = draw_attention(source, /*broadcasts=*/false);
  Shape result = drawn.inputs[0].shape();
  result = result.with_dim(result.rank() - 1, drawn.inputs[2].shape().back());
  const bool masked = drawn.inputs.size() > 3;
  drawn.inputs.push_back(source.values(result));
  return {.inputs = drawn.inputs,
          .build = [a = drawn.attributes, masked](Graph&, const Values& v) -> Values {
            const Value mask = masked ? v[3] : Value();
            const AttentionOutput forward = attention_with_rows(v[0], v[1], v[2], mask, a);
            const AttentionGradients made =
                attention_gradient(v[0], v[1], v[2], mask, forward, v.back(), a);
            return {made.queries, made.keys, made.values};
          }};
}

}  // namespace

void register_attention_gradient(OpTable& table) {
  table.add(
      {.name = "attention_gradient",
       .summary = "the gradients of attention for queries, keys and values",
       .input_names = {"queries", "keys", "values", "result", "largest", "total", "dy", "mask"},
       .optional_inputs = 1,
       .attributes = &attributes_schema<AttentionAttributes>(),
       .infer = infer_attention_gradient,
       .reference = reference_attention_gradient,
       .gradient = gradient_of_attention_gradient,
       .decompose = decompose_attention_gradient,
       .mix_class = MixClass::kWhite,
       .bound = {.ulps = 32, .k = 64},
       .sample = sample_attention_gradient});
}

AttentionGradients attention_gradient(Operand queries, Operand keys, Operand values,
                                      const Value& mask, const AttentionOutput& forward,
                                      Operand upstream, const AttentionAttributes& attributes,
                                      CallSite site) {
  std::vector<Operand> operands{queries,
                                keys,
                                values,
                                Operand(forward.result, site),
                                Operand(forward.largest, site),
                                Operand(forward.total, site),
                                upstream};
  if (mask.valid()) operands.emplace_back(mask, site);
  const Values made = emit_all("attention_gradient", operands, Attributes::of(attributes), site);
  return {made[0], made[1], made[2]};
}

}  // namespace keel
