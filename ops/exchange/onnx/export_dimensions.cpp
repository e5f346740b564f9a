#include "keel/ops/exchange/onnx/export_dimensions.h"

#include <cstddef>

namespace keel::onnx {

std::optional<ExportDimension> dimension_of(const std::vector<int64_t>& values) {
  bool same = true;
  for (const int64_t value : values) same = same && value == values[0];
  if (same) return ExportDimension{.size = values.at(0)};
  const int64_t step = kProbedBatches[1] - kProbedBatches[0];
  const int64_t change = values[1] - values[0];
  if (change % step != 0) return std::nullopt;
  const ExportDimension found{.size = values[0] - change / step * kProbedBatches[0],
                              .per_batch = change / step};
  for (size_t i = 0; i < values.size(); ++i) {
    if (found.at(kProbedBatches[i]) != values[i]) return std::nullopt;
  }
  return found;
}

ExportDimensions fixed_dimensions(const Shape& shape) {
  ExportDimensions dimensions;
  for (const int64_t dim : shape) dimensions.push_back({.size = dim});
  return dimensions;
}

}  // namespace keel::onnx
