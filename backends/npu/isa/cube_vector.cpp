// The cube on vectors: register tiles of f32 accumulators, whatever the operands' dtype was before
// packing.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "keel/backends/npu/isa/cube_vector.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include <mutex>
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

// Accumulators, the vectors of B and one of A fill the registers: 32 of them on AVX-512, else 16.
#if HWY_TARGET == HWY_AVX3
constexpr size_t kRows = 14, kVectors = 2;
#else
constexpr size_t kRows = 4, kVectors = 3;
#endif
constexpr size_t kCols = kVectors * hn::MaxLanes(Tag());
static_assert(kRows <= hv::kBlockSide || kRows % hv::kBlockSide == 0);
static_assert(kCols % hv::kBlockSide == 0);

struct Row {
  Lanes sum[kVectors];
};

template <size_t... V>
HWY_INLINE void add_row(Row& row, Lanes a, const Lanes* b, std::index_sequence<V...>) {
  ((row.sum[V] = hn::MulAdd(a, b[V], row.sum[V])), ...);
}

// One k: the outer product of a column of A and a row of B.
template <size_t... R, size_t... V>
HWY_INLINE void add_outer(Row* rows, const float* a, size_t row_step, const float* b,
                          std::index_sequence<R...>, std::index_sequence<V...> vectors) {
  const Tag d;
  const Lanes right[kVectors] = {hn::Load(d, b + V * hn::Lanes(d))...};
  (add_row(rows[R], hn::Set(d, a[R * row_step]), right, vectors), ...);
}

template <size_t... V>
HWY_INLINE void clear_row(Row& row, std::index_sequence<V...>) {
  ((row.sum[V] = hn::Zero(Tag())), ...);
}

template <size_t... V>
HWY_INLINE void store_row(const Row& row, float* to, std::index_sequence<V...>) {
  (hn::StoreU(row.sum[V], Tag(), to + V * hn::Lanes(Tag())), ...);
}

// Elements of A lie `row_step` apart from row to row and `k_step` from k to k.
template <size_t... R>
HWY_INLINE void multiply_rows(const float* a, size_t row_step, size_t k_step, const float* b,
                              size_t length, float* to, size_t stride,
                              std::index_sequence<R...> all) {
  constexpr std::make_index_sequence<kVectors> kAcross;
  Row rows[kRows];
  (clear_row(rows[R], kAcross), ...);
  size_t k = 0;
  for (; k + 4 <= length; k += 4) {
    add_outer(rows, a, row_step, b, all, kAcross);
    add_outer(rows, a + k_step, row_step, b + kCols, all, kAcross);
    add_outer(rows, a + 2 * k_step, row_step, b + 2 * kCols, all, kAcross);
    add_outer(rows, a + 3 * k_step, row_step, b + 3 * kCols, all, kAcross);
    a += 4 * k_step;
    b += 4 * kCols;
  }
  for (; k < length; ++k, a += k_step, b += kCols) add_outer(rows, a, row_step, b, all, kAcross);
  (store_row(rows[R], to + R * stride, kAcross), ...);
}

void multiply(const void* a, const void* b, size_t, size_t length, float* to, size_t stride) {
  multiply_rows(static_cast<const float*>(a), 1, kRows, static_cast<const float*>(b), length, to,
                stride, std::make_index_sequence<kRows>());
}

void multiply_stored(const StoredRows& a, const void* b, size_t length, float* to, size_t stride) {
  multiply_rows(static_cast<const float*>(a.rows), a.stride, 1, static_cast<const float*>(b),
                length, to, stride, std::make_index_sequence<kRows>());
}

}  // namespace

void fill_cube_kernels(CubeKernels& kernels) {
  kernels.rows = kRows;
  kernels.cols = kCols;
  kernels.pack_a = &pack_panels;
  kernels.pack_b = &pack_panels;
  kernels.multiply = &multiply;
  kernels.multiply_stored = &multiply_stored;
  kernels.finish = &finish_tile;
  kernels.pack_columns = &FloatOperands::pack_columns;
  kernels.column_multiple = kFloatLanes;
  kernels.tall_skinny_rows = &tall_skinny_rows<FloatOperands>;
  kernels.tall_skinny_columns = &tall_skinny_columns<FloatOperands>;
  kernels.flat_rows = &flat_rows<FloatOperands>;
}

}  // namespace keel::npu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace keel::npu {

HWY_EXPORT(fill_cube_kernels);

const CubeKernels& vector_cube_kernels() {
  constexpr size_t kIsas = static_cast<size_t>(vector::HostIsa::kAmx) + 1;
  static CubeKernels of_isa[kIsas];
  static std::once_flag filled[kIsas];
  const auto isa = static_cast<size_t>(vector::host_isa());
  // Once: other threads multiply by them.
  std::call_once(filled[isa], [&] { HWY_DYNAMIC_DISPATCH(fill_cube_kernels)(of_isa[isa]); });
  return of_isa[isa];
}

}  // namespace keel::npu
#endif
