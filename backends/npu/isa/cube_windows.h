// CubeWindows: windows of operand A that are multiplied where they lie on the images, without being
// copied. Where windows reach beyond an image, or its elements are not those that are multiplied, a
// copy of the images is made first: f32, with the zeros of the padding around each. A value; any
// thread.
#ifndef KEEL_BACKENDS_NPU_ISA_CUBE_WINDOWS_H
#define KEEL_BACKENDS_NPU_ISA_CUBE_WINDOWS_H

#include <cstddef>
#include <cstdint>
#include <memory>

#include "keel/backends/common/vector_call.h"
#include "keel/backends/npu/isa/cube_kernels.h"

namespace keel::npu {

class CubeWindows {
 public:
  // Returns null where the plan's kernels copy windows before they multiply them, and where A
  // has none.
  static std::shared_ptr<const CubeWindows> of(const CubePlan& plan);

  // Elements of the images' copy; 0 where the images are read as they are.
  size_t copied_elements() const;
  // Counts the lines of all copies.
  int64_t copied_lines() const;
  // Makes lines [begin, end) of them.
  void copy_lines(const void* images, const vector::ByteMap* bytes, int64_t begin, int64_t end,
                  float* to) const noexcept;

  // Writes where each of `count` rows of A begins, from row `first` on.
  void list_rows(size_t first, size_t count, size_t* places) const;
  // Writes where k's lie from a row's beginning on, as runs of elements k_step() apart; returns how
  // many runs.
  size_t list_runs(size_t k0, size_t length, CubeRun* runs) const;
  size_t k_step() const;

 private:
  CubeWindows(const CubeProblem& problem, int64_t rows);

  void list_windows(size_t first, size_t count, size_t* places) const;
  void list_columns(size_t first, size_t count, size_t* places) const;

  WindowRows stored_, read_;  // over the images as stored, and as they are multiplied
  DType dtype_;
  VectorInstruction widen_;  // images of 16 bits; null for others
  bool transposed_;          // the rows of A are columns of the matrix of windows
  bool copies_;
  int64_t images_;
};

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_ISA_CUBE_WINDOWS_H
