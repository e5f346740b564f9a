// Dimensions that follow the size of the batch, without symbols in the graph: a model is
// specialised for three sizes of the batch, and what differs between the three graphs is found
// again as a multiple of it plus a constant. Plain values and pure functions.
#ifndef KEEL_OPS_EXCHANGE_ONNX_EXPORT_DIMENSIONS_H
#define KEEL_OPS_EXCHANGE_ONNX_EXPORT_DIMENSIONS_H

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "keel/core/base/shape.h"

namespace keel::onnx {

// per_batch * batch + size.
struct ExportDimension {
  int64_t size = 0;
  int64_t per_batch = 0;

  bool fixed() const noexcept { return per_batch == 0; }
  int64_t at(int64_t batch) const noexcept { return per_batch * batch + size; }
  bool operator==(const ExportDimension&) const = default;
};
using ExportDimensions = std::vector<ExportDimension>;

// Sizes that no dimension of a model is likely to have by itself, one of them even, and with
// differences that tell a fraction from a whole multiple. No number above 1 leaves the same rest of
// all of them, so that what depends on such a rest differs between them.
inline constexpr std::array<int64_t, 3> kProbedBatches = {1009, 1012, 1031};

// Finds the dimension that has these values, one for each of kProbedBatches, or one alone for a
// model without a variable batch. Nothing where there is none.
std::optional<ExportDimension> dimension_of(const std::vector<int64_t>& values);

ExportDimensions fixed_dimensions(const Shape& shape);

}  // namespace keel::onnx

#endif  // KEEL_OPS_EXCHANGE_ONNX_EXPORT_DIMENSIONS_H
