// Rules of elements share this: operands that TensorFlow takes in one shape alone, which Keel's own
// ops would broadcast to another one. Internal to the import; one thread.
#ifndef KEEL_OPS_EXCHANGE_GRAPHDEF_ONE_SHAPE_H
#define KEEL_OPS_EXCHANGE_GRAPHDEF_ONE_SHAPE_H

#include <string>

#include "keel/ops/exchange/onnx/import_rules.h"

namespace keel::graphdef {

// Refuses an operand of another shape than the one at `first`, from there on.
inline void require_one_shape(onnx::NodeContext& c, size_t first = 0) {
  for (size_t i = first + 1; i < c.inputs(); ++i) {
    const std::string what = "its operand " + std::to_string(i) + " is";
    c.require_shape(c.in(i), c.in(first).shape({}), what.c_str());
  }
}

}  // namespace keel::graphdef

#endif  // KEEL_OPS_EXCHANGE_GRAPHDEF_ONE_SHAPE_H
