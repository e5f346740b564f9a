#include "keel/core/tensor/finite.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "keel/core/tensor/convert.h"

namespace keel {
namespace {

bool is_finite(double value) { return std::isfinite(value); }
bool is_finite(float value) { return std::isfinite(value); }
bool is_finite(Half value) { return std::isfinite(static_cast<float>(value)); }
bool is_finite(BFloat16 value) { return std::isfinite(static_cast<float>(value)); }

}  // namespace

std::optional<int64_t> first_non_finite(const Tensor& tensor) {
  if (tensor.empty()) return std::nullopt;
  return visit_dtype(tensor.dtype(), [&]<class T>() -> std::optional<int64_t> {
    if constexpr (std::is_floating_point_v<T> || is_half_type<T>) {
      const std::span<const T> values = tensor.data<T>();
      const auto found =
          std::find_if(values.begin(), values.end(), [](T value) { return !is_finite(value); });
      if (found != values.end()) return found - values.begin();
    }
    return std::nullopt;
  });
}

}  // namespace keel
