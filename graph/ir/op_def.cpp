#include "keel/graph/ir/op_def.h"

#include <algorithm>

#include "keel/core/base/error.h"

namespace keel {

std::string InferContext::input_name(size_t i) const {
  if (i < op.input_names.size()) return op.input_names[i];
  return "input " + std::to_string(i);
}

void InferContext::fail(const std::string& argument, const std::string& expected,
                        const std::string& got, const std::string& fix) const {
  throw Error({.op = op.name,
               .argument = argument,
               .expected = expected,
               .got = got,
               .fix = fix,
               .site = site});
}

void InferContext::require_same_dtype() const {
  for (size_t i = 1; i < inputs.size(); ++i) {
    if (inputs[i].dtype == inputs[0].dtype) continue;
    fail(input_name(i), name_of(inputs[0].dtype) + std::string(" like ") + input_name(0),
         name_of(inputs[i].dtype),
         "there is no silent promotion: convert one side with cast(x, keel::" +
             std::string(name_of(inputs[0].dtype)) + ")");
  }
}

void InferContext::require_rank(size_t input, size_t at_least, size_t at_most) const {
  const size_t rank = inputs[input].shape.rank();
  if (rank >= at_least && rank <= at_most) return;
  std::string expected = "rank " + std::to_string(at_least);
  if (at_most >= Shape::kMaxRank)
    expected = "rank of at least " + std::to_string(at_least);
  else if (at_most != at_least)
    expected += " to " + std::to_string(at_most);
  fail(input_name(input), expected, to_string(inputs[input]), "reshape it first");
}

void InferContext::require(size_t input, bool ok, const std::string& expected) const {
  if (!ok) fail(input_name(input), expected, to_string(inputs[input]));
}

}  // namespace keel
