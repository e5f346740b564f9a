// The cube on vectors: register tiles of f32 accumulators, whatever the operands' dtype was before
// packing.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "keel/backends/common/cube/cube_vector.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include <algorithm>
#include <bit>
#include <mutex>
#include <type_traits>
#include <utility>

#include "hwy/highway.h"

#include "keel/backends/common/cube/cube_kernels.h"
#include "keel/backends/common/cube/cube_pack-inl.h"
#include "keel/backends/common/cube/cube_tall_skinny_columns-inl.h"
#include "keel/backends/common/cube/cube_tall_skinny_floats-inl.h"
#include "keel/backends/common/cube/cube_tall_skinny_rows-inl.h"
#include "keel/backends/common/cube/cube_tile-inl.h"
#include "keel/backends/common/vector/host_isa.h"

HWY_BEFORE_NAMESPACE();
namespace keel::HWY_NAMESPACE {
namespace {

using Tag = hn::ScalableTag<float>;
using Lanes = hn::Vec<Tag>;

// Where the rows of a tile begin, in elements from the first or from where all are counted.
template <class Step>
struct EvenRows {
  HWY_INLINE size_t operator()(size_t r) const { return r * step; }
  Step step;
};
struct AnyRows {
  HWY_INLINE size_t operator()(size_t r) const { return rows[r]; }
  const size_t* rows;
};

#if HWY_TARGET == HWY_AVX3
constexpr size_t kRegisters = 32;
#else
constexpr size_t kRegisters = 16;
#endif

// On the others a part of a vector goes to its place through memory, as finish_tile() takes it.
constexpr bool kStoresAnyColumns = HWY_TARGET <= HWY_AVX2;

template <size_t kNumber>
using Constant = std::integral_constant<size_t, kNumber>;

// The kernels of a register tile of kRows x kVectors vectors.
template <size_t kRows, size_t kVectors>
class Tile {
  template <size_t kOthers, size_t kSame>
  friend class Tile;

 public:
  static void fill(CubeKernels& kernels) {
    kernels.rows = kRows;
    kernels.cols = kCols;
    kernels.pack_a = &pack_panels;
    kernels.pack_b = &pack_panels;
    kernels.multiply = &multiply;
    kernels.multiply_stored = &multiply_stored;
    kernels.stored_multiple = 2;
    kernels.stores_any_columns = kStoresAnyColumns;
    kernels.multiply_parts = &multiply_parts;
    kernels.takes_stored_columns = true;
    kernels.takes_stored_panels = true;
    kernels.multiply_spread = &multiply_spread;
    kernels.multiply_line = &multiply_line;
    kernels.tap_rows = TapTile::kRowsOfTile;
    kernels.add_tap = &TapTile::add_tap;
    kernels.finish = &finish_tile;
    kernels.pack_columns = &FloatOperands::pack_columns;
    kernels.column_multiple = kFloatLanes;
    kernels.tall_skinny_rows = &tall_skinny_rows<FloatOperands>;
    kernels.tall_skinny_columns = &tall_skinny_columns<FloatOperands>;
    kernels.flat_rows = &flat_rows<FloatOperands>;
  }

 private:
  static constexpr size_t kRowsOfTile = kRows;
  static constexpr size_t kCols = kVectors * hn::MaxLanes(Tag());
  // Channels come in multiples of 4, 8 or 16.
  using TapTile = Tile<std::bit_floor(kRows), kVectors>;
  static_assert(kCols % hv::kBlockSide == 0);
  // Registers hold the sums of two such tiles.
  using HalfTile = Tile<(kRows + 1) / 2, kVectors>;
  using Down = std::make_index_sequence<kRows>;
  using Across = std::make_index_sequence<kVectors>;

  struct Row {
    Lanes sum[kVectors];
  };

  template <size_t... V>
  static HWY_INLINE void add_row(Row& row, Lanes a, const Lanes* b, std::index_sequence<V...>) {
    ((row.sum[V] = hn::MulAdd(a, b[V], row.sum[V])), ...);
  }

  // One k: the outer product of a column of A and a row of B.
  template <class Rows, size_t... R, size_t... V>
  static HWY_INLINE void add_outer(Row* sums, const float* a, const Rows& rows, const float* b,
                                   std::index_sequence<R...>, std::index_sequence<V...> across) {
    const Tag d;
    const Lanes right[kVectors] = {hn::LoadU(d, b + V * hn::Lanes(d))...};
    (add_row(sums[R], hn::Set(d, a[rows(R)]), right, across), ...);
  }

