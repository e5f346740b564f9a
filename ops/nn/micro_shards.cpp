#include "keel/ops/nn/micro_shards.h"

#include <algorithm>
#include <string>
#include <utility>

#include "keel/ops/nn/computed_from.h"
#include "keel/ops/slice.h"

namespace keel {
namespace {

// Throws Error where the parts do not divide a number of rows that an input says. It may be no
// batch where another input has other rows.
void require_rows(const Values& inputs, int64_t parts, CallSite site) {
  for (const Value& input : inputs) {
    const int64_t rows = input.shape()[0];
    if (rows <= 0 || rows % parts == 0) continue;
    const bool alike = std::all_of(inputs.begin(), inputs.end(),
                                   [&](const Value& other) { return other.shape()[0] == rows; });
    throw Error({.op = "data_parallel",
                 .argument = "input '" + name_of(input.node()) + "'",
                 .expected = "rows that " + std::to_string(parts) + " micro-shards divide",
                 .got = std::to_string(rows),
                 .fix = std::string("give another batch, or another number of micro-shards") +
                        (alike ? "" : "; make what is the same for all rows a state or a constant"),
                 .site = site});
  }
}

// As many rows of an input as each of its equal parts has, from all over it: what is computed from
// them is computed from each part in their place. Of open rows that are no multiple it has too
// many, which is refused when the step is compiled.
Value rows_of_a_part(const Value& input, int64_t parts, CallSite site) {
  return slice(Operand(input, site), {0}, {kToEnd}, {parts}, site);
}

// The loss computed from parts in place of the inputs. What was built for the rows of the whole
// batch, a loop's variables or a shape, may not take fewer.
Value loss_from(Value loss, const std::vector<BatchPart>& batch, CallSite site) {
  Replacements replaced;
  for (const auto& [input, part] : batch) replaced.emplace(input, part);
  try {
    return computed_from(loss, std::move(replaced));
  } catch (const Error& error) {
    for (const auto& [input, part] : batch) {
      if (input.shape()[0] < 0) continue;
      throw Error({.op = "data_parallel",
                   .argument = "input '" + name_of(input.node()) + "'",
                   .expected = "rows of a number that is open (-1), as they are computed in parts, "
                               "and what is built for all of them does not take fewer",
                   .got = to_string(input.type()) + made_at(input) + ": " + error.what(),
                   .fix = "make the first dimension of the batch's inputs -1, or train with one "
                          "micro-shard for each rank",
                   .site = site,
                   .kind = error.info().kind});
    }
    throw;
  }
}

}  // namespace

LossOfPart loss_of_part(Value loss, int64_t parts, CallSite site) {
  Graph& graph = loss.graph();
  const std::vector<bool> under = nodes_under(loss);
  Values inputs;
  for (const Value& input : graph.inputs()) {
    const bool has_rows = input.shape().rank() > 0;
    if (has_rows && input.node_id() < under.size() && under[input.node_id()])
      inputs.push_back(input);
  }
  require_rows(inputs, parts, site);
  LossOfPart result{loss, {}};
  for (const Value& input : inputs)
    result.batch.push_back({input, parts == 1 ? input : rows_of_a_part(input, parts, site)});
  if (parts > 1 && !result.batch.empty()) result.loss = loss_from(loss, result.batch, site);
  return result;
}

}  // namespace keel
