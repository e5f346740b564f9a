#include "keel/ops/nn/initializers.h"

#include <algorithm>
#include <cmath>

namespace keel {
namespace {

struct Fan {
  double in = 1;
  double out = 1;
};

Fan fan_of(const Shape& shape) {
  double window = 1;
  for (size_t i = 0; i + 2 < shape.rank(); ++i) window *= static_cast<double>(shape[i]);
  Fan fan;
  if (shape.rank() > 0) fan.out = static_cast<double>(shape.back()) * window;
  fan.in = shape.rank() > 1 ? static_cast<double>(shape[shape.rank() - 2]) * window : fan.out;
  // A tensor without elements takes any deviation.
  return {std::max(fan.in, 1.0), std::max(fan.out, 1.0)};
}

Initializer symmetric(const Shape& shape, double limit, DType dtype) {
  return uniform(shape, -limit, limit, dtype);
}

}  // namespace

Initializer zeros(const Shape& shape, DType dtype) { return constant(shape, 0, dtype); }

Initializer ones(const Shape& shape, DType dtype) { return constant(shape, 1, dtype); }

Initializer constant(const Shape& shape, double value, DType dtype) {
  return {.kind = "constant", .type = {dtype, shape}, .a = value};
}

Initializer from_tensor(const Tensor& value, CallSite site) {
  if (value.empty()) {
    throw Error({.op = "from_tensor",
                 .argument = "value",
                 .expected = "a tensor",
                 .got = "an empty Tensor",
                 .fix = "give it a dtype and a shape first",
                 .site = site});
  }
  return {.kind = "value", .type = value.type(), .value = value.clone()};
}

Initializer normal(const Shape& shape, double mean, double deviation, DType dtype) {
  return {.kind = "normal", .type = {dtype, shape}, .a = mean, .b = deviation};
}

Initializer trunc_normal(const Shape& shape, double mean, double deviation, DType dtype) {
  return {.kind = "trunc_normal", .type = {dtype, shape}, .a = mean, .b = deviation};
}

Initializer orthogonal(const Shape& shape, double gain, DType dtype) {
  return {.kind = "orthogonal", .type = {dtype, shape}, .a = gain};
}

Initializer uniform(const Shape& shape, double low, double high, DType dtype) {
  return {.kind = "uniform", .type = {dtype, shape}, .a = low, .b = high};
}

Initializer glorot_uniform(const Shape& shape, DType dtype) {
  const Fan fan = fan_of(shape);
  return symmetric(shape, std::sqrt(6 / (fan.in + fan.out)), dtype);
}

Initializer glorot_normal(const Shape& shape, DType dtype) {
  const Fan fan = fan_of(shape);
  return normal(shape, 0, std::sqrt(2 / (fan.in + fan.out)), dtype);
}

Initializer he_uniform(const Shape& shape, DType dtype) {
  return symmetric(shape, std::sqrt(6 / fan_of(shape).in), dtype);
}

Initializer he_normal(const Shape& shape, DType dtype) {
  return normal(shape, 0, std::sqrt(2 / fan_of(shape).in), dtype);
}

}  // namespace keel
