#include "keel/ops/conformance/winograd_scale.h"

#include <array>
#include <cmath>
#include <utility>

namespace keel::conformance {
namespace {

using Matrix = std::vector<std::vector<double>>;

Matrix transposed(const Matrix& m) {
  Matrix result(m[0].size(), std::vector<double>(m.size()));
  for (size_t i = 0; i < m.size(); ++i) {
    for (size_t j = 0; j < m[0].size(); ++j) result[j][i] = m[i][j];
  }
  return result;
}

template <size_t kRows, size_t kColumns>
Matrix magnitudes(const double (&values)[kRows][kColumns]) {
  Matrix result(kRows, std::vector<double>(kColumns));
  for (size_t i = 0; i < kRows; ++i) {
    for (size_t j = 0; j < kColumns; ++j) result[i][j] = std::fabs(values[i][j]);
  }
  return result;
}

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix result(a.size(), std::vector<double>(b[0].size(), 0));
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t k = 0; k < b.size(); ++k) {
      for (size_t j = 0; j < b[0].size(); ++j) result[i][j] += a[i][k] * b[k][j];
    }
  }
  return result;
}

// Holds the magnitudes of the matrices of an axis.
struct AxisMatrices {
  Matrix input, weights, output;
};

template <size_t kOutputs, size_t kTaps>
AxisMatrices magnitudes(const WinogradMatrices<kOutputs, kTaps>& m) {
  return {magnitudes(m.input), magnitudes(m.weights), magnitudes(m.output)};
}

// Returns those of the axis down, then those of the one across.
std::array<AxisMatrices, 2> magnitudes_of(const WinogradForm& form) {
  return with_winograd_matrices(form.outputs, form.taps, [](const auto& down, const auto& across) {
    return std::array{magnitudes(down), magnitudes(across)};
  });
}

class Tiles {
 public:
  Tiles(const WinogradForm& form, const std::vector<Tensor>& inputs, const ProductMatrices& p)
      : form_(form),
        left_(inputs[p.a.input]),
        right_(inputs[p.b.input]),
        axes_(magnitudes_of(form)) {
    const auto& axes = form.windows.axes;
    const int64_t rows = form.sums_windows ? form.taps * form.taps * form.channels
                                           : form.images * axes[0].windows * axes[1].windows;
    result_.assign(static_cast<size_t>(rows * form.columns), 0);
  }

  std::vector<double> results() {
    const auto kernels = each_kernel();
    for_each_tile([&](int64_t image, int64_t y, int64_t x) {
      std::vector<Matrix> points;
      for (int64_t c = 0; c < form_.channels; ++c)
        points.push_back(both_ways(&AxisMatrices::input, image_patch(image, y, x, c)));
      for (int64_t n = 0; n < form_.columns; ++n) {
        Matrix sum = no_points();
        for (size_t c = 0; c < points.size(); ++c)
          add_product(sum, points[c],
                      kernels[c * static_cast<size_t>(form_.columns) + static_cast<size_t>(n)]);
        const Matrix out = both_ways(&AxisMatrices::output, sum);
        for_pixels(image, y, x, [&](size_t i, size_t j, int64_t pixel) {
          result_[static_cast<size_t>(pixel * form_.columns + n)] = out[i][j];
        });
      }
    });
    return std::move(result_);
  }

  // Each part adds to the scale what it adds to the sum.
  std::vector<double> gradient() {
    const auto channels = static_cast<size_t>(form_.channels);
    const auto columns = static_cast<size_t>(form_.columns);
    std::vector<Matrix> sums(channels * columns, no_points());
    for_each_tile([&](int64_t image, int64_t y, int64_t x) {
      std::vector<Matrix> upstream;
      for (int64_t n = 0; n < form_.columns; ++n)
        upstream.push_back(both_ways_back(&AxisMatrices::output, upstream_patch(image, y, x, n)));
      for (size_t c = 0; c < channels; ++c) {
        const Matrix points =
            both_ways(&AxisMatrices::input, image_patch(image, y, x, static_cast<int64_t>(c)));
        for (size_t n = 0; n < columns; ++n)
          add_product(sums[c * columns + n], points, upstream[n]);
      }
    });
    for (size_t at = 0; at < sums.size(); ++at) {
      const Matrix taps = both_ways_back(&AxisMatrices::weights, sums[at]);
      for (size_t i = 0; i < taps.size(); ++i) {
        for (size_t j = 0; j < taps.size(); ++j)
          result_[(i * taps.size() + j) * sums.size() + at] = taps[i][j];
      }
    }
    return std::move(result_);
  }

