#include "keel/ops/sum_of_parts.h"

#include <string>

#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/op_table.h"

namespace keel {
namespace {

std::vector<Type> infer_sum_of_parts(const InferContext& c) {
  const auto& a = c.as<SumOfPartsAttributes>();
  const auto inputs = static_cast<int64_t>(c.inputs.size());
  if (a.parts < 1) c.fail("parts", "at least 1", std::to_string(a.parts));
  if (a.values < 1 || a.values > inputs || (inputs - a.values) % 2 != 0)
    c.fail("values", "at least 1, with pairs behind them", std::to_string(a.values));
  for (size_t i = static_cast<size_t>(a.values); i < c.inputs.size(); i += 2) {
    const Type &whole = c.inputs[i], &part = c.inputs[i + 1];
    const bool has_rows = whole.shape.rank() > 0 && part.shape.rank() == whole.shape.rank();
    const bool fits =
        has_rows && whole.dtype == part.dtype &&
        (whole.shape[0] < 0 || part.shape[0] < 0 || whole.shape[0] == part.shape[0] * a.parts);
    if (!fits)
      c.fail("part", "one of " + std::to_string(a.parts) + " parts of " + to_string(whole),
             to_string(part));
  }
  return {c.inputs.begin(), c.inputs.begin() + a.values};
}

}  // namespace

Values sum_of_parts(const Values& values, const std::vector<BatchPart>& batch,
                    const SumOfPartsOptions& options, CallSite site) {
  if (values.empty()) return {};
  mark_draws_of_rows(values, batch);
  Values inputs = values;
  for (const BatchPart& pair : batch) {
    inputs.push_back(pair.whole);
    inputs.push_back(pair.part);
  }
  const SumOfPartsAttributes attributes{.parts = options.parts,
                                        .values = static_cast<int64_t>(values.size()),
                                        .first_part = options.first_part};
  const Node& node =
      values[0].graph().add("sum_of_parts", inputs, Attributes::of(attributes), site);
  Values sums;
  for (uint32_t i = 0; i < values.size(); ++i) sums.push_back(node.output(i));
  return sums;
}

void register_sum_of_parts(OpTable& table) {
  table.add(
      {.name = "sum_of_parts",
       .summary = "what parts of a batch give, summed; expanded when the graph is specialised",
       .input_names = {"value", "batch or part"},
       .variadic = true,
       .attributes = &attributes_schema<SumOfPartsAttributes>(),
       .infer = infer_sum_of_parts,
       .decompose = expand_sum_of_parts,
       .not_differentiable = "it is a sum of gradients and losses, which have theirs already",
       .traits = kControl});
}

}  // namespace keel
