#include "keel/graph/ir/views.h"

#include "keel/graph/ir/graph.h"

namespace keel {

Value root_of(Value v) {
  while (v.node().has(kView)) v = v.node().input(0);
  return v;
}

}  // namespace keel
