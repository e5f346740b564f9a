// The transforms and products of convolutions by transformed tiles (ops/products/winograd.h), in
// lanes of channels: f32. Looked up once; calling them neither allocates nor throws; any thread.
#ifndef KEEL_BACKENDS_COMMON_VECTOR_WINOGRAD_H
#define KEEL_BACKENDS_COMMON_VECTOR_WINOGRAD_H

#include <cstddef>
#include <cstdint>

#include "keel/backends/common/prefetch.h"
#include "keel/core/base/export.h"
#include "keel/ops/products/winograd.h"

namespace keel::vector {

// What becomes of a patch: elements of the image, of a kernel or of the gradient of the results go
// to their points, points to results or to the gradient of a kernel.
enum class WinogradStep : uint8_t { kInput, kWeights, kResults, kUpstream, kGradient };

// Where the elements of patches are, channels behind each other: column j of patch t is
// `patch` * t + `column` * j elements behind where the rows begin. With r results of a tile across
// it is number first + r * t + j of `size`; columns outside, and rows without an address, are read
// as 0 and not written.
template <class T>
struct WinogradSide {
  T* rows[6] = {};
  ptrdiff_t column = 0, patch = 0;
  int64_t first = 0, size = INT64_MAX;
};
// Neighbours along a line: a patch begins as many columns behind the one before as a tile has
// results across.
struct WinogradLine {
  WinogradSide<const float> from;
  WinogradSide<float> to;
  int64_t patches = 1;
  size_t channels = 0;
};
using WinogradInstruction = void (*)(const WinogradLine& line);
// For the host ISA in use and tiles of that form.
KEEL_API WinogradInstruction find_winograd(WinogradStep step, const WinogradForm& form);

// C = A B for each of `points` triples of matrices, or C += A B. k is summed in runs of
// kTermsOfASum, which are then added: that keeps the errors of long sums small. Element (i, p) of A
// is at a[i * a_row + p * a_step]. Rows of B and C have room for whole vectors, up to a multiple of
// kProductColumns columns; what is there behind the last column does not matter.
inline constexpr size_t kProductColumns = 16, kTermsOfASum = 8;
struct PointProducts {
  size_t points = 0;
  const float* a = nullptr;
  size_t a_point = 0, a_row = 0, a_step = 0;
  const float* b = nullptr;
  size_t b_point = 0, b_row = 0;
  float* c = nullptr;
  size_t c_point = 0, c_row = 0;
  size_t m = 0, n = 0, k = 0;
  bool adds = false;
  PrefetchList ahead;  // brought meanwhile, a share with each point
};
using PointProductsInstruction = void (*)(const PointProducts& call);
KEEL_API PointProductsInstruction find_point_products();

// Bit i of to[j] becomes whether element j of image i is another number than 0, or than those that
// are rounded to it; image i begins i * `step` elements behind `first`.
struct NonzeroMarks {
  const float* first = nullptr;
  float largest_zero = 0;  // the largest magnitude that counts as 0
  ptrdiff_t step = 0;
  size_t images = 0;  // at most 8
  size_t count = 0;   // of elements
  uint8_t* to = nullptr;
};
using NonzeroMarksInstruction = void (*)(const NonzeroMarks& call);
KEEL_API NonzeroMarksInstruction find_nonzero_marks();

// Goes over lines of `count` positions. Adds the bits that the bytes left[i * left_step + row] and
// right[i * right_step + j] have in common to common[row * common_row + j], until each of these has
// one; returns whether that is so. Behind the last row of `right` and behind those of `common`
// there are kMarksBehind bytes to read and write, whose values do not matter.
inline constexpr size_t kMarksBehind = 64;
struct CommonMarks {
  const uint8_t* left = nullptr;
  const uint8_t* right = nullptr;
  ptrdiff_t left_step = 0, right_step = 0;  // from position to position
  ptrdiff_t left_line = 0, right_line = 0;  // from line to line
  size_t lines = 0, count = 0;
  size_t rows = 1, columns = 0;
  uint8_t* common = nullptr;
  size_t common_row = 0;
};
using CommonMarksInstruction = bool (*)(const CommonMarks& call);
KEEL_API CommonMarksInstruction find_common_marks();

}  // namespace keel::vector

#endif  // KEEL_BACKENDS_COMMON_VECTOR_WINOGRAD_H
