// The cube: C[m, n] = A[m, k] x B[k, n] with f32 accumulation. A CubePlan is made once
// per product, when a program is compiled; cube_block then computes any rectangle of C,
// independently of every other, on any thread.
//
// Numeric plan: k is cut into panels whose length follows from k alone (cube_k_panel); a panel's
// products are summed one by one from zero, panels are added in order. Products with n <= 16 and A
// stored [m, k], or m <= 16 and B stored [n, k], sum over k in the lanes of the host's vectors
// instead, unless an operand is made of windows or, of the second, rows are to be alone; the former
// do so for each half of a k from 640 on, and the halves' sums are added. Where k is several parts
// (ops/sums/part_sums.h), each part is summed so by itself, and the parts' sums are added as a tree.
// Either way an element's bits depend on the shape, the dtypes, the transposes and the host ISA,
// never on the rectangle it was computed in.
#ifndef KEEL_BACKENDS_COMMON_CUBE_CUBE_H
#define KEEL_BACKENDS_COMMON_CUBE_CUBE_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "keel/backends/common/vector/byte_map.h"
#include "keel/backends/common/vector/product_kernels.h"
#include "keel/core/base/dtype.h"
#include "keel/core/base/function_ref.h"
#include "keel/ops/products/window_rows.h"

namespace keel {

// Windows of so few channels are widened and multiplied where they lie by kernels of all kinds.
inline constexpr int64_t kFewWindowChannels = 8;

struct CubeProblem {
  size_t m = 0, n = 0, k = 0;
  // As stored: f32, f16 or bf16; or a is u8, and the product has a byte map.
  DType a = f32, b = f32;
  // bf16: operands that are stored in f32, or as bytes, are rounded to it as they are loaded. Both
  // operands are multiplied in one dtype.
  DType round_to = f32;
  bool transpose_a = false;  // A is stored [k, m]
  bool transpose_b = false;  // B is stored [n, k]
  size_t parts = 1;          // of k, all equal
  bool rows_alone = false;   // the kernel does not depend on m
  // CubeArgs::b is a copy of B that cube_pack made (cube_takes_packed, cube_shares_packed).
  bool packed_b = false;
  // The rows of an operand as stored, where they are windows over images, zero where these are
  // padded. Those of A are multiplied where they lie, on the images or on a copy of some of their
  // lines, if the plan's kernels can; others are copied as they are loaded, some rows of one panel
  // of k at a time.
  std::optional<WindowRows> a_windows, b_windows;
};

struct CubeArgs {
  const void* a = nullptr;  // of windows: the first image
  size_t a_stride = 0;      // elements between the rows of A as stored
  // Where each row of A as stored begins, in elements from `a`, where they do not follow each
  // other.
  const size_t* a_rows = nullptr;
  const void* b = nullptr;
  size_t b_stride = 0;
  float* c = nullptr;  // C[c_row, c_column], the only part of C that is there where these are not 0
  size_t c_stride = 0;
  size_t c_row = 0, c_column = 0;
  // Where each line of C's rows begins, in elements from `c`, from that of row c_row on, where
  // lines do not follow each other (cube_places_lines). A line is as many rows as A's windows are
  // across. REQUIRES that row c_row begins one.
  const size_t* c_lines = nullptr;
  bool adds = false;  // to what is in C, where cube_adds says that the plan can
  const vector::ByteMap* bytes = nullptr;  // for a = u8
};

struct CubeRange {
  size_t m0 = 0, m1 = 0, n0 = 0, n1 = 0;
};
// A part of B, which is [k, n].
struct CubePart {
  size_t k0 = 0, k1 = 0, n0 = 0, n1 = 0;
};

struct CubeKernels;  // of one host ISA
class CubeWindows;
class CubeTaps;

struct CubePlan {
  CubeProblem problem;
  const CubeKernels* kernels = nullptr;
  size_t k_panel = 0;
  // Set where windows of A can be multiplied where they lie: at most one of the two.
  std::shared_ptr<const CubeTaps> taps;
  std::shared_ptr<const CubeWindows> windows;
};

// Length of the panels that k, or each part of it, is cut into (the last may be shorter).
size_t cube_k_panel(size_t k) noexcept;

// Resolves the kernels for the host ISA in use; those of bf16 are what product_kernels() chooses
// for the shape. Windows of few channels are an exception: they are widened, for tiles those of
// kFewWindowChannels, and up to 15 where C has few columns, for pairs those of 16.
// Throws Error when it has none for the dtypes.
CubePlan plan_cube(const CubeProblem& problem);

// Resolves the named kernel. REQUIRES that the host ISA in use has it for the dtypes.
CubePlan plan_cube_by(const CubeProblem& problem, vector::ProductKernel kernel);

// Returns the class of a shape, which of k counts a part alone; all products that may share a
// packed copy of B are in one.
vector::ShapeClass cube_shape_class(const CubeProblem& problem) noexcept;

// The same kernels for a problem that differs only in where the windows lie.
CubePlan cube_over(const CubePlan& plan, const CubeProblem& problem);

// Says whether C has more than 16 rows and columns.
bool cube_is_wide(const CubeProblem& problem) noexcept;

// Says whether B of a product of this shape may be packed beforehand: one copy then serves all
// products with this k and n that may, on every host ISA.
bool cube_takes_packed(const CubeProblem& problem) noexcept;

// Says whether all rectangles of this plan's C may take B from one packed copy, whatever other
// products with this B do.
bool cube_shares_packed(const CubePlan& plan) noexcept;

// Says whether cube_block can add the product to C, each element in one addition.
bool cube_adds(const CubePlan& plan) noexcept;

// Says whether rectangles of C may take B as it is stored, so that none of them packs it.
bool cube_leaves_stored(const CubePlan& plan) noexcept;

// Says whether windows of A over f32 images, which do not reach beyond these, are multiplied on
// them as they are.
bool cube_multiplies_images(const CubePlan& plan) noexcept;

// Says whether cube_block can write lines of C's rows to places of their own (CubeArgs::c_lines).
bool cube_places_lines(const CubePlan& plan) noexcept;

// A packed copy of the whole of B, for the plan's kernels. Its bytes; what k and n of its parts
// have to be multiples of where a part does not end with B; and a part of it written, padding
// included, from B as stored. Parts may be written by several threads at once.
size_t cube_packed_bytes(const CubePlan& plan) noexcept;
struct CubePackStep {
  size_t k = 1, n = 1;
};
CubePackStep cube_pack_step(const CubePlan& plan) noexcept;
void cube_pack(const CubePlan& plan, const void* b, size_t b_stride, const CubePart& part,
               void* packed) noexcept;
// The same for part `share` of `shares` that make up all of B.
void cube_pack_share(const CubePlan& plan, const void* b, size_t b_stride, int64_t share,
                     int64_t shares, void* packed) noexcept;

// Rows and columns of C that its kernel computes at once: what rectangles are best made of.
struct CubeStep {
  size_t rows = 1, columns = 1;
};
CubeStep cube_step(const CubePlan& plan) noexcept;

// Bytes of scratch that cube_block wants for a rectangle of at most rows x cols; never zero.
size_t cube_scratch_bytes(const CubePlan& plan, size_t rows, size_t cols) noexcept;

// Says whether the kernel sums over the halves of k, each by itself: these are its panels
// (cube_panels), and a product of A's transpose reads the columns of each half alone.
bool cube_halves_k(const CubePlan& plan) noexcept;

// Computes C[m0..m1, n0..n1]. Of A it reads rows m0..m1 alone, of B columns n0..n1. If B is packed
// in panels, n0 must be a multiple of the columns of cube_pack_step(plan). `scratch` is aligned to
// 64 bytes and used by this call alone. REQUIRES that C overlaps neither A nor B. Neither allocates
// nor throws.
void cube_block(const CubePlan& plan, const CubeArgs& args, const CubeRange& range, void* scratch);

// Counts the panels of k whose sums can be computed by themselves; 1 where the kernel has no such.
// Then the sums of one, a rectangle of them in their place in `sums`, which is [m, n]: all panels'
// added up in order are C, bit for bit, or the panels of each part so and then the parts as a tree.
// REQUIRES of the second that there are several.
size_t cube_panels(const CubePlan& plan) noexcept;
void cube_panel(const CubePlan& plan, const CubeArgs& args, size_t panel, const CubeRange& range,
                void* scratch, float* sums);

// The same as cube_block in pieces, for what is done to sums while a cache has them: each piece of
// the rectangle is computed into `sums`, its rows one behind the other, and handed over. args.c and
// what belongs to it are not used.
void cube_pieces(const CubePlan& plan, const CubeArgs& args, const CubeRange& range, void* scratch,
                 float* sums, FunctionRef<void(const CubeRange&)> finished);
// The most elements of such a piece for a rectangle of at most rows x cols.
size_t cube_piece_elements(const CubePlan& plan, size_t rows, size_t cols) noexcept;
// Pieces of a rectangle with more columns than this do not have whole rows of it.
size_t cube_widest_piece(const CubePlan& plan) noexcept;

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_CUBE_CUBE_H
