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

}  // namespace

LossOfPart loss_of_part(Value loss, int64_t parts, CallSite site) {
  Graph& graph = loss.graph();
  const std::vector<bool> under = nodes_under(loss);
  LossOfPart result{loss, {}};
  Replacements replaced;
  for (const Value& input : Values(graph.inputs())) {
    const bool has_rows = input.shape().rank() > 0;
    if (!has_rows || input.node_id() >= under.size() || !under[input.node_id()]) continue;
    const Value part = parts == 1 ? input : first_part(input, parts, site);
    result.batch.push_back({input, part});
    if (parts > 1) replaced.emplace(input, part);
  }
  if (!replaced.empty()) result.loss = computed_from(loss, std::move(replaced));
  return result;
}

}  // namespace keel
