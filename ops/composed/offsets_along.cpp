#include "keel/ops/composed/offsets_along.h"

#include <numeric>
#include <vector>

#include "keel/graph/ir/graph.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/gather.h"
#include "keel/ops/shape.h"

namespace keel {

Value offsets_along(const Value& indices, size_t axis, int64_t size, int64_t stride,
                    CallSite site) {
  // The table lies along that axis, since gather names it, where there are axes enough.
  const size_t leading = axis + indices.shape(site).rank() <= Shape::kMaxRank ? axis : 0;
  std::vector<int64_t> axes(leading);
  std::iota(axes.begin(), axes.end(), 0);
  Shape table;
  for (size_t i = 0; i < leading; ++i) table.push_back(1);
  table.push_back(size);
  const auto along = static_cast<int64_t>(leading);
  Value places = iota(indices.graph(site), i64, table, along, site);
  if (stride != 1) places = mul(places, stride, site);
  const Value found = gather(places, Operand(indices, site), along, site);
  return leading == 0 ? found : squeeze(found, axes, site);
}

}  // namespace keel
