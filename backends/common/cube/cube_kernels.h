// CubeKernels: the part of the cube that each host ISA has its own of. It packs into panels,
// multiplies two panels, and brings a finished tile to C. Internal to this folder.
#ifndef KEEL_BACKENDS_COMMON_CUBE_CUBE_KERNELS_H
#define KEEL_BACKENDS_COMMON_CUBE_CUBE_KERNELS_H

#include <cstddef>
#include <cstdint>

#include "keel/backends/common/cube/cube.h"

namespace keel {

// Rows so many bytes apart fall into one set of the first cache, which has not room for a tile's.
inline constexpr size_t kSameSet = 4096;

// Floats that a pack may write beyond its last panel.
inline constexpr size_t kPackSlack = 64;

// The tall-skinny kernels take products with so few columns or rows of C and this much k.
inline constexpr size_t kNarrowColumns = 16;
inline constexpr size_t kTallSkinnyMaxK = 8192;
// Kernels for so few columns or rows add up no parts of k.
inline constexpr size_t kFewColumns = 2;
// The others, where these lie in the lanes or are few, add up so many.
inline constexpr size_t kMostPartsOfTile = 16;
constexpr size_t tall_skinny_padded_k(size_t k) noexcept { return (k + 15) / 16 * 16; }
// Floats of scratch that they need: B where it is packed there, and a few rows or one panel of A
// widened.
constexpr size_t tall_skinny_scratch_floats(size_t k, size_t k_panel, bool packs_b) noexcept {
  const size_t rows = 8 * tall_skinny_padded_k(k), panel = 32 * k_panel;
  const size_t b = packs_b ? kNarrowColumns * tall_skinny_padded_k(k) : 0;
  return b + (rows > panel ? rows : panel) + 2 * kPackSlack;
}

// A part of one operand: `count` rows (of A) or columns (of B) from `first`, over k0 .. k0 +
// length. Panels of `width` follow each other; in a panel k is the outer index. What is missing in
// the last panel is zero.
struct PackCall {
  const void* src = nullptr;
  DType dtype = f32;
  DType round_to = f32;  // as CubeProblem::round_to
  size_t stride = 0;
  const size_t* rows = nullptr;  // as CubeArgs::a_rows
  bool k_contiguous = false;     // element (i, k) is src[i * stride + k], else src[k * stride + i]
  size_t first = 0, count = 0;
  size_t k0 = 0, length = 0;
  size_t width = 0;
  // pack_panels of one panel with k_contiguous: floats from one k to the next, where not `width`.
  size_t dst_stride = 0;
  const vector::ByteMap* bytes = nullptr;
  void* dst = nullptr;

