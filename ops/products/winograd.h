// Convolutions of stride 1 by transformed tiles: which products may be computed so, the tiles that
// they are computed in, and the matrices of the transforms. Backends that compute a product so keep
// to these rules, and the bound of its results follows from them. Pure functions; any thread.
//
// A tile has 2 x 2 results, or with 3 taps 4 x 4 and with 5 taps 2 x 4, down and across. It needs
// one multiplication for each of its points and channels, where the sum over taps needs one for
// each result and tap: with 3 taps 16 instead of 36 or 36 instead of 144, with 5 taps 36 instead of
// 100 or 48 instead of 200. With the matrices below, those of the axis down on the left and those
// of the axis across on the right, d the part of the image under the tile and g a kernel, the tile
// is output (weights g weights^T . input d input^T) output^T, where "." multiplies element by
// element, and the sum over channels is taken before the last transform. The gradient of a kernel
// is the transposed form, weights^T (input d input^T . output^T dy output) weights, the sum over
// tiles taken before the last transform.
// Source: Cook-Toom interpolation, as Lavin and Gray apply it ("Fast Algorithms for Convolutional
// Neural Networks", 2015).
//
// Errors grow with the points of an axis. That is why tiles of 5 taps, which need 6 points for 2
// results and 8 for 4, are not 4 x 4.
//
// Such a product loses something: a result is a difference of sums that reach over all of its
// tile, so its error is relative to the tile, not to its own terms, and a number that is not finite
// makes the tile's other results so, too: in the gradient of a kernel, all of its taps. But the
// gradient of a weight whose terms are all 0 is 0, and backends see to that: optimizers that divide
// by the size of a gradient make whole steps of one that is only nearly 0.
#ifndef KEEL_OPS_PRODUCTS_WINOGRAD_H
#define KEEL_OPS_PRODUCTS_WINOGRAD_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "keel/core/base/dtype.h"
#include "keel/core/base/error.h"
#include "keel/ops/products/product_matrices.h"

namespace keel {

// The transforms between taps, results and points, for one axis.
template <size_t kOutputs, size_t kTaps>
struct WinogradMatrices {
  static constexpr size_t kPoints = kOutputs + kTaps - 1;
  double input[kPoints][kPoints] = {};
  double weights[kPoints][kTaps] = {};
  double output[kOutputs][kPoints] = {};

  // Polynomials are multiplied by their values at these kPoints - 1 points and at infinity. Of
  // the points tried these left the smallest errors.
  static constexpr std::array<double, kPoints - 1> finite_points() {
    static_assert(kPoints == 4 || kPoints == 6 || kPoints == 8);
    if constexpr (kPoints == 4) return {0, 1, -1};
    if constexpr (kPoints == 6) return {0, 0.6875, -0.6875, 1.5, -1.5};
    if constexpr (kPoints == 8) return {0, 1, -1, 0.5, -2, 2, -0.5};
  }

  constexpr WinogradMatrices() {
    constexpr auto kAll = finite_points();
    for (size_t j = 0; j + 1 < kPoints; ++j) {
      double divisor = 1;
      input[j][0] = 1;
      for (size_t k = 0, degree = 0; k + 1 < kPoints; ++k) {
        if (k == j) continue;
        divisor *= kAll[j] - kAll[k];
        times_root(input[j], ++degree, kAll[k]);
      }
      const double sign = divisor < 0 ? -1 : 1;
      for (double& coefficient : input[j]) coefficient *= sign;
      double power = 1;
      for (size_t k = 0; k < kPoints; ++k, power *= kAll[j]) {
        if (k < kTaps) weights[j][k] = power / (divisor * sign);
        if (k < kOutputs) output[k][j] = power;
      }
    }
    input[kPoints - 1][0] = 1;
    for (size_t k = 0; k + 1 < kPoints; ++k) times_root(input[kPoints - 1], k + 1, kAll[k]);
    weights[kPoints - 1][kTaps - 1] = 1;
    output[kOutputs - 1][kPoints - 1] = 1;
  }

 private:
  // Multiplies a polynomial by (x - root), which makes it one of `degree`.
  static constexpr void times_root(double* coefficients, size_t degree, double root) {
    for (size_t i = degree + 1; i-- > 0;)
      coefficients[i] = (i == 0 ? 0 : coefficients[i - 1]) - root * coefficients[i];
  }
};

// Calls f with the matrices of both axes, down and across, of a tile of `outputs` results and
// `taps` taps; throws Error where there is no such tile.
template <class F>
auto with_winograd_matrices(const std::array<int64_t, 2>& outputs, int64_t taps, const F& f) {
  const auto& [down, across] = outputs;
  if (down == 2 && across == 2 && taps == 3)
    return f(WinogradMatrices<2, 3>(), WinogradMatrices<2, 3>());
  if (down == 4 && across == 4 && taps == 3)
    return f(WinogradMatrices<4, 3>(), WinogradMatrices<4, 3>());
  if (down == 2 && across == 2 && taps == 5)
    return f(WinogradMatrices<2, 5>(), WinogradMatrices<2, 5>());
  if (down == 2 && across == 4 && taps == 5)
    return f(WinogradMatrices<2, 5>(), WinogradMatrices<4, 5>());
  throw Error({.op = "winograd",
               .argument = "tile",
               .expected = "2 x 2 or 4 x 4 results of 3 taps, or 2 x 2 or 2 x 4 of 5",
               .got = std::to_string(down) + " x " + std::to_string(across) + " results of " +
                      std::to_string(taps) + " taps",
               .fix = "take the tile from winograd_form"});
}

// A product as it is computed by tiles: the results of a convolution, or the gradient of its images
// or of its weights. Images, and C's rows where windows are not summed, are as ProductMatrices has
// them; tiles begin at window 0 and count windows.
struct WinogradForm {
  // Where the kernels' elements are, from the first: along taps, channels summed, columns of C.
  struct Weights {
    int64_t start = 0, row = 0, column = 0, depth = 0, across = 0;
  };

  std::array<int64_t, 2> outputs = {2, 2};  // of a tile: down, across
  int64_t taps = 3;                         // along each axis
  bool sums_windows = false;                // the gradient of the weights
  int64_t parts = 1;               // of the images: the sums of each are computed by themselves
  int64_t images = 0;              // of a part
  int64_t channels = 0;            // of the images
  int64_t columns = 0;             // of C, and of dy where windows are summed
  std::array<int64_t, 2> tiles{};  // of an image: down, across
  WindowRows windows;              // over the images
  Weights weights;                 // where windows are not summed

  // The points of a tile along an axis, and all of them.
  int64_t points(size_t axis) const { return outputs[axis] + taps - 1; }
  int64_t points() const { return points(0) * points(1); }
  int64_t lines() const { return images * tiles[0]; }  // of tiles, of a part
};

// Returns the form of a product that is worth computing so, in f32, which operands of 16 bits are
// widened to; nothing for others, for other dtypes, and where the op asks for the sum of terms.
// Follows from the op and its shapes alone, never from what is fused to it, and for a product with
// parts from the shapes of one part.
KEEL_API std::optional<WinogradForm> winograd_form(const ProductMatrices& matrices, DType dtype);

}  // namespace keel

#endif  // KEEL_OPS_PRODUCTS_WINOGRAD_H
