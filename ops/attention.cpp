#include "keel/ops/attention.h"

#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "keel/core/base/checked.h"
#include "keel/core/base/printable.h"
#include "keel/graph/ir/emit.h"
#include "keel/graph/ir/node.h"
#include "keel/graph/ir/op_table.h"
#include "keel/graph/ir/sample.h"
#include "keel/ops/attention_rules.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/gather.h"
#include "keel/ops/infer_rules.h"
#include "keel/ops/loss.h"
#include "keel/ops/matmul.h"
#include "keel/ops/reduce.h"
#include "keel/ops/reference_loops.h"
#include "keel/ops/shape.h"

namespace keel {
namespace {

Shape heads_of(const Shape& shape) { return Shape(shape.dims().first(shape.rank() - 2)); }
int64_t length_of(const Shape& shape) { return shape[shape.rank() - 2]; }
bool differ(int64_t a, int64_t b) { return a >= 0 && b >= 0 && a != b; }

Shape scores_shape(const Shape& heads, int64_t queries, int64_t keys) {
  Shape shape = heads;
  shape.push_back(queries);
  shape.push_back(keys);
  return shape;
}

}  // namespace

// ---- sizes

AttentionGeometry::AttentionGeometry(const AttentionAttributes& attributes,
                                     const Shape& queries_shape, const Shape& keys_shape,
                                     const Shape& values_shape, const Shape* mask)
    : queries(length_of(queries_shape)),
      keys(length_of(keys_shape)),
      features(queries_shape.back()),
      outputs(values_shape.back()),
      scale(attributes.scale),
      causal(attributes.causal),
      masked(mask != nullptr) {
  const Shape batch =
      *broadcast(*broadcast(heads_of(queries_shape), heads_of(keys_shape)), heads_of(values_shape));
  const Shape scores = scores_shape(batch, queries, keys);
  std::array<Strides, 4> strides{
      broadcast_strides(heads_of(queries_shape), batch),
      broadcast_strides(heads_of(keys_shape), batch),
      broadcast_strides(heads_of(values_shape), batch),
  };
  if (masked) {
    strides[3] = broadcast_strides(*mask, scores);
    mask_query_step = strides[3][batch.rank()];
    mask_key_step = strides[3][batch.rank() + 1];
  }
  for_each_strided(batch, strides, [&](const std::array<int64_t, 4>& at) {
    heads.push_back(
        {at[0] * queries * features, at[1] * keys * features, at[2] * keys * outputs, at[3]});
  });
}

AttentionGeometry::AttentionGeometry(const Node& node, size_t mask_input)
    : AttentionGeometry(
          node.as<AttentionAttributes>(), node.input(0).shape(), node.input(1).shape(),
          node.input(2).shape(),
          node.inputs().size() > mask_input ? &node.input(mask_input).shape() : nullptr) {}

int64_t AttentionGeometry::pairs() const {
  if (!causal) return checked_mul(queries, keys, "attention");
  // From the last query, which looks at all keys, each one before looks at one fewer.
  const int64_t some = std::min(queries, keys);
  const int64_t hidden = checked_mul(some, some - 1, "attention") / 2;
  return checked_mul(some, keys, "attention") - hidden;
}

double lowest_score(DType dtype) {
  return dtype == f64 ? std::numeric_limits<double>::lowest()
                      : std::numeric_limits<float>::lowest();
}

// ---- inference

Shape infer_scores(const InferContext& c, size_t mask_input) {
  const auto& attributes = c.as<AttentionAttributes>();
  const DType dtype = c.inputs[0].dtype;
  for (size_t i = 0; i < 3; ++i) {
    if (!is_float(c.inputs[i].dtype) || c.inputs[i].dtype != dtype) {
      c.fail(c.input_name(i), "one float dtype for queries, keys and values",
             name_of(c.inputs[i].dtype), "convert with cast(x, dtype)");
    }
    c.require(i, c.inputs[i].shape.rank() >= 2, "shape [..., length, features]");
  }
  c.require(0, !attributes.wide || size_of(dtype) == 2, "f16 or bf16 for wide results");
  // The scores are computed in this dtype, and f32 holds no 1e39.
  const DType wide = wide_dtype(dtype);
  if (!std::isfinite(Tensor::full(wide, {}, attributes.scale).at(0))) {
    c.fail("scale", std::string("a finite number that fits ") + name_of(wide),
           printable(attributes.scale));
  }
  const Shape &queries = c.inputs[0].shape, &keys = c.inputs[1].shape, &values = c.inputs[2].shape;
  c.require(1, !differ(queries.back(), keys.back()),
            std::to_string(queries.back()) + " features, like queries");
  c.require(2, !differ(length_of(keys), length_of(values)),
            std::to_string(length_of(keys)) + " of them, one for each key");
  Shape heads = heads_of(queries);
  for (size_t i = 1; i < 3; ++i) {
    const auto both = broadcast(heads, heads_of(c.inputs[i].shape));
    if (!both) {
      c.fail(c.input_name(i), "leading dimensions that broadcast with " + to_string(heads),
             to_string(c.inputs[i].shape), "leading dimensions must be equal or 1");
    }
    heads = *both;
  }
  const int64_t length = length_of(keys) < 0 ? length_of(values) : length_of(keys);
  const Shape scores = scores_shape(heads, length_of(queries), length);
  if (mask_input >= c.inputs.size()) return scores;
  const Type& mask = c.inputs[mask_input];
  const auto both = broadcast(scores, mask.shape);
  bool fits = both && both->rank() == scores.rank();
  // Sizes that are unknown are looked at when the step is compiled.
  for (size_t i = 0; fits && i < scores.rank(); ++i)
    fits = scores[i] < 0 || (*both)[i] < 0 || (*both)[i] == scores[i];
  if (mask.dtype != boolean || !fits) {
    c.fail("mask", "bool of a shape that broadcasts to the scores' " + to_string(scores),
           to_string(mask));
  }
  return scores;
}

// ---- compositions

namespace {

// [queries, keys]: key <= query + keys - queries.
Value causal_mask(Graph& graph, int64_t queries, int64_t keys, CallSite site) {
  const Value last = add(iota(graph, i64, {queries, 1}, 0, site), keys - queries, site);
  return less_equal(iota(graph, i64, {1, keys}, 1, site), last, site);
}

}  // namespace

ComposedWeights composed_weights(const BuildContext& c, const Value& mask) {
  const auto& attributes = c.as<AttentionAttributes>();
  const CallSite site = c.site;
  const Value &q = c.inputs[0], &k = c.inputs[1];
  const bool narrow = size_of(q.dtype()) == 2;
  const Value products = matmul(q, k, {.transpose_b = true, .wide = narrow}, site);
  ComposedWeights composed;
  composed.scores = mul(products, attributes.scale, site);
  composed.mask = mask;
  if (attributes.causal) {
    const Value causal = causal_mask(c.graph, length_of(q.shape()), length_of(k.shape()), site);
    composed.mask = mask.valid() ? logical_and(causal, mask, site) : causal;
  }
  if (!composed.mask.valid()) {
    composed.weights = softmax(composed.scores, -1, site);
    return composed;
  }
  // Finite, so that no NaN arises in a row of nothing else; its weights are dropped behind it.
  composed.scores = select(composed.mask, composed.scores, lowest_score(q.dtype()), site);
  composed.weights = select(composed.mask, softmax(composed.scores, -1, site), 0, site);
  return composed;
}

namespace {

std::vector<Type> infer_attention(const InferContext& c) {
  const Shape scores = infer_scores(c, 3);
  const DType dtype = c.inputs[0].dtype;
  const Shape rows = scores.without_dim(scores.rank() - 1);
  Shape result = rows;
  result.push_back(c.inputs[2].shape.back());
  const Type statistics{wide_dtype(dtype), rows};
  return {{c.as<AttentionAttributes>().wide ? f32 : dtype, result}, statistics, statistics};
}

// ---- reference

void reference_attention(const ReferenceContext& c) {
  const Tensor &q = c.inputs[0], &k = c.inputs[1], &v = c.inputs[2];
  const bool masked = c.inputs.size() > 3;
  const AttentionGeometry g(c.as<AttentionAttributes>(), q.shape(), k.shape(), v.shape(),
                            masked ? &c.inputs[3].shape() : nullptr);
  const bool* mask = masked ? c.inputs[3].data<bool>().data() : nullptr;
  std::vector<double> weights(static_cast<size_t>(g.keys));
  int64_t row = 0;
  for (const AttentionHead& head : g.heads) {
    for (int64_t i = 0; i < g.queries; ++i, ++row) {
      const auto sees = [&](int64_t j) { return g.sees(mask + head.mask, i, j); };
      double largest = lowest_score(q.dtype()), total = 0;
      bool any = false;
      for (int64_t j = 0; j < g.keys; ++j) {
        if (!sees(j)) continue;
        any = true;
        double score = 0;
        for (int64_t f = 0; f < g.features; ++f) {
          score += q.at(head.queries + i * g.features + f) * k.at(head.keys + j * g.features + f);
        }
        score *= g.scale;
        weights[static_cast<size_t>(j)] = score;
        if (score > largest || std::isnan(score)) largest = score;
      }
      for (int64_t j = 0; j < g.keys; ++j) {
        double& weight = weights[static_cast<size_t>(j)];
        weight = sees(j) ? std::exp(weight - largest) : 0;
        total += weight;
      }
      for (int64_t o = 0; o < g.outputs; ++o) {
        double sum = 0;
        for (int64_t j = 0; j < g.keys; ++j) {
          if (sees(j))
            sum += weights[static_cast<size_t>(j)] * v.at(head.values + j * g.outputs + o);
        }
        c.outputs[0].set(row * g.outputs + o, any ? sum / total : 0);
      }
      c.outputs[1].set(row, largest);
      c.outputs[2].set(row, total);
    }
  }
}

// ---- decomposition and gradient

Values decompose_attention(const BuildContext& c) {
  const CallSite site = c.site;
  const Value mask = c.inputs.size() > 3 ? c.inputs[3] : Value();
  const ComposedWeights composed = composed_weights(c, mask);
  // Weights are rounded only where the result is.
  const DType dtype = c.as<AttentionAttributes>().wide ? f32 : c.inputs[2].dtype();
  const Value result =
      matmul(cast(composed.weights, dtype, site), cast(c.inputs[2], dtype, site), {}, site);
  // Nobody reads what follows but a gradient that has a kernel.
  const DType wide = composed.scores.dtype();
  const double lowest = lowest_score(wide);
  // Scores lack the leading dimensions that values alone have.
  const Shape rows = result.shape().without_dim(result.shape().rank() - 1);
  const auto spread = [&](const Value& v) {
    return v.shape() == rows ? v : broadcast_to(v, rows, site);
  };
  if (composed.scores.shape().back() == 0) {
    return {result, c.graph.constant(Tensor::full(wide, rows, lowest), site),
            zeros_of(c.graph, {wide, rows}, site)};
  }
  const Value largest = maximum(max(composed.scores, {-1}, true, site), lowest, site);
  Value exponentials = exp(sub(composed.scores, largest, site), site);
  if (composed.mask.valid()) exponentials = select(composed.mask, exponentials, 0, site);
  return {result, spread(squeeze(largest, {-1}, site)),
          spread(sum(exponentials, {-1}, false, site))};
}

Values gradient_attention(const BuildContext& c) {
  const CallSite site = c.site;
  Values flows(c.inputs.size());
  if (!c.output_gradients[0].valid()) return flows;
  const auto& attributes = c.as<AttentionAttributes>();
  const Shape heads = heads_of(c.outputs[0].shape());
  Values whole;
  for (size_t i = 0; i < 3; ++i) {
    const Shape& own = c.inputs[i].shape();
    const Shape shape = scores_shape(heads, length_of(own), own.back());
    whole.push_back(own == shape ? c.inputs[i] : broadcast_to(c.inputs[i], shape, site));
  }
  const DType dtype = c.inputs[0].dtype();
  const AttentionGradients gradients =
      attention_gradient(whole[0], whole[1], whole[2], c.inputs.size() > 3 ? c.inputs[3] : Value(),
                         {c.outputs[0], c.outputs[1], c.outputs[2]},
                         cast(c.output_gradients[0], dtype, site), attributes, site);
  const Value parts[] = {gradients.queries, gradients.keys, gradients.values};
  for (size_t i = 0; i < 3; ++i)
    flows[i] = cast(sum_to_shape(parts[i], c.inputs[i].shape(), site), dtype, site);
  return flows;
}

// ---- samples

Sample sample_attention(SampleSource& source) {
  if (!is_float(source.dtype())) return {};
  const auto drawn = draw_attention(source, /*broadcasts=*/true);
  return {.inputs = drawn.inputs,
          .build = [a = drawn.attributes](Graph&, const Values& v) -> Values {
            const Value mask = v.size() > 3 ? v[3] : Value();
            const AttentionOutput made = attention_with_rows(v[0], v[1], v[2], mask, a);
            // No gradient passes the others, so f64, in which differences are taken, has one.
            if (v[0].dtype() == f64) return {made.result};
            return {made.result, made.largest, made.total};
          }};
}

}  // namespace

AttentionSample draw_attention(SampleSource& source, bool broadcasts) {
  AttentionSample drawn;
  Shape batch;
  if (source.integer(0, 2) == 0) batch = source.shape(0, 2);
  // Beyond the blocks that kernels compute in; f64 is what gradients are checked in, slowly.
  const bool is_long = source.dtype() != f64 && source.size() > 50 && source.integer(0, 3) == 0;
  if (is_long) batch = {};
  const auto length = [&] { return is_long ? source.integer(60, 140) : source.dim(); };
  const int64_t queries = length(), keys = length();
  const int64_t features = std::min<int64_t>(source.dim(), 40);
  const int64_t outputs = std::min<int64_t>(source.dim(), 40);
  drawn.attributes = {.scale = source.pick<double>({1, 0.25, -0.5}),
                      .causal = source.coin(),
                      .wide = size_of(source.dtype()) == 2 && source.coin()};
  const auto heads = [&] { return broadcasts ? source.broadcastable_to(batch) : batch; };
  const bool of_values_alone = broadcasts && batch.rank() < 2 && source.integer(0, 3) == 0;
  // Scores of some units, whatever the features.
  const double most = features > 8 ? 1 : 2;
  drawn.inputs = {source.values(scores_shape(batch, queries, features), -most, most),
                  source.values(scores_shape(heads(), keys, features), -most, most),
                  source.values(scores_shape(of_values_alone ? batch.with_inserted(0, 2) : heads(),
                                             keys, outputs))};
  if (source.coin()) {
    const Shape shape = source.broadcastable_to(scores_shape(batch, queries, keys));
    drawn.inputs.push_back(source.values(boolean, shape, 0, 1));
  }
  return drawn;
}

void register_attention(OpTable& table) {
  table.add({.name = "attention",
             .summary = "softmax(scale * queries keys^T) values where queries may look",
             .input_names = {"queries", "keys", "values", "mask"},
             .optional_inputs = 1,
             .attributes = &attributes_schema<AttentionAttributes>(),
             .infer = infer_attention,
             .reference = reference_attention,
             .gradient = gradient_attention,
             .decompose = decompose_attention,
             .mix_class = MixClass::kWhite,
             .bound = {.ulps = 32, .k = 32},
             .sample = sample_attention});
}

AttentionOutput attention_with_rows(Operand queries, Operand keys, Operand values,
                                    const Value& mask, const AttentionAttributes& attributes,
                                    CallSite site) {
  std::vector<Operand> operands{queries, keys, values};
  if (mask.valid()) operands.emplace_back(mask, site);
  const Values made = emit_all("attention", operands, Attributes::of(attributes), site);
  return {made[0], made[1], made[2]};
}

}  // namespace keel
