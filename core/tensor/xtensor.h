// The bridge to xtensor, the only header of Keel that includes it: view<T>(tensor) is an xtensor
// expression over the tensor's own memory, from_xtensor(expression) a new tensor. For user code and
// tests; the library itself does not use it. A view must not outlive its tensor's memory.
#ifndef KEEL_CORE_TENSOR_XTENSOR_H
#define KEEL_CORE_TENSOR_XTENSOR_H

#include <cstddef>
#include <type_traits>
#include <vector>

#include <xtensor/xadapt.hpp>
#include <xtensor/xarray.hpp>

#include "keel/core/tensor/tensor.h"

namespace keel {

// Throws Error where T is not the tensor's dtype.
template <class T>
auto view(Tensor& tensor) {
  const auto elements = tensor.data<T>();
  const std::vector<size_t> shape(tensor.shape().begin(), tensor.shape().end());
  return xt::adapt(elements.data(), elements.size(), xt::no_ownership(), shape);
}

template <class T>
auto view(const Tensor& tensor) {
  const auto elements = tensor.data<T>();
  const std::vector<size_t> shape(tensor.shape().begin(), tensor.shape().end());
  return xt::adapt(elements.data(), elements.size(), xt::no_ownership(), shape);
}

// Evaluates the expression into a tensor of its element type, which must be one of Keel's.
template <class E>
Tensor from_xtensor(const xt::xexpression<E>& expression) {
  using T = std::remove_cv_t<typename E::value_type>;
  const E& source = expression.derived_cast();
  std::vector<int64_t> dims;
  for (const auto dim : source.shape()) dims.push_back(static_cast<int64_t>(dim));
  Tensor tensor(dtype_of<T>, Shape(dims));
  if (tensor.num_elements() != 0) view<T>(tensor) = source;
  return tensor;
}

}  // namespace keel

#endif  // KEEL_CORE_TENSOR_XTENSOR_H
