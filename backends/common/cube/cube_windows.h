// CubeWindows: windows of operand A that are multiplied where they lie on the images, without being
// copied. Where windows reach beyond an image, or its elements are not those that are multiplied,
// they lie on a copy of the images, of which a block makes some lines at a time: in f32, or for
// kernels of bf16 as they are stored, with the zeros of the padding around each image. A value; any
// thread.
#ifndef KEEL_BACKENDS_COMMON_CUBE_CUBE_WINDOWS_H
#define KEEL_BACKENDS_COMMON_CUBE_CUBE_WINDOWS_H

#include <cstddef>
#include <cstdint>
#include <memory>

#include "keel/backends/common/cube/cube_kernels.h"
#include "keel/backends/common/vector_call.h"

namespace keel {

class CubeWindows {
 public:
  // Returns null where the plan's kernels copy windows before they multiply them, and where A
  // has none.
  static std::shared_ptr<const CubeWindows> of(const CubePlan& plan);

  // Says whether windows lie on a copy of the images; else they lie on the images as they are.
  bool copies() const { return copies_; }
  // Lines of the copies of all images, one image behind the other.
  struct Lines {
    int64_t begin = 0, end = 0;
  };
  // Returns those to which `count` windows from `first` on reach. REQUIRES one at least.
  Lines lines_of(size_t first, size_t count) const;
  // Returns the most to which any `count` neighbouring windows reach.
  int64_t most_lines(size_t count) const;
  size_t line_elements() const { return static_cast<size_t>(read_.axes[0].pitch); }
  size_t line_bytes() const { return line_elements() * element_size_; }
  // Makes these lines; `to` is where the first of them begins.
  void copy_lines(const void* images, const vector::ByteMap* bytes, Lines lines,
                  void* to) const noexcept;

  // Writes where each of `count` rows of A begins, from row `first` on. Places of windows, here and
  // below, are counted from the beginning of line `first_line` on.
  void list_rows(size_t first, size_t count, int64_t first_line, size_t* places) const;
  // Writes where k's lie from a row's beginning on, as runs of elements k_step() apart; returns how
  // many runs.
  size_t list_runs(size_t k0, size_t length, int64_t first_line, CubeRun* runs) const;
  // Says whether rows of A are multiplied line by line of windows: where there are few k's, and no
  // long runs of them or tiles that a line nearly fills.
  bool by_lines() const { return by_lines_; }
  // Writes where each of these k's lies from a row's beginning on. REQUIRES by_lines.
  void list_k(size_t k0, size_t length, size_t* places) const { list_columns(k0, length, places); }
  // Where the first window of a line lies; lines of all images, one behind the other.
  size_t place_of_line(size_t line, int64_t first_line) const;
  // Windows of a line, and elements from one to the next.
  size_t line_windows() const { return static_cast<size_t>(read_.axes[1].windows); }
  size_t line_step() const { return static_cast<size_t>(read_.axes[1].step * read_.axes[1].pitch); }
  size_t k_step() const;

 private:
  CubeWindows(const CubeProblem& problem, const CubeKernels& kernels);
  // Returns null where elements are f32 and not rounded.
  static VectorInstruction widening(const CubeProblem& problem);

  void list_windows(size_t first, size_t count, int64_t first_line, size_t* places) const;
  void list_columns(size_t first, size_t count, size_t* places) const;
  size_t list_runs_of_windows(size_t k0, size_t length, int64_t first_line, CubeRun* runs) const;
  bool takes_lines(size_t k, size_t tile_rows) const;
  void copy_floats(const void* images, const vector::ByteMap* bytes, Lines lines,
                   float* to) const noexcept;
  void copy_stored(const void* images, Lines lines, char* to) const noexcept;
  void copy_line(const char* from, const vector::ByteMap* bytes, float* to) const noexcept;
  void round_line(const char* from, size_t count, float* to) const noexcept;

  WindowRows stored_, read_;  // over the images as stored, and as they are multiplied
  DType dtype_;
  size_t element_size_;      // of what is multiplied
  VectorInstruction round_;  // images of f32 that are multiplied as bf16; null for others
  VectorInstruction widen_;  // images of 16 bits, or rounded ones; null for others
  bool transposed_;          // the rows of A are columns of the matrix of windows
  bool copies_;
  bool by_lines_;
};

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_CUBE_CUBE_WINDOWS_H