  template <size_t... V>
  static HWY_INLINE void clear_row(Row& row, std::index_sequence<V...>) {
    ((row.sum[V] = hn::Zero(Tag())), ...);
  }
  template <size_t... R>
  static HWY_INLINE void clear(Row* sums, std::index_sequence<R...>) {
    (clear_row(sums[R], Across()), ...);
  }

  template <size_t... V>
  static HWY_INLINE void store_row(const Row& row, float* to, std::index_sequence<V...>) {
    (hn::StoreU(row.sum[V], Tag(), to + V * hn::Lanes(Tag())), ...);
  }
  template <size_t... R>
  static HWY_INLINE void store(const Row* sums, float* to, size_t stride,
                               std::index_sequence<R...>) {
    (store_row(sums[R], to + R * stride, Across()), ...);
  }

  template <size_t... R>
  static HWY_INLINE void store_at(const Row* sums, float* to, const size_t* places,
                                  std::index_sequence<R...>) {
    (store_row(sums[R], to + places[R], Across()), ...);
  }

  template <size_t... V>
  static HWY_INLINE void load_row(Row& row, const float* from, std::index_sequence<V...>) {
    ((row.sum[V] = hn::LoadU(Tag(), from + V * hn::Lanes(Tag()))), ...);
  }
  template <size_t... R>
  static HWY_INLINE void load(Row* sums, const float* from, size_t stride,
                              std::index_sequence<R...>) {
    (load_row(sums[R], from + R * stride, Across()), ...);
  }

  template <size_t... V>
  static HWY_INLINE void add_to_row(Row& row, const Row& other, std::index_sequence<V...>) {
    ((row.sum[V] = row.sum[V] + other.sum[V]), ...);
  }
  template <size_t... R>
  static HWY_INLINE void add(Row* sums, const Row* others, std::index_sequence<R...>) {
    (add_to_row(sums[R], others[R], Across()), ...);
  }
  template <size_t... V>
  static HWY_INLINE void add_row_at(Row& row, const float* there, std::index_sequence<V...>) {
    ((row.sum[V] = hn::LoadU(Tag(), there + V * hn::Lanes(Tag())) + row.sum[V]), ...);
  }
  template <size_t... R>
  static HWY_INLINE void add_at(Row* sums, const float* there, std::index_sequence<R...>) {
    (add_row_at(sums[R], there + R * kCols, Across()), ...);
  }

  template <size_t... V>
  static HWY_INLINE void prefetch_row(const float* row, std::index_sequence<V...>) {
    (__builtin_prefetch(row + V * hn::Lanes(Tag())), ...);
  }

  // Rows of B are asked for so many k's early, where a k leaves time for it: processors do not
  // follow rows that lie apart far by themselves, and those of packed panels are there anyway.
  static constexpr size_t kRowsAhead = 8;
  static constexpr bool kAsksForRows = kRows * kVectors >= 16;

  // Adds `length` k to the sums; elements of A lie `k_step` apart from k to k, rows of B `b_step`.
  template <class Rows, class Step, class Step2 = Constant<kCols>>
  static HWY_INLINE void add_run(Row* sums, const float* a, const Rows& rows, Step k_step,
                                 const float* b, size_t length, Step2 b_step = {}) {
    constexpr bool kAsks = kAsksForRows && std::is_same_v<Step2, size_t>;
    size_t k = 0;
    // With four at once compilers spill some sums.
    for (; k + 2 <= length; k += 2) {
      if constexpr (kAsks) prefetch_row(b + kRowsAhead * b_step, Across());
      add_outer(sums, a, rows, b, Down(), Across());
      if constexpr (kAsks) prefetch_row(b + (kRowsAhead + 1) * b_step, Across());
      add_outer(sums, a + k_step, rows, b + b_step, Down(), Across());
      a += 2 * k_step;
      b += 2 * b_step;
    }
    for (; k < length; ++k, a += k_step, b += b_step) {
      add_outer(sums, a, rows, b, Down(), Across());
    }
  }

