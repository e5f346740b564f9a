#include "keel/ops/composed/at_least.h"

#include <vector>

#include "keel/graph/ir/graph.h"
#include "keel/ops/shape.h"
#include "keel/ops/slice.h"

namespace keel {

Value with_at_least(const Value& x, size_t axis, int64_t count, const std::string& caller,
                    const std::string& argument, CallSite site) {
  const std::string needed =
      argument + ", for " + std::to_string(count) + " or more along axis " + std::to_string(axis);
  std::vector<int64_t> end(x.shape().rank(), kToEnd);
  end[axis] = count;
  // A slice of the first `count` elements is shorter than that only where x is.
  const Value first = slice(x, {}, end, {}, site);
  const Value wanted = zeros_of(x.graph(), {boolean, Shape{count}}, site);
  const Value checked =
      same_dims(first, wanted, {{static_cast<int64_t>(axis)}, {0}, caller, needed}, site);
  // x would not depend on the check, which nobody would make then, without this one of no sizes.
  return same_dims(x, checked, {{}, {}, caller, argument}, site);
}

}  // namespace keel
