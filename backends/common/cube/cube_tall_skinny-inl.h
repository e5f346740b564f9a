// The kernels for tall-skinny products, with few columns or rows of C (at most 16), share this.
// A register tile of the general kernel would be mostly padding there, and the other operand is
// read where it lies. How A is stored decides which kernel a product takes:
// cube_tall_skinny_rows-inl.h, cube_tall_skinny_columns-inl.h. Both are written for any lanes
// (cube_lanes-inl.h); what depends on them is a struct of Operands. Included once per Highway
// target.
#if defined(KEEL_BACKENDS_COMMON_CUBE_CUBE_TALL_SKINNY_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef KEEL_BACKENDS_COMMON_CUBE_CUBE_TALL_SKINNY_INL_H
#undef KEEL_BACKENDS_COMMON_CUBE_CUBE_TALL_SKINNY_INL_H
#else
#define KEEL_BACKENDS_COMMON_CUBE_CUBE_TALL_SKINNY_INL_H
#endif

#include "hwy/highway.h"

#include "keel/backends/common/cube/cube_kernels.h"
#include "keel/backends/common/cube/cube_lanes-inl.h"
#include "keel/backends/common/cube/cube_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace keel::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Registers for accumulators decide what a tile of C is.
#if HWY_TARGET == HWY_AVX3
constexpr bool kManyRegisters = true;
#else
constexpr bool kManyRegisters = false;
#endif

inline const void* element_at(const void* data, DType dtype, size_t index) {
  return static_cast<const char*>(data) + index * size_of(dtype);
}

// One part of C, whose sums are tile [rows, tile_stride].
inline void finish_part(const TallSkinnyCall& call, const CubeRange& part, const float* tile,
                        size_t tile_stride) {
  TileCall finish;
  finish.tile = tile;
  finish.tile_stride = tile_stride;
  finish.rows = part.m1 - part.m0;
  finish.cols = part.n1 - part.n0;
  finish.c =
      call.args.c + (part.m0 - call.args.c_row) * call.args.c_stride + part.n0 - call.args.c_column;
  finish.c_stride = call.args.c_stride;
  finish_tile(finish);
}

}  // namespace keel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // KEEL_BACKENDS_COMMON_CUBE_CUBE_TALL_SKINNY_INL_H
