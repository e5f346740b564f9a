// The transforms and products of convolutions by transformed tiles (ops/products/winograd.h), in
// lanes of channels: f32. Looked up once; calling them neither allocates nor throws; any thread.
#ifndef KEEL_BACKENDS_COMMON_VECTOR_WINOGRAD_H
#define KEEL_BACKENDS_COMMON_VECTOR_WINOGRAD_H

#include <cstddef>
#include <cstdint>

#include "keel/core/base/export.h"

namespace keel::vector {

// What becomes of a patch: elements of the image or of a kernel go to their points, points to
// results.
enum class WinogradStep : uint8_t { kInput, kWeights, kResults };

// Where the elements of square patches are, channels behind each other: column j of patch t is
// `patch` * t + `column` * j elements behind where the rows begin. It is number first + 2 * t + j
// of `size`; columns outside, and rows without an address, are read as 0 and not written.
template <class T>
struct WinogradSide {
  T* rows[6] = {};
  ptrdiff_t column = 0, patch = 0;
  int64_t first = 0, size = INT64_MAX;
};
// Neighbours along a line, the next one two columns behind the one before.
struct WinogradLine {
  WinogradSide<const float> from;
  WinogradSide<float> to;
  int64_t patches = 1;
  size_t channels = 0;
};
using WinogradInstruction = void (*)(const WinogradLine& line);
// For the host ISA in use. REQUIRES 3 or 5 taps.
KEEL_API WinogradInstruction find_winograd(WinogradStep step, int64_t taps);

// C = A B for each of `points` triples of matrices. Rows of B and C have room for whole vectors, up
// to a multiple of kProductColumns columns; what is there behind the last column does not matter.
inline constexpr size_t kProductColumns = 16;
struct PointProducts {
  size_t points = 0;
  const float* a = nullptr;
  size_t a_point = 0, a_row = 0;
  const float* b = nullptr;
  size_t b_point = 0, b_row = 0;
  float* c = nullptr;
  size_t c_point = 0, c_row = 0;
  size_t m = 0, n = 0, k = 0;
};
using PointProductsInstruction = void (*)(const PointProducts& call);
KEEL_API PointProductsInstruction find_point_products();

}  // namespace keel::vector

#endif  // KEEL_BACKENDS_COMMON_VECTOR_WINOGRAD_H
