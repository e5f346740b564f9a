// Checks the number that a norm adds to a variance before it takes the root. Internal to ops.
#ifndef KEEL_OPS_NORM_EPSILON_H
#define KEEL_OPS_NORM_EPSILON_H

#include <cmath>
#include <string>

#include "keel/core/tensor/tensor.h"

namespace keel {

// Returns what is expected of an epsilon where this one cannot be added; nothing where it can. The
// norms of `dtype` are computed in f64 for f64, else in f32, which holds no 1e39.
inline std::string expected_of_epsilon(double epsilon, DType dtype) {
  const DType wide = dtype == f64 ? f64 : f32;
  if (!(epsilon >= 0 && std::isfinite(epsilon))) return "a finite number >= 0";
  if (std::isfinite(Tensor::full(wide, {}, epsilon).at(0))) return "";
  return std::string("a number that fits ") + name_of(wide);
}

}  // namespace keel

#endif  // KEEL_OPS_NORM_EPSILON_H
