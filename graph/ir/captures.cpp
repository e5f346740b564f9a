#include "keel/graph/ir/captures.h"

#include "keel/graph/ir/graph.h"

namespace keel {

Value origin_of(const Value& value) {
  if (!value.node().is(OpRole::kInput)) return value;
  for (const auto& [outer, inner] : value.graph().captures())
    if (inner == value) return origin_of(outer);
  return value;
}

}  // namespace keel
