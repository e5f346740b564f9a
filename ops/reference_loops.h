// The loops under every reference function: walking a shape with a stride for each tensor, so that
// broadcasting, reductions and layouts are one mechanism. Plain functions; any thread.
#ifndef KEEL_OPS_REFERENCE_LOOPS_H
#define KEEL_OPS_REFERENCE_LOOPS_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "keel/core/base/dtype.h"
#include "keel/core/base/shape.h"
#include "keel/core/tensor/convert.h"
#include "keel/core/tensor/tensor.h"

namespace keel {

// Elements to move on for one step along each axis.
using Strides = std::array<int64_t, Shape::kMaxRank>;

// References compute in this type: double for every float, integers and bool in their own type.
template <class T>
using Computed = std::conditional_t<is_float(dtype_of<T>), double, T>;

// Strides with which a tensor of `shape` is read while walking `walked`: shapes are aligned at
// their last axes, and dimensions of 1 repeat. REQUIRES that `shape` broadcasts to `walked` without
// enlarging it.
inline Strides broadcast_strides(const Shape& shape, const Shape& walked) {
  Strides result{};
  const Strides own = shape.strides();
  const size_t lead = walked.rank() - shape.rank();
  for (size_t i = 0; i < shape.rank(); ++i) result[lead + i] = shape[i] == 1 ? 0 : own[i];
  return result;
}

// Calls body(offsets) for every element of `shape` in row-major order; offsets[i] follows
// strides[i].
template <size_t N, class Body>
void for_each_strided(const Shape& shape, const std::array<Strides, N>& strides, Body&& body) {
  if (shape.num_elements() == 0) return;
  const size_t rank = shape.rank();
  std::array<int64_t, N> offsets{};
  if (rank == 0) {
    body(offsets);
    return;
  }
  std::array<int64_t, Shape::kMaxRank> index{};
  const size_t last = rank - 1;
  while (true) {
    std::array<int64_t, N> inner = offsets;
    for (int64_t i = 0; i < shape[last]; ++i) {
      body(inner);
      for (size_t k = 0; k < N; ++k) inner[k] += strides[k][last];
    }
    size_t axis = last;
    while (axis-- > 0) {
      for (size_t k = 0; k < N; ++k) offsets[k] += strides[k][axis];
      if (++index[axis] < shape[axis]) break;
      for (size_t k = 0; k < N; ++k) offsets[k] -= strides[k][axis] * shape[axis];
      index[axis] = 0;
    }
    if (axis == static_cast<size_t>(-1)) return;
  }
}

// Calls body(i, offsets) for every element i of `shape`, where offsets[k] is the element of a
// tensor of shapes[k] that is broadcast to it.
template <size_t N, class Body>
void for_each_broadcast(const Shape& shape, const std::array<Shape, N>& shapes, Body&& body) {
  std::array<Strides, N> strides{};
  for (size_t k = 0; k < N; ++k) strides[k] = broadcast_strides(shapes[k], shape);
  int64_t i = 0;
  for_each_strided(shape, strides,
                   [&](const std::array<int64_t, N>& offsets) { body(i++, offsets); });
}

// Element `i`, as references compute with it.
template <class T>
Computed<T> load(const T* data, int64_t i) {
  return convert_element<Computed<T>>(data[i]);
}

// Rounds once to T and stores.
template <class T, class C>
void store(T* data, int64_t i, C value) {
  data[i] = convert_element<T>(value);
}

}  // namespace keel

#endif  // KEEL_OPS_REFERENCE_LOOPS_H
