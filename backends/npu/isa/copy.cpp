#include "keel/backends/npu/isa/copy.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "keel/backends/npu/isa/copy.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

#include "keel/backends/npu/isa/host_isa.h"
#include "keel/backends/npu/isa/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace keel::npu::HWY_NAMESPACE {

// Whole blocks of 32-bit elements; returns how many rows and columns they cover, through the
// references.
void transpose_words(const uint32_t* src, size_t src_stride, uint32_t* dst, size_t dst_stride,
                     size_t rows, size_t cols, size_t& done_rows, size_t& done_cols) {
  const BlockTag d;
  const hn::RebindToUnsigned<BlockTag> du;
  hn::Vec<BlockTag> block[kBlockSide];
  done_rows = rows / kBlockSide * kBlockSide;
  done_cols = cols / kBlockSide * kBlockSide;
  // Columns outermost in strips of a few blocks: writes then stay within few pages.
  constexpr size_t kStrip = 64;
  for (size_t strip = 0; strip < done_cols; strip += kStrip) {
    const size_t end = std::min(done_cols, strip + kStrip);
    for (size_t r = 0; r < done_rows; r += kBlockSide) {
      for (size_t c = strip; c < end; c += kBlockSide) {
        for (size_t i = 0; i < kBlockSide; ++i) {
          block[i] = hn::BitCast(d, hn::LoadU(du, src + (r + i) * src_stride + c));
        }
        transpose_block(block);
        for (size_t i = 0; i < kBlockSide; ++i) {
          hn::StoreU(hn::BitCast(du, block[i]), du, dst + (c + i) * dst_stride + r);
        }
      }
    }
  }
}

}  // namespace keel::npu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace keel::npu {
namespace {

HWY_EXPORT(transpose_words);

template <class F>
void with_element(size_t element_size, F f) {
  switch (element_size) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    default:
      return f(uint64_t{});
  }
}

// Rows [r0, r1) by columns [c0, c1), in squares that stay in the first cache.
template <class T>
void transpose_plain(const T* src, size_t src_stride, T* dst, size_t dst_stride, size_t r0,
                     size_t r1, size_t c0, size_t c1) {
  constexpr size_t kSquare = 32;
  for (size_t r = r0; r < r1; r += kSquare) {
    for (size_t c = c0; c < c1; c += kSquare) {
      const size_t r_end = std::min(r1, r + kSquare), c_end = std::min(c1, c + kSquare);
      for (size_t j = c; j < c_end; ++j) {
        for (size_t i = r; i < r_end; ++i) dst[j * dst_stride + i] = src[i * src_stride + j];
      }
    }
  }
}

// Dimensions of 1 left out, and neighbours that are one run in both joined; innermost last.
StridedCopy simplified(const StridedCopy& copy) {
  StridedCopy s = copy;
  s.rank = 0;
  for (int i = 0; i < copy.rank; ++i) {
    if (copy.dims[i] == 1) continue;
    const int last = s.rank - 1;
    const bool joins = last >= 0 && s.dst_strides[last] == copy.dst_strides[i] * copy.dims[i] &&
                       s.src_strides[last] == copy.src_strides[i] * copy.dims[i];
    const int to = joins ? last : s.rank++;
    s.dims[to] = joins ? s.dims[last] * copy.dims[i] : copy.dims[i];
    s.dst_strides[to] = copy.dst_strides[i];
    s.src_strides[to] = copy.src_strides[i];
  }
  return s;
}

template <class T>
void copy_line(T* dst, int64_t dst_stride, const T* src, int64_t src_stride, int64_t n) {
  if (dst_stride == 1 && src_stride == 1) {
    std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(T));
  } else if (dst_stride == 1 && src_stride == 0) {
    std::fill(dst, dst + n, *src);
  } else {
    for (int64_t i = 0; i < n; ++i) dst[i * dst_stride] = src[i * src_stride];
  }
}

// The last two dimensions of a simplified copy.
template <class T>
void copy_plane(const StridedCopy& s, T* dst, const T* src) {
  const int inner = s.rank - 1, outer = s.rank - 2;
  const int64_t rows = s.dims[outer], cols = s.dims[inner];
  const bool transposed = s.src_strides[outer] == 1 && s.dst_strides[inner] == 1 &&
                          s.src_strides[inner] > 1 && s.dst_strides[outer] > 1;
  if (transposed) {
    return transpose_2d(src, static_cast<size_t>(s.src_strides[inner]), dst,
                        static_cast<size_t>(s.dst_strides[outer]), static_cast<size_t>(cols),
                        static_cast<size_t>(rows), sizeof(T));
  }
  for (int64_t r = 0; r < rows; ++r) {
    copy_line(dst + r * s.dst_strides[outer], s.dst_strides[inner], src + r * s.src_strides[outer],
              s.src_strides[inner], cols);
  }
}