  // The same with rows that lie anywhere: where there are registers for it, where each begins is
  // read once for two k's.
  static HWY_INLINE void add_run_anywhere(Row* sums, const float* a, const AnyRows& rows,
                                          size_t k_step, const float* b, size_t length) {
    constexpr size_t kAhead = 16;  // k's of B, which are read once and from far away
    size_t k = 0;
    if constexpr ((kRows + 2) * kVectors < kRegisters) {
      for (; k + 2 <= length; k += 2, a += 2 * k_step, b += 2 * kCols) {
        prefetch_row(b + kAhead * kCols, Across());
        prefetch_row(b + (kAhead + 1) * kCols, Across());
        add_two(sums, a, rows, k_step, b, Down(), Across());
      }
    }
    for (; k < length; ++k, a += k_step, b += kCols) {
      prefetch_row(b + kAhead * kCols, Across());
      add_outer(sums, a, rows, b, Down(), Across());
    }
  }
  template <size_t... R, size_t... V>
  static HWY_INLINE void add_two(Row* sums, const float* a, const AnyRows& rows, size_t k_step,
                                 const float* b, std::index_sequence<R...>,
                                 std::index_sequence<V...>) {
    const Tag d;
    const Lanes first[kVectors] = {hn::Load(d, b + V * hn::Lanes(d))...};
    const Lanes second[kVectors] = {hn::Load(d, b + kCols + V * hn::Lanes(d))...};
    (add_two_of_row(sums[R], a + rows(R), k_step, first, second), ...);
  }
  static HWY_INLINE void add_two_of_row(Row& row, const float* a, size_t k_step, const Lanes* first,
                                        const Lanes* second) {
    add_row(row, hn::Set(Tag(), a[0]), first, Across());
    add_row(row, hn::Set(Tag(), a[k_step]), second, Across());
  }

  // The last columns may be fewer than a tile's.
  template <size_t... V>
  static HWY_INLINE void store_part_of_row(const Row& row, float* to, size_t cols,
                                           std::index_sequence<V...>) {
    constexpr size_t kLanes = hn::MaxLanes(Tag());
    (store_first(row.sum[V], to + V * kLanes, cols < V * kLanes ? 0 : cols - V * kLanes), ...);
  }
  static HWY_INLINE void store_first(Lanes v, float* to, size_t count) {
    const Tag d;
    count >= hn::Lanes(d) ? hn::StoreU(v, d, to) : hv::store_part(d, v, to, count);
  }
  template <size_t... R>
  static HWY_INLINE void store_part(const Row* sums, const TileResult& to,
                                    std::index_sequence<R...>) {
    (store_part_of_row(sums[R], to.to + R * to.stride, to.cols, Across()), ...);
  }

  template <class Rows, class Step>
  static HWY_INLINE void multiply_rows(const float* a, const Rows& rows, Step k_step,
                                       const float* b, size_t b_step, size_t length,
                                       const TileResult& to) {
    Row sums[kRows];
    clear(sums, Down());
    add_run(sums, a, rows, k_step, b, length, b_step);
    if (!kStoresAnyColumns || to.cols == kCols) return store(sums, to.to, to.stride, Down());
    store_part(sums, to, Down());
  }

  // The last rows of a block may be fewer than a tile's, and then take as much less time.
  static void multiply(const void* a, const void* b, size_t b_step, size_t length,
                       const TileResult& to) {
    multiply_first<kRows>(static_cast<const float*>(a), static_cast<const float*>(b), b_step,
                          length, to);
  }

  // Multiplies as few rows, in pairs, as hold the first to.rows: those that are packed, of which
  // there are kRows.
  template <size_t kMost>
  static HWY_INLINE void multiply_first(const float* a, const float* b, size_t b_step,
                                        size_t length, const TileResult& to) {
    if constexpr (kMost > 2) {
      if (to.rows + 2 <= kMost) return multiply_first<kMost - 2>(a, b, b_step, length, to);
    }
    Tile<kMost, kVectors>::multiply_rows(a, EvenRows<Constant<1>>{}, Constant<kRows>(), b, b_step,
                                         length, to);
  }

  static void multiply_stored(const StoredRows& a, const void* b, size_t b_step, size_t length,
                              const TileResult& to) {
    stored_first<kRows>(a, static_cast<const float*>(b), b_step, length, to);
  }
  template <size_t kMost>
  static HWY_INLINE void stored_first(const StoredRows& a, const float* b, size_t b_step,
                                      size_t length, const TileResult& to) {
    if constexpr (kMost > 2) {
      if (to.rows + 2 <= kMost) return stored_first<kMost - 2>(a, b, b_step, length, to);
    }
    Tile<kMost, kVectors>::multiply_all_stored(a, b, b_step, length, to);
  }
  static HWY_INLINE void multiply_all_stored(const StoredRows& a, const float* b, size_t b_step,
                                             size_t length, const TileResult& to) {
    const auto* rows = static_cast<const float*>(a.rows);
    if (a.k_step != 1) {
      const EvenRows<Constant<1>> beside;
      return multiply_rows(rows, beside, a.k_step, b, b_step, length, to);
    }
    const EvenRows<size_t> apart{a.stride};
    multiply_rows(rows, apart, Constant<1>(), b, b_step, length, to);
  }

