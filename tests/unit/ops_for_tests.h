// Short cuts for tests of single ops: tensors, and values evaluated by the references (on `ref`).
#ifndef KEEL_TESTS_UNIT_OPS_FOR_TESTS_H
#define KEEL_TESTS_UNIT_OPS_FOR_TESTS_H

#include <functional>
#include <string>
#include <vector>

#include "keel/backends/registry.h"
#include "keel/core/base/error.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"

namespace keel::testing {

using keel_test::contains;
using keel_test::error_of;

using Doubles = std::vector<double>;

// 0, 1, 2, ... in row-major order.
inline Tensor counting(const Shape& shape, DType dtype = f32) {
  Tensor t(dtype, shape);
  for (int64_t i = 0; i < t.num_elements(); ++i) t.set(i, static_cast<double>(i));
  return t;
}

inline Tensor evaluate(Value value, const Feeds& feeds = {}) {
  Session session(value.graph(), device("ref:0"));
  return session.run({value}, feeds).at(0);
}

inline std::vector<double> elements(const Tensor& tensor) {
  std::vector<double> result;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) result.push_back(tensor.at(i));
  return result;
}

inline std::vector<double> elements(Value value, const Feeds& feeds = {}) {
  return elements(evaluate(value, feeds));
}

// The states' names, in their order.
inline std::vector<std::string> names_of(const Values& states) {
  std::vector<std::string> names;
  for (const Value& state : states) names.push_back(name_of(state.node()));
  return names;
}

}  // namespace keel::testing

#endif  // KEEL_TESTS_UNIT_OPS_FOR_TESTS_H
