#include "keel/graph/ir/initializer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "keel/core/base/error.h"
#include "keel/core/base/printable.h"
#include "keel/core/base/random.h"
#include "keel/core/tensor/convert.h"
#include "keel/graph/ir/random_range.h"

namespace keel {
namespace {

// Draws `draw(out, count, first_index)` in pieces, and writes a + b * draw to the result.
template <class Draw>
void fill_scaled(Tensor& result, double a, double b, Draw draw) {
  visit_dtype(result.dtype(), [&]<class T>() {
    constexpr size_t kPiece = 4096;
    std::array<float, kPiece> draws;
    const auto elements = result.data<T>();
    for (size_t done = 0; done < elements.size(); done += kPiece) {
      const size_t count = std::min(kPiece, elements.size() - done);
      draw(draws.data(), count, done);
      for (size_t i = 0; i < count; ++i) {
        const double x = draws[i];
        elements[done + i] = convert_element<T>(a + b * x);
      }
    }
  });
}

// Normal numbers of at most two deviations. Those beyond are drawn again from keys of their own,
// one for each attempt, so that an element depends on the key and its index alone.
void fill_truncated(float* out, size_t count, uint64_t key, uint64_t first) {
  constexpr float kMost = 2;
  fill_normal(out, count, key, first);
  for (size_t i = 0; i < count; ++i) {
    for (uint64_t attempt = 1; std::abs(out[i]) > kMost; ++attempt)
      out[i] = static_cast<float>(normal(fold_key(key, attempt), first + i));
  }
}

double dot(const double* a, const double* b, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// Rows of length `n` made orthonormal one after the other (modified Gram-Schmidt, twice, so that
// rounding leaves nothing of the others in them). Their directions are then uniformly distributed
// if those of the rows are.
void make_orthonormal(std::vector<double>& rows, size_t count, size_t n) {
  for (size_t i = 0; i < count; ++i) {
    double* const row = rows.data() + i * n;
    for (int pass = 0; pass < 2; ++pass) {
      for (size_t j = 0; j < i; ++j) {
        const double* const other = rows.data() + j * n;
        const double share = dot(row, other, n);
        for (size_t k = 0; k < n; ++k) row[k] -= share * other[k];
      }
    }
    const double norm = std::sqrt(dot(row, row, n));
    for (size_t k = 0; k < n; ++k) row[k] /= norm;
  }
}

// As a matrix whose columns are the last axis: orthonormal columns, or rows where these are fewer.
void fill_orthogonal(Tensor& result, double gain, uint64_t key) {
  const auto elements = static_cast<size_t>(result.num_elements());
  if (elements == 0) return;
  const auto columns =
      result.shape().rank() == 0 ? size_t{1} : static_cast<size_t>(result.shape().back());
  const size_t rows = elements / columns;
  const size_t vectors = std::min(rows, columns), length = std::max(rows, columns);
  std::vector<double> basis(elements);
  for (size_t i = 0; i < elements; ++i) basis[i] = normal(key, i);
  make_orthonormal(basis, vectors, length);
  visit_dtype(result.dtype(), [&]<class T>() {
    const auto out = result.data<T>();
    for (size_t r = 0; r < rows; ++r) {
      for (size_t c = 0; c < columns; ++c) {
        const size_t at = columns <= rows ? c * length + r : r * length + c;
        out[r * columns + c] = convert_element<T>(gain * basis[at]);
      }
    }
  });
}

// Says whether elements of that dtype have the number, but for the rounding of a fraction to a
// float's digits: what a literal beside a value of the dtype is asked, too.
bool fits(DType dtype, double number) {
  return visit_dtype(dtype, [&]<class T>() {
    const auto element = convert_element<double>(convert_element<T>(number));
    if (is_float(dtype)) return std::isfinite(element) || !std::isfinite(number);
    if constexpr (std::is_integral_v<T>) {
      // Saturation gives the largest i64, and a double of it is the power of two above.
      if (number >= std::ldexp(1.0, std::numeric_limits<T>::digits)) return false;
    }
    return element == number;
  });
}

void require_fits(const std::string& kind, const char* argument, DType dtype, double number) {
  if (fits(dtype, number)) return;
  const bool fraction = !is_float(dtype) && std::isfinite(number) && number != std::floor(number);
  throw Error({.op = kind,
               .argument = argument,
               .expected = std::string("a number that fits ") + name_of(dtype),
               .got = printable(number),
               .fix = fraction ? "give a whole number, or a float dtype" : "give a wider dtype"});
}

}  // namespace

void require_initializer(const std::string& kind, DType dtype, double a, double b) {
  if (kind == "value") return;
  if (kind == "constant") return require_fits(kind, "value", dtype, a);
  if (kind != "normal" && kind != "uniform" && kind != "trunc_normal" && kind != "orthogonal") {
    throw Error({.op = "initializer",
                 .argument = "kind",
                 .expected = "constant, normal, trunc_normal, uniform, orthogonal or value",
                 .got = "'" + kind + "'"});
  }
  if (!is_float(dtype)) {
    throw Error({.op = "initializer",
                 .argument = "dtype",
                 .expected = "a float dtype for " + kind,
                 .got = name_of(dtype)});
  }
  if (kind == "orthogonal") {
    if (std::isfinite(a)) return require_fits(kind, "gain", dtype, a);
    throw Error(
        {.op = kind, .argument = "gain", .expected = "a finite number", .got = printable(a)});
  }
  require_random_range(kind, kind, a, b);
  const bool range = kind == "uniform";
  require_fits(kind, range ? "low" : "mean", dtype, a);
  require_fits(kind, range ? "high" : "deviation", dtype, b);
}

Tensor initial_value(const Initializer& init, uint64_t key) {
  require_initializer(init.kind, init.type.dtype, init.a, init.b);
  if (init.kind == "value") return init.value.clone();
  if (init.kind == "constant") return Tensor::full(init.type.dtype, init.type.shape, init.a);
  Tensor result(init.type.dtype, init.type.shape);
  if (init.kind == "orthogonal") {
    fill_orthogonal(result, init.a, key);
  } else if (init.kind == "uniform") {
    fill_scaled(result, init.a, init.b - init.a, [&](float* out, size_t count, size_t first) {
      fill_uniform(out, count, key, first);
    });
  } else if (init.kind == "normal") {
    fill_scaled(result, init.a, init.b, [&](float* out, size_t count, size_t first) {
      fill_normal(out, count, key, first);
    });
  } else {
    fill_scaled(result, init.a, init.b, [&](float* out, size_t count, size_t first) {
      fill_truncated(out, count, key, first);
    });
  }
  return result;
}

}  // namespace keel