  static void multiply_parts(const PartsCall& call) {
    if (call.k_step == 0) return halves_of_parts(call, Constant<kRows>());
    halves_of_parts(call, call.k_step);
  }

  template <class Step>
  static HWY_INLINE void halves_of_parts(const PartsCall& call, Step k_step) {
    constexpr size_t kHalf = HalfTile::kRowsOfTile;
    static_assert(2 * kHalf == kRows);
    const auto* a = static_cast<const float*>(call.a);
    HalfTile::sum_parts(call, a, k_step, call.to);
    if (call.rows > kHalf)
      HalfTile::sum_parts(call, a + kHalf, k_step, call.to + kHalf * call.stride);
  }

  // The sum that the next part is added to stays in registers. The left operands of additions that
  // cannot be done yet wait in memory.
  template <class Step>
  static HWY_NOINLINE void sum_parts(const PartsCall& call, const float* a, Step k_step,
                                     float* to) {
    constexpr EvenRows<Constant<1>> kRowsBeside;
    const size_t a_step = call.a_step / sizeof(float), b_step = call.b_step / sizeof(float);
    const auto* b = static_cast<const float*>(call.b);
    float* waiting = call.waiting;
    Row sums[kRows];
    clear(sums, Down());
    add_run(sums, a, kRowsBeside, k_step, b, call.length);
    for (size_t part = 1; part < call.parts; ++part) {
      a += a_step;
      b += b_step;
      size_t additions = call.additions[part];
      if (additions == 0) {
        store(sums, waiting, kCols, Down());
        waiting += kRows * kCols;
        clear(sums, Down());
        add_run(sums, a, kRowsBeside, k_step, b, call.length);
        continue;
      }
      Row product[kRows];
      clear(product, Down());
      add_run(product, a, kRowsBeside, k_step, b, call.length);
      add(sums, product, Down());
      while (--additions > 0) {
        waiting -= kRows * kCols;
        add_at(sums, waiting, Down());
      }
    }
    store(sums, to, call.stride, Down());
  }

  template <class Rows, class Step>
  static HWY_NOINLINE void multiply_runs(const SpreadRows& a, size_t origin, const Rows& rows,
                                         Step k_step, const float* b, bool goes_on, float* to,
                                         size_t stride) {
    Row sums[kRows];
    if (goes_on)
      load(sums, to, stride, Down());
    else
      clear(sums, Down());
    for (size_t i = 0; i < a.run_count; ++i) {
      const CubeRun& run = a.runs[i];
      const float* first = static_cast<const float*>(a.a) + origin + run.at;
      if constexpr (std::is_same_v<Rows, AnyRows>)
        add_run_anywhere(sums, first, rows, k_step, b + run.k * kCols, run.length);
      else
        add_run(sums, first, rows, k_step, b + run.k * kCols, run.length);
    }
    if (a.to_rows != nullptr) return store_at(sums, to, a.to_rows, Down());
    store(sums, to, stride, Down());
  }

  static void add_tap(const TapRows& tap, float* to) {
    const EvenRows<Constant<1>> beside;
    Row sums[kRows];
    load(sums, to, kCols, Down());
    for (size_t i = 0; i < tap.run_count; ++i) {
      const TapRun& run = tap.runs[i];
      add_run(sums, tap.a + run.at, beside, tap.k_step, tap.b + run.k * tap.b_step, run.length,
              tap.b_step);
    }
    store(sums, to, kCols, Down());
  }

  static void multiply_spread(const SpreadRows& a, const void* b, size_t count, bool goes_on,
                              float* to, size_t stride) {
    spread_first<kRows>(a, static_cast<const float*>(b), count, goes_on, to, stride);
  }

  // Multiplies spread_rows_written(count) rows.
  template <size_t kMost>
  static HWY_INLINE void spread_first(const SpreadRows& a, const float* b, size_t count,
                                      bool goes_on, float* to, size_t stride) {
    if constexpr (has_odd_tile(kMost - 1)) {
      if (count == kMost - 1)
        return Tile<kMost - 1, kVectors>::multiply_all_spread(a, b, goes_on, to, stride);
    }
    if constexpr (kMost > 2) {
      if (count + 2 <= kMost) return spread_first<kMost - 2>(a, b, count, goes_on, to, stride);
    }
    Tile<kMost, kVectors>::multiply_all_spread(a, b, goes_on, to, stride);
  }

