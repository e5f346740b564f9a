#include "keel/backends/npu/scheduler/bytes_once.h"

#include <algorithm>
#include <unordered_set>

#include "keel/backends/npu/cost/work.h"
#include "keel/core/base/checked.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/table_attributes.h"

namespace keel::npu {

int64_t bytes_of_distinct_operands(const Node& node) {
  int64_t bytes = 0;
  // Most nodes have few inputs, and a look at those before is quicker than a table of them.
  constexpr size_t kFewInputs = 16;
  const NodeList<Value>& inputs = node.inputs();
  std::unordered_set<Value, ValueHash> seen;
  for (auto v = inputs.begin(); v != inputs.end(); ++v) {
    const bool first = inputs.size() <= kFewInputs ? std::find(inputs.begin(), v, *v) == v
                                                   : seen.insert(*v).second;
    if (first) bytes = checked_add(bytes, bytes_of(v->type()));
  }
  if (same_struct(node.attributes().schema(), &attributes_schema<TableAttributes>())) {
    const auto& table = node.as<TableAttributes>();
    bytes = checked_add(bytes, static_cast<int64_t>(table.keys.num_bytes()));
    bytes = checked_add(bytes, static_cast<int64_t>(table.values.num_bytes()));
  }
  return bytes;
}

void count_once(const Preset& preset, const VectorWork& work, int64_t bytes_in, TaskPrice& price) {
  if (price.bytes_in <= bytes_in) return;
  const auto all = static_cast<double>(std::max<int64_t>(1, work.bytes_in));
  const double cold = 1 - std::min(1.0, static_cast<double>(work.cached_bytes) / all);
  const auto again = static_cast<double>(price.bytes_in - bytes_in);
  price.bytes_in = bytes_in;
  price.memory_roof_ns = std::max<int64_t>(
      0, price.memory_roof_ns - static_cast<int64_t>(again * cold / preset.hbm_gb_per_s));
}

}  // namespace keel::npu
