#include "keel/ops/composed/attention.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "keel/core/base/error.h"
#include "keel/ops/attention.h"

namespace keel {
namespace {

// 1 / sqrt(features), unless the user gave one.
double scale_of(const AttentionOptions& options, const Value& queries, const Value& keys,
                CallSite line) {
  if (options.scale) return *options.scale;
  const auto features_of = [](const Value& v) {
    return v.shape().rank() == 0 ? kUnknownDim : v.shape().back();
  };
  const int64_t features = std::max(features_of(queries), features_of(keys));
  if (features >= 0) return features == 0 ? 1 : 1 / std::sqrt(static_cast<double>(features));
  throw Error({.op = "attention",
               .argument = "queries",
               .expected = "a known number of features, or a scale",
               .got = to_string(queries.shape()),
               .site = line});
}

}  // namespace

Value attention(Operand queries, Operand keys, Operand values, const AttentionOptions& options,
                CallSite site) {
  const CallSite line = site.known() ? site : queries.site();
  const Value q = require_value(queries, "attention", "queries", line);
  const Value k = require_value(keys, "attention", "keys", line);
  require_value(values, "attention", "values", line);
  const AttentionAttributes attributes{.scale = scale_of(options, q, k, line),
                                       .causal = options.causal};
  return attention_with_rows(queries, keys, values, options.mask, attributes, line).result;
}

}  // namespace keel