template <class T>
void copy_from(const StridedCopy& s, int dim, T* dst, const T* src) {
  if (s.rank - dim == 2) return copy_plane(s, dst, src);
  for (int64_t i = 0; i < s.dims[dim]; ++i) {
    copy_from(s, dim + 1, dst + i * s.dst_strides[dim], src + i * s.src_strides[dim]);
  }
}

template <class T>
void copy_elements(const StridedCopy& s) {
  auto* dst = static_cast<T*>(s.dst);
  const auto* src = static_cast<const T*>(s.src);
  if (s.rank == 0) {
    *dst = *src;
  } else if (s.rank == 1) {
    copy_line(dst, s.dst_strides[0], src, s.src_strides[0], s.dims[0]);
  } else {
    copy_from(s, 0, dst, src);
  }
}

}  // namespace

void copy_strided(const StridedCopy& copy) {
  for (int i = 0; i < copy.rank; ++i) {
    if (copy.dims[i] == 0) return;
  }
  const StridedCopy s = simplified(copy);
  with_element(s.element_size, [&](auto element) { copy_elements<decltype(element)>(s); });
}

void transpose_2d(const void* src, size_t src_stride, void* dst, size_t dst_stride, size_t rows,
                  size_t cols, size_t element_size) {
  with_element(element_size, [&](auto element) {
    using T = decltype(element);
    const auto* from = static_cast<const T*>(src);
    auto* to = static_cast<T*>(dst);
    size_t done_rows = 0, done_cols = 0;
    if constexpr (sizeof(T) == 4) {
      host_isa();
      HWY_DYNAMIC_DISPATCH(transpose_words)
      (from, src_stride, to, dst_stride, rows, cols, done_rows, done_cols);
    }
    transpose_plain(from, src_stride, to, dst_stride, 0, done_rows, done_cols, cols);
    transpose_plain(from, src_stride, to, dst_stride, done_rows, rows, 0, cols);
  });
}

void gather_rows(const void* src, const int64_t* indices, size_t count, size_t row_bytes,
                 void* dst) {
  constexpr size_t kAhead = 8, kLine = 64;
  const auto* from = static_cast<const char*>(src);
  auto* to = static_cast<char*>(dst);
  for (size_t i = 0; i < count; ++i) {
    if (i + kAhead < count) {
      const char* next = from + static_cast<size_t>(indices[i + kAhead]) * row_bytes;
      for (size_t b = 0; b < row_bytes; b += kLine) __builtin_prefetch(next + b);
    }
    std::memcpy(to + i * row_bytes, from + static_cast<size_t>(indices[i]) * row_bytes, row_bytes);
  }
}

void nd_to_fractal(const void* src, size_t src_stride, void* dst, size_t rows, size_t cols,
                   size_t element_size) {
  const auto* from = static_cast<const char*>(src);
  auto* to = static_cast<char*>(dst);
  const size_t line = kFractal * element_size;
  const size_t padded = (rows + kFractal - 1) / kFractal * kFractal;
  for (size_t c = 0; c < cols; c += kFractal) {
    const size_t bytes = std::min(kFractal, cols - c) * element_size;
    for (size_t r = 0; r < padded; ++r, to += line) {
      const size_t filled = r < rows ? bytes : 0;
      if (filled > 0) std::memcpy(to, from + (r * src_stride + c) * element_size, filled);
      if (filled < line) std::memset(to + filled, 0, line - filled);
    }
  }
}

void fractal_to_nd(const void* src, void* dst, size_t dst_stride, size_t rows, size_t cols,
                   size_t element_size) {
  const auto* from = static_cast<const char*>(src);
  auto* to = static_cast<char*>(dst);
  const size_t padded = (rows + kFractal - 1) / kFractal * kFractal;
  for (size_t c = 0; c < cols; c += kFractal) {
    const size_t bytes = std::min(kFractal, cols - c) * element_size;
    for (size_t r = 0; r < rows; ++r) {
      // A block column holds `padded` lines of 16 elements.
      const size_t at = c * padded + r * kFractal;
      std::memcpy(to + (r * dst_stride + c) * element_size, from + at * element_size, bytes);
    }
  }
}

}  // namespace keel::npu
#endif
