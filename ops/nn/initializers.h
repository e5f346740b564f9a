// Initializers: how states get their first values. Glorot and He take the fan from the shape: the
// last axis counts the outputs, the one before it the inputs, and axes in front (a convolution's
// window) multiply both; a vector counts as both. Plain values, evaluated by the Session; random
// ones are keyed by its seed and the state's name.
#ifndef KEEL_OPS_NN_INITIALIZERS_H
#define KEEL_OPS_NN_INITIALIZERS_H

#include <functional>

#include "keel/core/base/export.h"
#include "keel/graph/ir/initializer.h"

namespace keel {

// Layers take such a function: it makes the initializer for a state of that shape and dtype. They
// throw Error for one of another shape or dtype.
using InitializerFunction = std::function<Initializer(const Shape&, DType)>;

KEEL_API Initializer zeros(const Shape& shape, DType dtype = f32);
KEEL_API Initializer ones(const Shape& shape, DType dtype = f32);
KEEL_API Initializer constant(const Shape& shape, double value, DType dtype = f32);
// Returns a copy of `value`.
KEEL_API Initializer from_tensor(const Tensor& value, CallSite site = CallSite::here());

// Random ones: float dtypes only; numbers that describe no distribution are refused where a state
// is made. uniform draws from [low, high), and rounding to the dtype may give `high` itself;
// trunc_normal draws anew what is more than two deviations from the mean.
KEEL_API Initializer normal(const Shape& shape, double mean, double deviation, DType dtype = f32);
KEEL_API Initializer uniform(const Shape& shape, double low, double high, DType dtype = f32);
KEEL_API Initializer trunc_normal(const Shape& shape, double mean, double deviation,
                                  DType dtype = f32);
// Saxe et al., "Exact solutions to the nonlinear dynamics of learning" (2013): `gain` times a
// matrix with orthonormal columns, or rows where these are fewer. Columns are the last axis, rows
// all axes in front of it. Takes rows * columns * min(rows, columns) multiplications on the host.
KEEL_API Initializer orthogonal(const Shape& shape, double gain = 1, DType dtype = f32);
// Uniform in +-sqrt(6 / (fan_in + fan_out)); normal with deviation sqrt(2 / (fan_in + fan_out)).
KEEL_API Initializer glorot_uniform(const Shape& shape, DType dtype = f32);
KEEL_API Initializer glorot_normal(const Shape& shape, DType dtype = f32);
// Uniform in +-sqrt(6 / fan_in); normal with deviation sqrt(2 / fan_in).
KEEL_API Initializer he_uniform(const Shape& shape, DType dtype = f32);
KEEL_API Initializer he_normal(const Shape& shape, DType dtype = f32);
// The same four under their authors' first names.
inline Initializer xavier_uniform(const Shape& shape, DType dtype = f32) {
  return glorot_uniform(shape, dtype);
}
inline Initializer xavier_normal(const Shape& shape, DType dtype = f32) {
  return glorot_normal(shape, dtype);
}
inline Initializer kaiming_uniform(const Shape& shape, DType dtype = f32) {
  return he_uniform(shape, dtype);
}
inline Initializer kaiming_normal(const Shape& shape, DType dtype = f32) {
  return he_normal(shape, dtype);
}

}  // namespace keel

#endif  // KEEL_OPS_NN_INITIALIZERS_H
