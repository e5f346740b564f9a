#include "keel/ops/exchange/onnx/import_branches.h"

#include <optional>
#include <vector>

#include "keel/graph/control/control_flow.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/shape.h"

namespace keel::onnx {
namespace {

// The type that both results can have: with the dimensions that one of them knows. Nothing where
// there is none, or none that a reshape can make of both.
std::optional<Shape> common_shape(const Type& a, const Type& b) {
  if (a.dtype != b.dtype || a.shape.rank() != b.shape.rank() || a == b) return std::nullopt;
  std::vector<int64_t> dims;
  int open = 0;
  for (size_t i = 0; i < a.shape.rank(); ++i) {
    const int64_t x = a.shape[i], y = b.shape[i];
    if (x >= 0 && y >= 0 && x != y) return std::nullopt;
    dims.push_back(x < 0 ? y : x);
    open += dims.back() < 0 ? 1 : 0;
  }
  if (open > 1) return std::nullopt;
  return Shape(dims);
}

}  // namespace

Values conditional(NodeContext& c, const Value& condition, const Values& operands,
                   const GraphProto& then_body, const GraphProto& else_body) {
  // The condition is an operand, too, so that branches without others know their graph.
  std::vector<Operand> given{Operand(c.here(condition))};
  Values here;
  for (const Value& operand : operands) {
    here.push_back(c.here(operand));
    given.emplace_back(here.back());
  }
  if (c.computes_both_branches()) {
    Values results = c.body(then_body, here, c.place());
    const Values others = c.body(else_body, here, c.place());
    for (size_t i = 0; i < results.size() && i < others.size(); ++i)
      results[i] = select(given[0], results[i], others[i], {});
    return results;
  }
  const std::vector<bool> fixed(here.size(), true);
  const std::vector<Type> then_types = c.body_types(then_body, here, fixed);
  const std::vector<Type> else_types = c.body_types(else_body, here, fixed);
  const auto branch = [&](const GraphProto& body) {
    return [&](const Values& v) {
      Values results = c.body(body, Values(v.begin() + 1, v.end()), v[0].graph({}));
      for (size_t i = 0; i < results.size() && i < then_types.size() && i < else_types.size(); ++i)
        if (const auto shape = common_shape(then_types[i], else_types[i]))
          results[i] = reshape(results[i], *shape, {});
      return results;
    };
  };
  return cond(given[0], given, branch(then_body), branch(else_body), {});
}

}  // namespace keel::onnx