 private:
  // Return m x m^T and m^T x m, where the left m is that of the axis down.
  Matrix both_ways(Matrix AxisMatrices::*m, const Matrix& x) const {
    return product(product(down_.*m, x), transposed(across_.*m));
  }
  Matrix both_ways_back(Matrix AxisMatrices::*m, const Matrix& x) const {
    return product(product(transposed(down_.*m), x), across_.*m);
  }

  Matrix no_points() const {
    return Matrix(down_.input.size(), std::vector<double>(across_.input.size(), 0));
  }
  static void add_product(Matrix& sum, const Matrix& a, const Matrix& b) {
    for (size_t i = 0; i < sum.size(); ++i) {
      for (size_t j = 0; j < sum[i].size(); ++j) sum[i][j] += a[i][j] * b[i][j];
    }
  }

  template <class F>
  void for_each_tile(const F& f) const {
    for (int64_t image = 0; image < form_.parts * form_.images; ++image) {
      for (int64_t y = 0; y < form_.tiles[0]; ++y) {
        for (int64_t x = 0; x < form_.tiles[1]; ++x)
          f(image, y * form_.outputs[0], x * form_.outputs[1]);
      }
    }
  }
  // The windows of a tile that are there, as places in the tile and pixels.
  template <class F>
  void for_pixels(int64_t image, int64_t y, int64_t x, const F& f) const {
    const auto& [down, across] = form_.windows.axes;
    for (int64_t i = 0; i < form_.outputs[0] && y + i < down.windows; ++i) {
      for (int64_t j = 0; j < form_.outputs[1] && x + j < across.windows; ++j) {
        f(static_cast<size_t>(i), static_cast<size_t>(j),
          (image * down.windows + y + i) * across.windows + x + j);
      }
    }
  }

  Matrix image_patch(int64_t image, int64_t y, int64_t x, int64_t channel) const {
    const auto& [down, across] = form_.windows.axes;
    Matrix patch = no_points();
    for (size_t i = 0; i < patch.size(); ++i) {
      for (size_t j = 0; j < patch[i].size(); ++j) {
        const int64_t row = down.position(y, 0) + static_cast<int64_t>(i);
        const int64_t column = across.position(x, 0) + static_cast<int64_t>(j);
        if (!down.inside(row) || !across.inside(column)) continue;
        patch[i][j] = std::fabs(left_.at(image * form_.windows.image_pitch + row * down.pitch +
                                         column * across.pitch + channel));
      }
    }
    return patch;
  }
  Matrix upstream_patch(int64_t image, int64_t y, int64_t x, int64_t column) const {
    Matrix patch(down_.output.size(), std::vector<double>(across_.output.size(), 0));
    for_pixels(image, y, x, [&](size_t i, size_t j, int64_t pixel) {
      patch[i][j] = std::fabs(right_.at(pixel * form_.columns + column));
    });
    return patch;
  }
  std::vector<Matrix> each_kernel() const {
    std::vector<Matrix> kernels;
    const auto taps = static_cast<size_t>(form_.taps);
    const WinogradForm::Weights& w = form_.weights;
    for (int64_t c = 0; c < form_.channels; ++c) {
      for (int64_t n = 0; n < form_.columns; ++n) {
        Matrix kernel(taps, std::vector<double>(taps));
        for (size_t i = 0; i < taps; ++i) {
          for (size_t j = 0; j < taps; ++j) {
            kernel[i][j] = std::fabs(right_.at(w.start + static_cast<int64_t>(i) * w.row +
                                               static_cast<int64_t>(j) * w.column + c * w.depth +
                                               n * w.across));
          }
        }
        kernels.push_back(both_ways(&AxisMatrices::weights, kernel));
      }
    }
    return kernels;
  }

  const WinogradForm& form_;
  const Tensor &left_, &right_;
  std::array<AxisMatrices, 2> axes_;
  const AxisMatrices &down_ = axes_[0], &across_ = axes_[1];
  std::vector<double> result_;
};

}  // namespace

std::vector<double> winograd_scale(const ProductMatrices& matrices, const WinogradForm& form,
                                   const std::vector<Tensor>& inputs) {
  Tiles tiles(form, inputs, matrices);
  return form.sums_windows ? tiles.gradient() : tiles.results();
}

double winograd_roundings(const WinogradForm& form) {
  const int64_t tiles = form.lines() * form.tiles[1];
  const int64_t terms = form.sums_windows ? tiles + form.parts : form.channels;
  return static_cast<double>(terms + 3 * (form.points(0) + form.points(1)));
}

}  // namespace keel::conformance
