// WindowBuffer: windows of an operand that are copied from the images before they are packed, or
// multiplied from the copy. Memory is the walk's scratch (block_scratch.h). Internal to this
// folder; used by one thread.
#ifndef KEEL_BACKENDS_COMMON_CUBE_WINDOW_BUFFER_H
#define KEEL_BACKENDS_COMMON_CUBE_WINDOW_BUFFER_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "keel/backends/common/cube/block_scratch.h"
#include "keel/backends/common/cube/cube.h"
#include "keel/backends/common/cube/cube_kernels.h"
#include "keel/backends/common/window_copy.h"

namespace keel {

class WindowBuffer {
 public:
  WindowBuffer(const CubePlan& plan, char* buffer)
      : problem_(plan.problem), kernels_(*plan.kernels), buffer_(buffer) {}

  // A block of rows that are windows. A kernel that reads stored rows finds them in the buffer,
  // with zeros up to whole tiles.
  void pack_rows(const PackCall& pack, bool reads_stored) const {
    const WindowRows& windows = *problem_.a_windows;
    if (!reads_stored) {
      const size_t columns = pack.k_contiguous ? pack.length : pack.count;
      return kernels_.pack_a(copied(pack, windows, columns));
    }
    const size_t depth = round_up(pack.length, kernels_.k_multiple);
    const size_t rows = round_up(pack.count, kernels_.rows);
    const size_t row_bytes = window_stride(depth, size_of(pack.dtype)) * size_of(pack.dtype);
    if (depth != pack.length) std::memset(buffer_, 0, pack.count * row_bytes);
    copied(pack, windows, depth);
    std::memset(buffer_ + pack.count * row_bytes, 0, (rows - pack.count) * row_bytes);
  }

  // The panels of columns that are windows.
  void pack_columns(const PackCall& all) const {
    const size_t depth = round_up(all.length, kernels_.k_multiple);
    PackCall pack = all;
    for (size_t j = 0; j < all.count; j += kernels_.cols) {
      pack.first = all.first + j;
      pack.count = std::min(kernels_.cols, all.count - j);
      pack.dst = static_cast<char*>(all.dst) + j * depth * kernels_.packed_size;
      const size_t columns = pack.k_contiguous ? pack.length : pack.count;
      kernels_.pack_b(copied(pack, *problem_.b_windows, columns));
    }
  }

 private:
  // Copies the windows that a pack is to read into the buffer, whose rows have room for `columns`,
  // and returns a pack that reads that.
  PackCall copied(PackCall pack, const WindowRows& windows, size_t columns) const {
    const size_t stride = window_stride(columns, size_of(pack.dtype));
    const auto first = static_cast<int64_t>(pack.first), count = static_cast<int64_t>(pack.count);
    const auto k0 = static_cast<int64_t>(pack.k0), length = static_cast<int64_t>(pack.length);
    const MatrixPart part = pack.k_contiguous ? MatrixPart{first, count, k0, length}
                                              : MatrixPart{k0, length, first, count};
    copy_windows(windows, pack.src, size_of(pack.dtype), part, buffer_, stride);
    pack.src = buffer_;
    pack.stride = stride;
    pack.rows = nullptr;
    pack.first = pack.k0 = 0;
    return pack;
  }

  const CubeProblem& problem_;
  const CubeKernels& kernels_;
  char* buffer_;
};

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_CUBE_WINDOW_BUFFER_H
