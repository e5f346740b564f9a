#include "keel/ops/nn/micro_shards.h"

#include <cstddef>
#include <utility>

#include "keel/ops/gather.h"
#include "keel/ops/nn/computed_from.h"
#include "keel/ops/shape.h"

namespace keel {
namespace {

// The first of the equal parts of an input's rows.
Value first_part(const Value& input, int64_t parts, CallSite site) {
  const Shape& whole = input.shape();
  Shape split{parts, whole[0] < 0 ? -1 : whole[0] / parts};
  for (size_t axis = 1; axis < whole.rank(); ++axis) split.push_back(whole[axis]);
  return gather(reshape(Operand(input, site), split, site),
                input.graph().constant(Tensor::scalar(int64_t{0}), site), 0, site);
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
  LossOfPart result{loss, {}};
  for (const Value& input : Values(graph.inputs())) {
    const bool has_rows = input.shape().rank() > 0;
    if (!has_rows || input.node_id() >= under.size() || !under[input.node_id()]) continue;
    const Value part = parts == 1 ? input : first_part(input, parts, site);
    result.batch.push_back({input, part});
  }
  if (parts > 1 && !result.batch.empty()) result.loss = loss_from(loss, result.batch, site);
  return result;
}

}  // namespace keel
