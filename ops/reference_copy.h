// The one loop under the references of ops that move elements: a strided copy. A plain function;
// any thread.
#ifndef KEEL_OPS_REFERENCE_COPY_H
#define KEEL_OPS_REFERENCE_COPY_H

#include <cstdint>

#include "keel/ops/reference_loops.h"

namespace keel {

// Says where the elements of a walk lie in a tensor.
struct Placement {
  Strides strides{};
  int64_t start = 0;
};

// Copies one element for each index of `walked`. REQUIRES equal dtypes and placements inside the
// tensors.
inline void copy_elements(const Shape& walked, const Tensor& from, const Placement& read,
                          Tensor& to, const Placement& write) {
  visit_dtype(from.dtype(), [&]<class T>() {
    const auto source = from.data<T>();
    const auto target = to.data<T>();
    for_each_strided(walked, std::array<Strides, 2>{read.strides, write.strides},
                     [&](const std::array<int64_t, 2>& offsets) {
                       target[static_cast<size_t>(write.start + offsets[1])] =
                           source[static_cast<size_t>(read.start + offsets[0])];
                     });
  });
}

}  // namespace keel

#endif  // KEEL_OPS_REFERENCE_COPY_H
