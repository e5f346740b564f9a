// Copies between global memory and the buffers of a core: strided and broadcast N-d copies,
// transposes, gathers, and the conversion between row-major (ND) and fractal (16x16 blocks) tiles.
// Element sizes are 1, 2, 4 or 8 bytes; source and destination are disjoint; strides count elements
// and may be 0 in a source (broadcast) or negative. Nothing allocates or throws; any thread.
#ifndef KEEL_BACKENDS_NPU_ISA_COPY_H
#define KEEL_BACKENDS_NPU_ISA_COPY_H

#include <cstddef>
#include <cstdint>

namespace keel::npu {

inline constexpr int kMaxCopyRank = 8;
inline constexpr size_t kFractal = 16;  // rows and columns of a fractal block

struct StridedCopy {
  void* dst = nullptr;
  const void* src = nullptr;
  size_t element_size = 4;
  int rank = 0;
  int64_t dims[kMaxCopyRank] = {};
  int64_t dst_strides[kMaxCopyRank] = {};
  int64_t src_strides[kMaxCopyRank] = {};
};
void copy_strided(const StridedCopy& copy);

// dst[c, r] = src[r, c] for r < rows, c < cols; row strides in elements.
void transpose_2d(const void* src, size_t src_stride, void* dst, size_t dst_stride, size_t rows,
                  size_t cols, size_t element_size);

// Rows of `row_bytes` bytes: dst[i] = src[indices[i]]. REQUIRES indices within the source.
void gather_rows(const void* src, const int64_t* indices, size_t count, size_t row_bytes,
                 void* dst);

// A [rows, cols] matrix as blocks of 16x16, block columns outermost: block (j, i) holds rows 16i..
// and columns 16j.., row by row. Lanes beyond the matrix are zero in the fractal form and are not
// read back.
constexpr size_t fractal_elements(size_t rows, size_t cols) noexcept {
  return (rows + kFractal - 1) / kFractal * ((cols + kFractal - 1) / kFractal) * kFractal *
         kFractal;
}
void nd_to_fractal(const void* src, size_t src_stride, void* dst, size_t rows, size_t cols,
                   size_t element_size);
void fractal_to_nd(const void* src, void* dst, size_t dst_stride, size_t rows, size_t cols,
                   size_t element_size);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_ISA_COPY_H
