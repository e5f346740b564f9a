// DtypeOverrides: dtypes that a user gives single nodes, or all nodes of an op, whatever the
// precision mode says: Ascend's customize_dtypes. A file has a rule in each line, with a dtype for
// each input and each output; `#` begins a comment:
//
//   hidden1/matmul::InputDtype:float16,float16,OutputDtype:float32
//   OpType::sum::InputDtype:float32,OutputDtype:float32
//
// A node's own name wins over its op. Plain values and pure functions; any thread.
#ifndef KEEL_GRAPH_PRECISION_DTYPE_OVERRIDES_H
#define KEEL_GRAPH_PRECISION_DTYPE_OVERRIDES_H

#include <map>
#include <string>
#include <vector>

#include "keel/core/base/dtype.h"
#include "keel/core/base/export.h"
#include "keel/graph/ir/graph.h"

namespace keel {

struct DtypeRule {
  std::vector<DType> inputs, outputs;
  std::string where;  // "dtypes.cfg:3"
  bool operator==(const DtypeRule&) const = default;
};

struct KEEL_API DtypeOverrides {
  std::map<std::string, DtypeRule> by_name;  // full_name()
  std::map<std::string, DtypeRule> by_op;

  bool empty() const noexcept { return by_name.empty() && by_op.empty(); }
  // Returns the rule for a node; null where there is none.
  const DtypeRule* find(const Node& node) const;
  bool operator==(const DtypeOverrides&) const = default;
};

// Throws Error naming source and line for what is no rule, an op or a dtype that nobody knows, and
// a second rule for the same name or op. Dtypes are f32, f16, bf16 ... or float32, float16,
// bfloat16 ...
KEEL_API DtypeOverrides parse_dtype_overrides(const std::string& text, const std::string& source);

}  // namespace keel

#endif  // KEEL_GRAPH_PRECISION_DTYPE_OVERRIDES_H
