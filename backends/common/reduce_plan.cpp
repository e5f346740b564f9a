#include "keel/backends/common/reduce_plan.h"

#include <algorithm>

#include "keel/graph/ir/graph.h"
#include "keel/ops/reduce.h"

namespace keel {
namespace {

// Columns of rows that are computed before they are reduced go through in pieces of so many, which
// leaves the order of memory where rows are wider.
constexpr int64_t kWidestInOrder = 4096;
// A chunk adds its units one after the other, and the error grows with their number: so chunks of
// units that are shorter than kLeastOfUnit elements have fewer elements.
constexpr int64_t kLeastOfUnit = 64, kMostUnits = kReduceChunk / kLeastOfUnit;
// The most chunks of an output row; of narrow ones more, up to so many accumulators.
constexpr int64_t kMostChunks = 256, kMostAccumulators = kMostChunks * kLeastOfUnit;
// The most accumulators of a reduction of rows, as far as errors allow: with many results there is
// work enough for all blocks without chunks, whose accumulators would take as much memory as the
// operand.
constexpr int64_t kMostOfRows = int64_t{1} << 20;

}  // namespace

// The input's axes with neighbours of the same kind merged; axes of size 1 vanish.
std::vector<ReducePlan::Group> ReducePlan::collapse(const Shape& shape,
                                                    const std::vector<bool>& reduced) {
  const auto strides = shape.strides();
  std::vector<Group> groups;
  for (size_t axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == 1) continue;
    if (!groups.empty() && groups.back().reduced == reduced[axis]) {
      groups.back().dim *= shape[axis];
      groups.back().stride = strides[axis];
    } else {
      groups.push_back({shape[axis], strides[axis], reduced[axis]});
    }
  }
  return groups;
}

int64_t ReducePlan::offset_of(const std::vector<Group>& groups, int64_t index) {
  int64_t offset = 0;
  for (size_t i = groups.size(); i-- > 0;) {
    offset += index % groups[i].dim * groups[i].stride;
    index /= groups[i].dim;
  }
  return offset;
}

int64_t ReducePlan::count_of(const std::vector<Group>& groups) {
  int64_t count = 1;
  for (const Group& g : groups) count *= g.dim;
  return count;
}

ReducePlan::ReducePlan(const Node& reduction) {
  const Shape& shape = reduction.input(0).shape();
  const auto& attributes = reduction.as<ReduceAttributes>();
  const auto reduced = reduced_axes(attributes.axes, shape.rank());
  elements_ = shape.num_elements();
  if (elements_ != 0) parts_ = attributes.parts;
  // Groups of a part, which lie in it as they do in the whole: its first axis alone is shorter.
  const Shape part = parts_ == 1 ? shape : shape.with_dim(0, shape[0] / parts_);
  std::vector<Group> groups = collapse(part, reduced);
  results_ = reduction.type().shape.num_elements();
  last_reduced_ = groups.empty() || groups.back().reduced;
  if (!groups.empty()) {
    (last_reduced_ ? run_ : width_) = groups.back().dim;
    groups.pop_back();
  }
  // Groups alternate, so that only one that is kept before one that is reduced keeps the order.
  const size_t all = parts_ == 1 ? groups.size() : collapse(shape, reduced).size() - 1;
  ascends_ = all < (last_reduced_ ? 2u : 3u) && width_ <= kWidestInOrder;
  for (const Group& g : groups) (g.reduced ? steps_ : outer_).push_back(g);

  outer_count_ = count_of(outer_);
  const int64_t units = elements_ == 0 ? 0 : count_of(steps_);
  pieces_ = last_reduced_ ? std::max<int64_t>(1, (run_ + kReduceChunk - 1) / kReduceChunk) : 1;
  const int64_t per_unit = last_reduced_ ? std::min(run_, kReduceChunk) : width_;
  const int64_t per_chunk =
      std::clamp<int64_t>(kReduceChunk / std::max<int64_t>(1, per_unit), 1, kMostUnits);
  all_units_ = units * pieces_;
  int64_t most = std::max(kMostChunks, kMostAccumulators / std::max<int64_t>(1, per_unit));
  if (!last_reduced_) {
    const int64_t for_errors = (all_units_ + kMostUnits - 1) / kMostUnits;
    const int64_t for_memory = kMostOfRows / std::max<int64_t>(1, results_);
    most = std::min(most, std::max<int64_t>({1, for_errors, for_memory}));
  }
  chunks_ = std::clamp<int64_t>((all_units_ + per_chunk - 1) / per_chunk, 1, most);
  all_units_ *= parts_;
  chunks_ *= parts_;
}

}  // namespace keel