  // Rows that lie equally far apart take fewer registers for their addresses.
  static HWY_NOINLINE void multiply_all_spread(const SpreadRows& a, const float* b, bool goes_on,
                                               float* to, size_t stride) {
    const size_t first = a.rows[0], step = a.rows[1] - first;
    size_t differences = 0;
    for (size_t r = 2; r < kRows; ++r) differences |= a.rows[r] ^ (first + r * step);
    if (differences == 0 && a.k_step == 1) {
      const EvenRows<size_t> apart{step};
      return multiply_runs(a, first, apart, Constant<1>(), b, goes_on, to, stride);
    }
    multiply_runs(a, 0, AnyRows{a.rows}, a.k_step, b, goes_on, to, stride);
  }

  template <class Rows>
  static HWY_INLINE void multiply_places(const float* a, const Rows& rows, const size_t* k_places,
                                         const float* b, size_t length, float* to, size_t stride) {
    Row sums[kRows];
    clear(sums, Down());
    for (size_t k = 0; k < length; ++k, b += kCols)
      add_outer(sums, a + k_places[k], rows, b, Down(), Across());
    store(sums, to, stride, Down());
  }

  // The tiles that the line needs have pairs of rows, as many each; the last one ends with the
  // line, and may compute some rows of the one before once more.
  static void multiply_line(const EvenLine& a, const void* b, float* to, size_t stride) {
    const bool halves = a.rows <= kRows && a.rows % 2 != 0 && a.rows != 1;
    const size_t tiles = halves ? 2 : (a.rows + kRows - 1) / kRows;
    const size_t each = a.rows == 1 ? 1 : (a.rows + 2 * tiles - 1) / (2 * tiles) * 2;
    line_of<kRows>(a, static_cast<const float*>(b), each, to, stride);
  }

  template <size_t kMost>
  static HWY_INLINE void line_of(const EvenLine& a, const float* b, size_t each, float* to,
                                 size_t stride) {
    if constexpr (kMost > 2) {
      if (each + 2 <= kMost) return line_of<kMost - 2>(a, b, each, to, stride);
    } else if (each == 1) {
      return Tile<1, kVectors>::tiles_of_line(a, b, to, stride);
    }
    Tile<kMost, kVectors>::tiles_of_line(a, b, to, stride);
  }

  // The rows that come next are written soon: so few k's take less time than their way from memory.
  template <size_t... R>
  static HWY_INLINE void prefetch_next(const float* to, size_t stride, std::index_sequence<R...>) {
    (prefetch_row(to + R * stride, Across()), ...);
  }

  static HWY_NOINLINE void tiles_of_line(const EvenLine& a, const float* b, float* to,
                                         size_t stride) {
    if (a.step == 1) return tiles_of_line(a, EvenRows<Constant<1>>{}, b, to, stride);
    tiles_of_line(a, EvenRows<size_t>{a.step}, b, to, stride);
  }
  template <class Rows>
  static HWY_INLINE void tiles_of_line(const EvenLine& a, const Rows& rows, const float* b,
                                       float* to, size_t stride) {
    for (size_t done = 0; done < a.rows; done += kRows) {
      const size_t row = std::min(done, a.rows - kRows);
      prefetch_next(to + (row + kRows) * stride, stride, Down());
      multiply_places(a.a + row * a.step, rows, a.k_places, b, a.length, to + row * stride, stride);
    }
  }
};

// Accumulators, the vectors of B and one of A fill the registers.
#if HWY_TARGET == HWY_AVX3
using WideTile = Tile<14, 2>;
using NarrowTile = Tile<16, 1>;
#else
using WideTile = Tile<4, 3>;
using NarrowTile = Tile<6, 2>;
#endif

}  // namespace

void fill_cube_kernels(VectorCubeKernels& kernels) {
  WideTile::fill(kernels.wide);
  NarrowTile::fill(kernels.narrow);
}

}  // namespace keel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace keel {

HWY_EXPORT(fill_cube_kernels);

const VectorCubeKernels& vector_cube_kernels() {
  constexpr size_t kIsas = static_cast<size_t>(vector::HostIsa::kAmx) + 1;
  static VectorCubeKernels of_isa[kIsas];
  static std::once_flag filled[kIsas];
  const auto isa = static_cast<size_t>(vector::host_isa());
  // Once: other threads multiply by them.
  std::call_once(filled[isa], [&] { HWY_DYNAMIC_DISPATCH(fill_cube_kernels)(of_isa[isa]); });
  return of_isa[isa];
}

}  // namespace keel
#endif
