// Initializer: how a state gets its first value. Stored in the graph (so that
// graphs print and parse), evaluated by the Session with a key folded from its
// seed and the state's name, so it is the same on every backend. A plain value.
#ifndef KEEL_GRAPH_IR_INITIALIZER_H
#define KEEL_GRAPH_IR_INITIALIZER_H

#include <cstdint>
#include <string>

#include "keel/core/base/export.h"
#include "keel/core/tensor/tensor.h"

namespace keel {

struct Initializer {
  std::string kind = "constant";  // "constant" (a), "value", "uniform" [a, b), "orthogonal" (gain
                                  // a), "normal" and "trunc_normal" (mean a, deviation b)
  Type type;
  double a = 0;
  double b = 0;
  Tensor value;  // for "value"
};

// Throws Error for an unknown kind, and for a random one of a dtype that is no float or with
// numbers that describe no distribution: what is not finite, low > high, a deviation < 0.
KEEL_API void require_initializer(const std::string& kind, DType dtype, double a, double b);

// Returns the tensor it describes; `key` seeds the random kinds. Throws Error as
// require_initializer does.
KEEL_API Tensor initial_value(const Initializer& initializer, uint64_t key);

}  // namespace keel

#endif  // KEEL_GRAPH_IR_INITIALIZER_H
