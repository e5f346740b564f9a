#include "keel/ops/float_status.h"

#include <vector>

#include "keel/core/base/error.h"
#include "keel/graph/ir/emit.h"
#include "keel/graph/ir/op_table.h"
#include "keel/graph/ir/sample.h"

namespace keel {

Value float_status(const Values& values, CallSite site) {
  if (!values.empty()) {
    std::vector<Operand> operands;
    for (const Value& value : values) operands.emplace_back(value, site);
    return emit("float_status", operands, site);
  }
  throw Error({.op = "float_status",
               .argument = "values",
               .expected = "at least one",
               .got = "none",
               .site = site});
}

void register_float_status(OpTable& table) {
  table.add({.name = "float_status",
             .summary = "whether an op that the inputs depend on overflowed where the device "
                        "saturates",
             .input_names = {"value"},
             .variadic = true,
             .infer =
                 [](const InferContext&) {
                   return std::vector<Type>{{boolean, {}}};
                 },
             // The reference saturates nothing.
             .reference = [](const ReferenceContext& c) { c.outputs[0].data<bool>()[0] = false; },
             .not_differentiable = "it says how values were computed, not what they are",
             .traits = kNoFold,
             .role = OpRole::kFloatStatus,
             .sample = [](SampleSource& source) -> Sample {
               std::vector<Tensor> values;
               for (int64_t n = source.integer(1, 3); n > 0; --n)
                 values.push_back(source.values(source.shape(0, 3)));
               return {values, [](Graph&, const Values& in) { return Values{float_status(in)}; }};
             }});
}

}  // namespace keel
