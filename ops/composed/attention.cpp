#include "keel/ops/composed/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "keel/core/base/error.h"
#include "keel/graph/ir/graph.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/gather.h"
#include "keel/ops/loss.h"
#include "keel/ops/matmul.h"

namespace keel {
namespace {

[[noreturn]] void fail(const char* argument, const std::string& expected, const std::string& got,
                       CallSite line, const std::string& fix = "") {
  throw Error({.op = "attention",
               .argument = argument,
               .expected = expected,
               .got = got,
               .fix = fix,
               .site = line});
}

// Checks what products would report in terms of their own.
void require_fitting(const Value& queries, const Value& keys, const Value& values, CallSite line) {
  const auto require = [&](const char* argument, const Value& v) {
    if (!is_float(v.dtype()) || v.dtype() != queries.dtype()) {
      fail(argument, "one float dtype for queries, keys and values", name_of(v.dtype()), line,
           "convert with cast(x, dtype)");
    }
    if (v.shape().rank() < 2)
      fail(argument, "shape [..., length, features]", to_string(v.shape()), line);
  };
  require("queries", queries);
  require("keys", keys);
  require("values", values);
  const auto differ = [](int64_t a, int64_t b) { return a >= 0 && b >= 0 && a != b; };
  const auto length = [](const Value& v) { return v.shape()[v.shape().rank() - 2]; };
  if (differ(queries.shape().back(), keys.shape().back())) {
    fail("keys", std::to_string(queries.shape().back()) + " features, like queries",
         to_string(keys.shape()), line);
  }
  if (differ(length(keys), length(values))) {
    fail("values", std::to_string(length(keys)) + " of them, one for each key",
         to_string(values.shape()), line);
  }
}

double scale_of(const AttentionOptions& options, const Value& queries, const Value& keys,
                CallSite line) {
  if (options.scale) {
    if (!std::isfinite(*options.scale)) {
      fail("scale", "a finite number", std::to_string(*options.scale), line);
    }
    return *options.scale;
  }
  const int64_t features = std::max(queries.shape().back(), keys.shape().back());
  if (features < 0) {
    fail("queries", "a known number of features, or a scale", to_string(queries.shape()), line);
  }
  return features == 0 ? 1 : 1 / std::sqrt(static_cast<double>(features));
}

// [queries, keys]: key <= query + keys - queries.
Value causal_mask(Graph& graph, const Shape& scores, CallSite line) {
  const int64_t queries = scores[scores.rank() - 2], keys = scores.back();
  if (queries < 0 || keys < 0) {
    fail("causal", "known numbers of queries and keys", to_string(scores), line,
         "give the inputs known lengths, or a mask");
  }
  const Value last = add(iota(graph, i64, {queries, 1}, 0, line), keys - queries, line);
  return less_equal(iota(graph, i64, {1, keys}, 1, line), last, line);
}

// Invalid where every query may look at every key.
Value mask_of(const AttentionOptions& options, const Value& scores, CallSite line) {
  Value mask;
  if (options.causal) mask = causal_mask(scores.graph(), scores.shape(), line);
  if (!options.mask.valid()) return mask;
  const auto both = broadcast(scores.shape(), options.mask.shape());
  if (options.mask.dtype() != boolean || !both || both->rank() != scores.shape().rank() ||
      !matches(*both, scores.shape())) {
    fail("mask", "bool of a shape that broadcasts to the scores' " + to_string(scores.shape()),
         to_string(options.mask.type()), line);
  }
  return mask.valid() ? logical_and(mask, options.mask, line) : options.mask;
}

}  // namespace

Value attention(Operand queries, Operand keys, Operand values, const AttentionOptions& options,
                CallSite site) {
  const CallSite line = site.known() ? site : queries.site();
  const Value q = require_value(queries, "attention", "queries", line);
  const Value k = require_value(keys, "attention", "keys", line);
  const Value v = require_value(values, "attention", "values", line);
  require_fitting(q, k, v, line);
  const bool narrow = q.dtype() == f16 || q.dtype() == bf16;
  const Value products = matmul(queries, keys, {.transpose_b = true, .wide = narrow}, line);
  const Value scores = mul(products, scale_of(options, q, k, line), line);
  const Value mask = mask_of(options, scores, line);
  if (!mask.valid())
    return matmul(cast(softmax(scores, -1, line), q.dtype(), line), values, {}, line);
  // Finite, so that no NaN arises in a row of nothing else; its weights are dropped behind it.
  const double lowest = q.dtype() == f64 ? std::numeric_limits<double>::lowest()
                                         : std::numeric_limits<float>::lowest();
  const Value all = softmax(select(mask, scores, lowest, line), -1, line);
  const Value weights = select(mask, all, 0, line);
  return matmul(cast(weights, q.dtype(), line), values, {}, line);
}

}  // namespace keel
