#include "keel/ops/nn/micro_shards.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "keel/ops/elementwise.h"
#include "keel/ops/gather.h"
#include "keel/ops/nn/computed_from.h"
#include "keel/ops/shape.h"

namespace keel {
namespace {

// The parts of an input in rows of [shards, rows / shards, ...]. A row of it need not be copied.
class ShardedInput {
 public:
  ShardedInput(const Value& input, int64_t shards, CallSite site) : input_(input), site_(site) {
    const Shape& whole = input.shape();
    Shape parts{shards, whole[0] < 0 ? -1 : whole[0] / shards};
    for (size_t axis = 1; axis < whole.rank(); ++axis) parts.push_back(whole[axis]);
    parts_ = reshape(Operand(input, site), parts, site);
  }

  const Value& input() const { return input_; }
  Value part(const Value& number) const { return gather(parts_, number, 0, site_); }

 private:
  Value input_;
  Value parts_;
  CallSite site_;
};

Value sum_between(const Values& values, size_t begin, size_t end, CallSite site) {
  if (end - begin == 1) return values[begin];
  const size_t middle = begin + (end - begin) / 2;
  return add(sum_between(values, begin, middle, site), sum_between(values, middle, end, site),
             site);
}

}  // namespace

Values losses_of_shards(Value loss, int64_t shards, CallSite site) {
  if (shards == 1) return {loss};
  Graph& graph = loss.graph();
  const std::vector<bool> under = nodes_under(loss);
  std::vector<ShardedInput> inputs;
  for (const Value& input : Values(graph.inputs())) {
    if (input.node_id() < under.size() && under[input.node_id()] && input.shape().rank() > 0)
      inputs.emplace_back(input, shards, site);
  }
  Values losses;
  for (int64_t shard = 0; shard < shards; ++shard) {
    const Value number = graph.constant(Tensor::scalar(shard), site);
    Replacements parts;
    for (const ShardedInput& input : inputs) parts.emplace(input.input(), input.part(number));
    losses.push_back(computed_from(loss, std::move(parts)));
  }
  return losses;
}

Value tree_sum(const Values& values, CallSite site) {
  return sum_between(values, 0, values.size(), site);
}

}  // namespace keel