  // Where row `r` as stored begins, in elements.
  size_t row_at(size_t r) const { return rows == nullptr ? r * stride : rows[r]; }
};

// One register tile on its way to C.
struct TileCall {
  const float* tile = nullptr;  // [rows, tile_stride]
  size_t tile_stride = 0;
  size_t rows = 0, cols = 0;
  bool first = true;  // of the panels of k; the sums of the others are added to C
  float* c = nullptr;
  size_t c_stride = 0;
};

// Where the sums of a register tile go. Rows lie `stride` floats apart; a kernel may write more of
// them than `rows`, where it does not say otherwise.
struct TileResult {
  float* to = nullptr;
  size_t stride = 0;
  size_t rows = 0, cols = 0;
};

// Rows of A that are stored as they are multiplied, `stride` elements apart. One of `stride` and
// k_step, the elements from k to k, is 1.
struct StoredRows {
  const void* rows = nullptr;
  size_t stride = 0;
  size_t k_step = 1;
  // The last k of the panel as pack_a packs them, where they are fewer than k_multiple and the
  // panel's length is no multiple of stored_k_multiple; else null.
  const void* rest = nullptr;
};

// One register tile of a product whose k has several parts (ops/sums/part_sums.h), each as long.
struct PartsCall {
  // `rows` rows of A: packed, or, where k_step is not 0, columns of A as it is stored, [k, m], with
  // so many elements from k to k.
  const void* a = nullptr;
  size_t k_step = 0;
  size_t rows = 0, parts = 1, length = 0;
  const void* b = nullptr;        // a packed panel
  size_t a_step = 0, b_step = 0;  // bytes from a part's to the next one's
  // For each part, how many additions of the tree can be done once its sum is known.
  const uint8_t* additions = nullptr;
  float* to = nullptr;  // rows of a tile's columns, `stride` floats apart
  size_t stride = 0;
  float* waiting = nullptr;  // room for as many tiles of sums as bits of the number of parts
};

// Elements of A along k that lie k_step apart, from `at` behind a row's beginning on; the first one
// is number `k` of the panel's.
struct CubeRun {
  size_t at = 0, k = 0, length = 0;
};

// A tile's rows of A where they lie as they are multiplied, spread over more than a matrix.
struct SpreadRows {
  const void* a = nullptr;
  const size_t* rows = nullptr;  // where each begins, in elements from `a`
  // The same of the result's rows, from where it begins on; null where these lie evenly. They are
  // for the first sums of a tile: those that go on are read where rows lie evenly.
  const size_t* to_rows = nullptr;
  size_t k_step = 1;
  const CubeRun* runs = nullptr;
  size_t run_count = 0;
};

// Rows of A that lie `step` elements apart in f32, each with its k's anywhere.
struct EvenLine {
  const float* a = nullptr;  // the first row
  size_t step = 1, rows = 0;
  const size_t* k_places = nullptr;  // from a row's beginning on
  size_t length = 0;                 // of them
};

// k's of a tap that lie k_step apart, from `at` on; the first one is number `k` of B's.
struct TapRun {
  size_t at = 0, k = 0, length = 0;
};

// Rows of A that lie side by side from `a` on, and the rows of B that they meet, b_step apart.
struct TapRows {
  const float* a = nullptr;
  size_t k_step = 1;
  const float* b = nullptr;
  size_t b_step = 0;
  const TapRun* runs = nullptr;
  size_t run_count = 0;
};

// A product with m or n at most kNarrowColumns, in which the other operand is not packed.
struct TallSkinnyCall {
  CubeArgs args;
  CubeProblem problem;
  CubeRange range;
  size_t k_panel = 0;
  float* scratch = nullptr;
  // tall_skinny_rows: B's columns from range.n0 on, as pack_columns packs them.
  const float* columns = nullptr;
  size_t column_stride = 0;  // floats from one to the next
  // tall_skinny_rows: C is [n, m] in memory, as its rows are the columns of a product with few
  // rows.
  bool writes_transpose = false;
};

// Says whether multiply_spread has a tile of so many rows though they are no pairs: the nine of a
// window of 3 x 3, and thirteen, of which two tiles hold one of 5 x 5.
constexpr bool has_odd_tile(size_t count) noexcept { return count == 9 || count == 13; }
// Rows that multiply_spread writes where `count` are wanted.
constexpr size_t spread_rows_written(size_t count) noexcept {
  return has_odd_tile(count) ? count : (count + 1) / 2 * 2;
}

struct CubeKernels {
  size_t rows = 0, cols = 0;           // of the register tile
  size_t packed_size = sizeof(float);  // bytes of a packed element
  size_t k_multiple = 1;               // panels are padded to this many k
  void (*pack_a)(const PackCall&) = nullptr;
  void (*pack_b)(const PackCall&) = nullptr;
  // Where B may be read as it is stored (takes_stored_panels), its rows lie `b_step` floats apart;
  // else it is packed, and the kernel does not look at that. Rows of the tile from to.rows on are
  // nobody's: a kernel may leave them out.
  void (*multiply)(const void* a, const void* b, size_t b_step, size_t length,
                   const TileResult& to) = nullptr;
  // Multiplies rows of A in place, without packing. Results equal `multiply`'s bit for bit. Null if
  // the kernel needs packed rows. Elements of A must have the packed size. to.rows is a multiple of
  // stored_multiple; all of them are read and written. `length` is the panel's, not rounded up.
  void (*multiply_stored)(const StoredRows& a, const void* b, size_t b_step, size_t length,
                          const TileResult& to) = nullptr;
  size_t stored_multiple = 1;
  size_t stored_k_multiple = 1;
  // Says whether both write the first to.cols columns alone. Else they may write all of the tile's,
  // and leave out those from to.cols on.
  bool stores_any_columns = false;
  // Adds up the parts of a tile as a tree. As in `multiply`, rows from `rows` on may be left out.
  // It takes A as it is stored where takes_stored_columns.
  void (*multiply_parts)(const PartsCall&) = nullptr;
  bool takes_stored_columns = false;  // multiply_stored takes any k_step, so A stored [k, m]
  bool takes_stored_panels = false;   // both take any b_step
  // The same with `count` rows that lie anywhere, as many as spread_rows_written of them: those
  // places and rows of the result are there. `goes_on`: k goes on with the sums that are at `to`,
  // which are what a longer run would have at this point. Kernels of 16-bit elements read and write
  // all rows of the tile, take runs of whole k_multiple whose elements lie side by side, and
  // neither go on nor have places for the result's rows.
  void (*multiply_spread)(const SpreadRows& a, const void* b, size_t count, bool goes_on, float* to,
                          size_t stride) = nullptr;
  // The same for all rows of a line, tile by tile, whose k's are few and in no long runs. It writes
  // the rows of the line alone.
  void (*multiply_line)(const EvenLine& a, const void* b, float* to, size_t stride) = nullptr;
  // A tile of tap_rows rows, if there is such a kernel: to the sums at `to`, [tap_rows, cols], what
  // the runs come to is added k by k.
  size_t tap_rows = 0;
  void (*add_tap)(const TapRows& tap, float* to) = nullptr;
  void (*finish)(const TileCall&) = nullptr;
  void (*begin)() = nullptr;  // before the first multiply of a block and after the last, where the
  void (*end)() = nullptr;    // processor wants that
  // B's columns as rows along k in whole vectors of column_multiple, padded with zeros, `stride`
  // floats apart. `width` of the call is not used.
  void (*pack_columns)(const PackCall&, size_t stride) = nullptr;
  size_t column_multiple = 1;
  void (*tall_skinny_rows)(const TallSkinnyCall&) = nullptr;     // A stored [m, k]; or m <= 16,
                                                                 // B stored [n, k]
  void (*tall_skinny_columns)(const TallSkinnyCall&) = nullptr;  // A stored [k, m]
  void (*flat_rows)(const TallSkinnyCall&) = nullptr;            // m <= 16, B stored [k, n]
};

// For the host ISA in use. Tiles of `narrow` have fewer columns and more rows: for products whose
// columns they cover with less left over.
struct VectorCubeKernels {
  CubeKernels wide, narrow;
};
const VectorCubeKernels& vector_cube_kernels();

// Returns the kernels for products of bf16, which multiply pairs along k: on AMX tiles, with
// AVX512_BF16, or by plain loops over the same packing, which tests can run on any processor with
// AVX-512. nullptr where the build has none. REQUIRES that AVX-512 is in use.
enum class PairsOfBf16 : uint8_t { kTiles, kVectors, kLoops };
const CubeKernels* bf16_cube_kernels(PairsOfBf16 kind);

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_CUBE_CUBE_KERNELS_H
