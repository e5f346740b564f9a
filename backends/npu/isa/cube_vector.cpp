// The cube on vectors: register tiles of f32 accumulators, whatever the operands' dtype was before
// packing.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "keel/backends/npu/isa/cube_vector.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include <bit>
#include <mutex>
#include <type_traits>
#include <utility>

#include "hwy/highway.h"

#include "keel/backends/common/vector/host_isa.h"
#include "keel/backends/npu/isa/cube_kernels.h"
#include "keel/backends/npu/isa/cube_pack-inl.h"
#include "keel/backends/npu/isa/cube_tall_skinny_columns-inl.h"
#include "keel/backends/npu/isa/cube_tall_skinny_floats-inl.h"
#include "keel/backends/npu/isa/cube_tall_skinny_rows-inl.h"
#include "keel/backends/npu/isa/cube_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace keel::npu::HWY_NAMESPACE {
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
    kernels.takes_stored_columns = true;
    kernels.multiply_spread = &multiply_spread;
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
    const Lanes right[kVectors] = {hn::Load(d, b + V * hn::Lanes(d))...};
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

  template <size_t... V>
  static HWY_INLINE void load_row(Row& row, const float* from, std::index_sequence<V...>) {
    ((row.sum[V] = hn::LoadU(Tag(), from + V * hn::Lanes(Tag()))), ...);
  }
  template <size_t... R>
  static HWY_INLINE void load(Row* sums, const float* from, size_t stride,
                              std::index_sequence<R...>) {
    (load_row(sums[R], from + R * stride, Across()), ...);
  }

  // Adds `length` k to the sums; elements of A lie `k_step` apart from k to k, rows of B `b_step`.
  template <class Rows, class Step, class Step2 = Constant<kCols>>
  static HWY_INLINE void add_run(Row* sums, const float* a, const Rows& rows, Step k_step,
                                 const float* b, size_t length, Step2 b_step = {}) {
    size_t k = 0;
    // With four at once compilers spill some sums.
    for (; k + 2 <= length; k += 2) {
      add_outer(sums, a, rows, b, Down(), Across());
      add_outer(sums, a + k_step, rows, b + b_step, Down(), Across());
      a += 2 * k_step;
      b += 2 * b_step;
    }
    for (; k < length; ++k, a += k_step, b += b_step) {
      add_outer(sums, a, rows, b, Down(), Across());
    }
  }

  template <class Rows, class Step>
  static HWY_INLINE void multiply_rows(const float* a, const Rows& rows, Step k_step,
                                       const float* b, size_t length, float* to, size_t stride) {
    Row sums[kRows];
    clear(sums, Down());
    add_run(sums, a, rows, k_step, b, length);
    store(sums, to, stride, Down());
  }

  // The last rows of a block may be fewer than a tile's, and then take as much less time.
  static void multiply(const void* a, const void* b, size_t count, size_t length, float* to,
                       size_t stride) {
    multiply_first<kRows>(static_cast<const float*>(a), static_cast<const float*>(b), count, length,
                          to, stride);
  }

  // Multiplies as few rows, in pairs, as hold the first `count`: those that are packed, of which
  // there are kRows.
  template <size_t kMost>
  static HWY_INLINE void multiply_first(const float* a, const float* b, size_t count, size_t length,
                                        float* to, size_t stride) {
    if constexpr (kMost > 2) {
      if (count + 2 <= kMost) return multiply_first<kMost - 2>(a, b, count, length, to, stride);
    }
    Tile<kMost, kVectors>::multiply_rows(a, EvenRows<Constant<1>>{}, Constant<kRows>(), b, length,
                                         to, stride);
  }

  static void multiply_stored(const StoredRows& a, const void* b, size_t length, float* to,
                              size_t stride) {
    const auto* rows = static_cast<const float*>(a.rows);
    const auto* panel = static_cast<const float*>(b);
    if (a.k_step != 1) {
      return multiply_rows(rows, EvenRows<Constant<1>>{}, a.k_step, panel, length, to, stride);
    }
    multiply_rows(rows, EvenRows<size_t>{a.stride}, Constant<1>(), panel, length, to, stride);
  }

  template <class Rows, class Step>
  static void multiply_runs(const SpreadRows& a, size_t origin, const Rows& rows, Step k_step,
                            const float* b, bool goes_on, float* to, size_t stride) {
    Row sums[kRows];
    if (goes_on)
      load(sums, to, stride, Down());
    else
      clear(sums, Down());
    for (size_t i = 0; i < a.run_count; ++i) {
      add_run(sums, a.a + origin + a.runs[i].at, rows, k_step, b, a.runs[i].length);
      b += a.runs[i].length * kCols;
    }
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

  // Rows that lie equally far apart take fewer registers for their addresses.
  static void multiply_spread(const SpreadRows& a, const void* panel, bool goes_on, float* to,
                              size_t stride) {
    const auto* b = static_cast<const float*>(panel);
    const size_t first = a.rows[0], step = a.rows[1] - first;
    size_t differences = 0;
    for (size_t r = 2; r < kRows; ++r) differences |= a.rows[r] ^ (first + r * step);
    const bool even = differences == 0;
    const AnyRows any{a.rows};
    if (a.k_step == 1) {
      const EvenRows<size_t> apart{step};
      return even ? multiply_runs(a, first, apart, Constant<1>(), b, goes_on, to, stride)
                  : multiply_runs(a, 0, any, Constant<1>(), b, goes_on, to, stride);
    }
    const EvenRows<Constant<1>> beside;
    return even && step == 1 ? multiply_runs(a, first, beside, a.k_step, b, goes_on, to, stride)
                             : multiply_runs(a, 0, any, a.k_step, b, goes_on, to, stride);
  }
};

// Accumulators, the vectors of B and one of A fill the registers: 32 of them on AVX-512, else 16.
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

}  // namespace keel::npu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace keel::npu {

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

}  // namespace keel::npu
#endif
