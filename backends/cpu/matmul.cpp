#include <algorithm>
#include <bit>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

// Packed panels live on the stack: a step allocates nothing.
#define EIGEN_STACK_ALLOCATION_LIMIT (3 * 1024 * 1024)
#define EIGEN_DONT_PARALLELIZE
// Never element by element (multiply_small says why).
#define EIGEN_GEMM_TO_COEFFBASED_THRESHOLD 0
#include <Eigen/Core>

#include "keel/backends/common/product_epilogue.h"
#include "keel/backends/common/products/cube_kernel.h"
#include "keel/backends/common/products/phased_product_kernel.h"
#include "keel/backends/common/products/winograd_kernel.h"
#include "keel/backends/common/vector/element_kernels.h"
#include "keel/backends/common/vector/instructions.h"
#include "keel/backends/common/vector/integer_product.h"
#include "keel/backends/common/vector/softmax_rows.h"
#include "keel/backends/common/vector/widened_rows.h"
#include "keel/backends/common/window_copy.h"
#include "keel/backends/cpu/kernels.h"
#include "keel/backends/cpu/product_cut.h"
#include "keel/core/base/checked.h"
#include "keel/core/tensor/buffer.h"
#include "keel/ops/product_bound.h"

namespace keel::cpu {
namespace {

constexpr int64_t kMostBlocks = 64,
                  kMostLoading = 16;  // those that load an operand have a buffer each

template <int kOrder>
using Factor = Eigen::Map<const Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, kOrder>, 0,
                          Eigen::OuterStride<>>;
using Result = Eigen::Map<Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>, 0,
                          Eigen::OuterStride<>>;

// Eigen sums what fits its packed panels by itself and adds these sums up, but for products with a
// vector: there the sums of panels of kLongestProductPanel are added up here, for some elements of
// C at a time, so that no chain of roundings is longer.
template <class Left, class Right>
void multiply_by_panels(const Left& left, const Right& right, Result& out) {
  constexpr int64_t kPart = 256;
  double sums[kPart];
  const int64_t k = left.cols(), m = left.rows(), n = right.cols();
  for (int64_t at = 0; at < m * n; at += kPart) {
    const int64_t count = std::min(kPart, m * n - at);
    const int64_t i = n == 1 ? at : 0, j = n == 1 ? 0 : at;
    const int64_t rows = n == 1 ? count : 1, columns = n == 1 ? 1 : count;
    Result part(sums, rows, columns, Eigen::OuterStride<>(columns));
    for (int64_t k0 = 0; k0 < k; k0 += kLongestProductPanel) {
      const int64_t length = std::min(kLongestProductPanel, k - k0);
      part.noalias() = left.block(i, k0, rows, length) * right.block(k0, j, length, columns);
      if (k0 == 0)
        out.block(i, j, rows, columns) = part;
      else
        out.block(i, j, rows, columns) += part;
    }
  }
}

template <int kA, int kB>
void multiply(const double* a, int64_t a_stride, const double* b, int64_t b_stride, double* c,
              int64_t c_stride, int64_t m, int64_t n, int64_t k, bool first) {
  const Factor<kA> left(a, m, k, Eigen::OuterStride<>(a_stride));
  const Factor<kB> right(b, k, n, Eigen::OuterStride<>(b_stride));
  Result out(c, m, n, Eigen::OuterStride<>(c_stride));
  if (!first)
    out.noalias() += left * right;
  else if ((m == 1 || n == 1) && k > kLongestProductPanel)
    multiply_by_panels(left, right, out);
  else
    out.noalias() = left * right;
}

// A part of an operand where it is multiplied, with as many k as the sums have.
struct Part {
  const double* at = nullptr;
  int64_t stride = 0;  // elements from a row as stored to the next
  bool transposed = false;
};

// Products so small that packing them would take longer than multiplying.
bool is_small(int64_t m, int64_t n, int64_t k) { return m + n + k < 20; }

// Eigen computes small products element by element, in an order that depends on whether the result
// is aligned in memory: here it is that of k, wherever the operands and the result are.
template <bool kContiguousB>
void multiply_small(const Part& a, const Part& b, double* c, int64_t c_stride, int64_t m, int64_t n,
                    int64_t k) {
  double sums[20];
  for (int64_t i = 0; i < m; ++i, c += c_stride) {
    std::fill_n(sums, n, 0.0);
    for (int64_t p = 0; p < k; ++p) {
      const double x = a.transposed ? a.at[p * a.stride + i] : a.at[i * a.stride + p];
      const double* y = kContiguousB ? b.at + p * b.stride : b.at + p;
      const int64_t step = kContiguousB ? 1 : b.stride;
      for (int64_t j = 0; j < n; ++j) sums[j] += x * y[j * step];
    }
    std::copy_n(sums, n, c);
  }
}

// C [m, n] becomes the product of two parts over k, or gains it where that is not its first. A
// product that is_small is one part; one whose rows are to be alone is so for any of them.
void multiply_parts(const Part& a, const Part& b, double* c, int64_t c_stride, int64_t m, int64_t n,
                    int64_t k, bool first, bool rows_alone = false) {
  if (first && is_small(rows_alone ? Cut::kRows : m, n, k)) {
    return b.transposed ? multiply_small<false>(a, b, c, c_stride, m, n, k)
                        : multiply_small<true>(a, b, c, c_stride, m, n, k);
  }
  constexpr int kRow = Eigen::RowMajor;
  constexpr int kColumn = Eigen::ColMajor;
  if (a.transposed && b.transposed) {
    multiply<kColumn, kColumn>(a.at, a.stride, b.at, b.stride, c, c_stride, m, n, k, first);
  } else if (a.transposed) {
    multiply<kColumn, kRow>(a.at, a.stride, b.at, b.stride, c, c_stride, m, n, k, first);
  } else if (b.transposed) {
    multiply<kRow, kColumn>(a.at, a.stride, b.at, b.stride, c, c_stride, m, n, k, first);
  } else {
    multiply<kRow, kRow>(a.at, a.stride, b.at, b.stride, c, c_stride, m, n, k, first);
  }
}

// How much is multiplied at once: all of a tile, or where operands are windows as much of them as
// is loaded into a buffer that the second cache has room for. Follows from the shape alone.
struct Loads {
  explicit Loads(const ProductMatrices& p) : rows(p.m), columns(p.n), depth(p.k) {
    if (p.a.windows || p.b.windows) load_windows(p);
    if (p.rows_alone) rest = Cut::kRows * (depth + columns);
  }
  void load_windows(const ProductMatrices& p) {
    const int64_t panels = (p.k + kLongestProductPanel - 1) / kLongestProductPanel;
    depth = (p.k + panels - 1) / panels;
    const int64_t most = std::max<int64_t>(16, kLoaded / depth / 16 * 16);
    if (p.a.windows) rows = std::min(rows, most);
    if (p.b.windows) columns = std::min(columns, most);
    if (p.a.windows) left = rows * depth;
    if (p.b.windows) right = columns * depth;
  }
  static constexpr int64_t kLoaded = int64_t{1} << 17;  // elements
  int64_t rows, columns, depth;
  int64_t left = 0, right = 0;  // elements of the buffers
  int64_t rest = 0;             // of that for multiply_rest
};

// Rows of A, or columns of B, [first, first + count) over [k0, k0 + depth): where they are, or in
// the buffer. along_k: rows as stored lie along k.
Part part_of(const ProductMatrices::Operand& operand, bool along_k, const double* matrix,
             int64_t first, int64_t count, int64_t k0, int64_t depth, double* buffer) {
  const MatrixPart part =
      along_k ? MatrixPart{first, count, k0, depth} : MatrixPart{k0, depth, first, count};
  if (!operand.windows) {
    const double* at = matrix + part.row * operand.stride + part.column;
    return {at, operand.stride, operand.transposed};
  }
  copy_windows(*operand.windows, matrix, sizeof(double), part, buffer,
               static_cast<size_t>(part.columns));
  return {buffer, part.columns, operand.transposed};
}

// The last rows of a tile whose rows are to be alone, fewer than the kernel takes at once: as many
// as it takes, zeros among them, in a buffer of kRows * (depth + columns) elements.
void multiply_rest(Part left, int64_t count, const Part& right, double* c, int64_t c_stride,
                   int64_t columns, int64_t depth, bool first, double* buffer) {
  constexpr int64_t kRows = Cut::kRows;
  double* const sums = buffer + kRows * depth;
  std::fill(buffer, sums, 0.0);
  const int64_t stride = left.transposed ? kRows : depth;
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t k = 0; k < depth; ++k) {
      if (left.transposed)
        buffer[k * stride + i] = left.at[k * left.stride + i];
      else
        buffer[i * stride + k] = left.at[i * left.stride + k];
    }
    if (!first) std::copy_n(c + i * c_stride, columns, sums + i * columns);
  }
  if (!first) std::fill(sums + count * columns, sums + kRows * columns, 0.0);
  left.at = buffer;
  left.stride = stride;
  multiply_parts(left, right, sums, columns, kRows, columns, depth, first);
  for (int64_t i = 0; i < count; ++i) std::copy_n(sums + i * columns, columns, c + i * c_stride);
}

// `buffer`: room for what Loads says.
void f64_tile(const ProductMatrices& p, const Loads& loads, const double* a, const double* b,
              double* c, int64_t c_stride, const Tile& t, double* buffer) {
  for (int64_t n0 = t.n0; n0 < t.n1; n0 += loads.columns) {
    const int64_t columns = std::min(loads.columns, t.n1 - n0);
    int64_t k0 = 0;
    do {
      const int64_t depth = std::min(loads.depth, p.k - k0);
      const Part right =
          part_of(p.b, p.b.transposed, b, n0, columns, k0, depth, buffer + loads.left);
      for (int64_t m0 = t.m0; m0 < t.m1; m0 += loads.rows) {
        const int64_t rows = std::min(loads.rows, t.m1 - m0);
        const Part left = part_of(p.a, !p.a.transposed, a, m0, rows, k0, depth, buffer);
        double* const to = c + (m0 - t.m0) * c_stride + n0 - t.n0;
        const int64_t rest = p.rows_alone ? rows % Cut::kRows : 0, whole = rows - rest;
        if (whole != 0)
          multiply_parts(left, right, to, c_stride, whole, columns, depth, k0 == 0, p.rows_alone);
        if (rest != 0) {
          Part last = left;
          last.at += left.transposed ? whole : whole * left.stride;
          multiply_rest(last, rest, right, to + whole * c_stride, c_stride, columns, depth, k0 == 0,
                        buffer + loads.left + loads.right);
        }
      }
      k0 += loads.depth;
    } while (k0 < p.k);
  }
}

vector::IntegerProduct integer_product_of(const ProductMatrices& p) {
  return {static_cast<size_t>(p.m), static_cast<size_t>(p.n), static_cast<size_t>(p.k),
          p.a.transposed, p.b.transposed};
}

template <class T>
void integer_tile(const ProductMatrices& p, const T* a, const T* b, T* c, int64_t c_stride,
                  const Tile& t, vector::IntegerMultiply multiply, void* scratch) {
  vector::IntegerProductCall call;
  call.a = a;
  call.b = b;
  call.c = c;
  call.c_stride = static_cast<size_t>(c_stride);
  call.m0 = static_cast<size_t>(t.m0);
  call.m1 = static_cast<size_t>(t.m1);
  call.n0 = static_cast<size_t>(t.n0);
  call.n1 = static_cast<size_t>(t.n1);
  call.scratch = scratch;
  multiply(integer_product_of(p), call);
}

// A tile of C that has an epilogue is computed in the block's workspace and goes on from there.
// Operands that are windows are loaded into the workspace a piece at a time.
class ProductKernel final : public Kernel {
 public:
  explicit ProductKernel(const AnchoredNode& fused)
      : p_(fused.matrices().parts == 1 ? fused.matrices() : matrices_of_part(fused.anchor())),
        cut_(p_),
        loads_(p_),
        dtype_(fused.anchor().input(0).dtype()),
        multiply_integers_(vector::find_integer_multiply(dtype_)),
        a_at_(fused.source(p_.a.input).value()),
        b_at_(fused.source(p_.b.input).value()),
        outputs_at_(fused.node().inputs().size()),
        workspace_at_(outputs_at_ + fused.node().types().size()) {
    if (fused.has_epilogue())
      epilogue_.emplace(fused, vector::instruction_lookup(), vector::make_softmax_rows,
                        p_.c_stride);
    count_ = static_cast<int64_t>(p_.batch.size());
    const int64_t worth = p_.m * p_.n * std::max<int64_t>(1, p_.k) * p_.parts * count_ / kLeastWork;
    blocks_ = static_cast<int>(
        std::clamp<int64_t>(std::min(cut_.tiles * count_, std::max<int64_t>(1, worth)), 1,
                            p_.a.windows || p_.b.windows ? kMostLoading : kMostBlocks));
  }

  size_t workspace_bytes() const { return static_cast<size_t>(blocks_) * block_bytes(); }
  std::vector<KernelPlan::InPlace> in_place() const {
    return epilogue_ ? epilogue_->in_place() : std::vector<KernelPlan::InPlace>{};
  }
  int blocks(int) const override { return blocks_; }

  void run(void* const* args, int, int block) const override {
    const int64_t all = cut_.tiles * count_;
    for (int64_t i = all * block / blocks_; i < all * (block + 1) / blocks_; ++i)
      multiply(args, static_cast<size_t>(i / cut_.tiles), tile(i % cut_.tiles), block);
  }

 private:
  Tile tile(int64_t index) const {
    const int64_t begin = index * cut_.tile;
    if (cut_.along_n) return {0, p_.m, begin, std::min(p_.n, begin + cut_.tile)};
    return {begin, std::min(p_.m, begin + cut_.tile), 0, p_.n};
  }

  size_t tile_bytes() const {
    const int64_t columns = cut_.along_n ? std::min(p_.n, cut_.tile) : p_.n;
    return align_up(static_cast<size_t>(tile_rows() * columns) * size_of(dtype_),
                    Buffer::kAlignment);
  }
  size_t sums_bytes() const { return epilogue_ ? tile_bytes() : 0; }
  // The sums of later parts: each time that the tree of parts is halved, one more waits.
  size_t later_parts_bytes() const {
    const auto levels = static_cast<size_t>(std::bit_width(static_cast<uint64_t>(p_.parts - 1)));
    return levels * tile_bytes();
  }
  int64_t tile_rows() const { return cut_.along_n ? p_.m : std::min(p_.m, cut_.tile); }
  // Buffers that operands are loaded into, a tile of C, and what row-wise ops need beside it.
  size_t block_bytes() const {
    return loaded_bytes() + sums_bytes() + rows_bytes() + later_parts_bytes();
  }
  size_t loaded_bytes() const {
    if (is_integer(dtype_)) {
      return align_up(vector::integer_product_scratch(integer_product_of(p_)), Buffer::kAlignment);
    }
    const auto elements = static_cast<size_t>(loads_.left + loads_.right + loads_.rest);
    return align_up(elements * size_of(dtype_), Buffer::kAlignment);
  }
  size_t rows_bytes() const {
    if (!epilogue_) return 0;
    const size_t rows = epilogue_->scratch_bytes(static_cast<size_t>(tile_rows()));
    return align_up(rows, Buffer::kAlignment);
  }

  void multiply(void* const* args, size_t batch, const Tile& t, int block) const {
    if (t.m1 <= t.m0 || t.n1 <= t.n0) return;
    visit_dtype(dtype_, [&]<class T>() {
      if constexpr (std::is_same_v<T, double> ||
                    (std::is_integral_v<T> && !std::is_same_v<T, bool>)) {
        const ProductMatrices::Starts& at = p_.batch[batch];
        const T* a = static_cast<const T*>(args[a_at_]) + at.a;
        const T* b = static_cast<const T*>(args[b_at_]) + at.b;
        T* loaded = static_cast<T*>(block_of(args, block));
        T* later = static_cast<T*>(later_parts_of(args, block));
        if (epilogue_) {
          T* sums = static_cast<T*>(sums_of(args, block));
          add_parts(a, b, sums, t.n1 - t.n0, t, loaded, later);
          finish(args, sums, at.c, t);
        } else {
          T* c = static_cast<T*>(args[outputs_at_]) + at.c + t.m0 * p_.c_stride + t.n0;
          add_parts(a, b, c, p_.c_stride, t, loaded, later);
        }
      }
    });
  }

  void* block_of(void* const* args, int block) const {
    if (block_bytes() == 0) return nullptr;
    return static_cast<char*>(args[workspace_at_]) + static_cast<size_t>(block) * block_bytes();
  }
  void* sums_of(void* const* args, int block) const {
    return static_cast<char*>(block_of(args, block)) + loaded_bytes();
  }

  void* later_parts_of(void* const* args, int block) const {
    if (p_.parts == 1) return nullptr;
    return static_cast<char*>(block_of(args, block)) + block_bytes() - later_parts_bytes();
  }

  // A tile's sums over all parts of k go to c.
  template <class T>
  void add_parts(const T* a, const T* b, T* c, int64_t c_stride, const Tile& t, T* loaded,
                 T* later) const {
    if (p_.parts == 1) return multiply_tile(a, b, c, c_stride, t, loaded);
    add_parts_between(0, p_.parts, a, b, c, c_stride, t, loaded, later);
  }
  template <class T>
  void add_parts_between(int64_t begin, int64_t end, const T* a, const T* b, T* c, int64_t c_stride,
                         const Tile& t, T* loaded, T* later) const {
    if (end - begin == 1) {
      return multiply_tile(a + begin * p_.part_step.a, b + begin * p_.part_step.b, c, c_stride, t,
                           loaded);
    }
    const int64_t middle = begin + (end - begin) / 2, rows = t.m1 - t.m0, columns = t.n1 - t.n0;
    T* const behind = later + tile_bytes() / sizeof(T);
    add_parts_between(begin, middle, a, b, c, c_stride, t, loaded, later);
    add_parts_between(middle, end, a, b, later, columns, t, loaded, behind);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) c[i * c_stride + j] += later[i * columns + j];
  }

  // Takes a tile of sums through the epilogue. `start`: the element of the result that C begins
  // with.
  void finish(void* const* args, void* sums, int64_t start, const Tile& t) const {
    const int64_t columns = t.n1 - t.n0;
    const TileRectangle where{start / p_.c_stride + t.m0, t.m1 - t.m0, start % p_.c_stride + t.n0,
                              columns};
    epilogue_->run(args, sums, where, columns, static_cast<char*>(sums) + sums_bytes());
  }

  // c: where the tile begins.
  template <class T>
  void multiply_tile(const T* a, const T* b, T* c, int64_t c_stride, const Tile& t,
                     T* loaded) const {
    if constexpr (std::is_floating_point_v<T>)
      f64_tile(p_, loads_, a, b, c, c_stride, t, loaded);
    else
      integer_tile(p_, a, b, c, c_stride, t, multiply_integers_, loaded);
  }

  ProductMatrices p_;
  Cut cut_;
  Loads loads_;
  DType dtype_;
  vector::IntegerMultiply multiply_integers_;       // null for floats
  size_t a_at_, b_at_, outputs_at_, workspace_at_;  // numbers of arguments
  std::optional<ProductEpilogue> epilogue_;
  int64_t count_ = 1;
  int blocks_ = 1;
};

Support supports_product(const AnchoredNode& fused) {
  if (!fused.why_no_matrices().empty()) return {false, fused.why_no_matrices()};
  const ProductMatrices& matrices = fused.matrices();
  if ((matrices.a.windows || matrices.b.windows) && !is_float(fused.anchor().input(0).dtype())) {
    return {false, "windows of integers are not multiplied as they are loaded"};
  }
  const Cut cut(matrices);
  for (size_t i = 0; i < fused.anchor().inputs().size(); ++i) {
    if (!fused.source(i)) return {false, "an operand is not made of one stored value"};
    if (fused.has_prologue(i)) return {false, "its kernel takes no ops before an operand"};
  }
  const Type& result = fused.anchor().type();
  if (!fused.row_wise().empty() && matrices.n != result.shape.back()) {
    return {false, "a row of " + to_string(result.shape) + " is no row of a product"};
  }
  if (!fused.row_wise().empty() && cut.along_n && cut.tiles > 1) {
    return {false, "a product of " + to_string(result.shape) + " is computed by columns"};
  }
  return supports_epilogue(fused, vector::instruction_lookup(), vector::make_softmax_rows);
}

KernelPlan plan_product(const AnchoredNode& node) {
  auto kernel = std::make_unique<ProductKernel>(node);
  KernelPlan plan;
  plan.in_place = kernel->in_place();
  plan.workspace_bytes = kernel->workspace_bytes();
  plan.block_dim = kernel->blocks(0);
  plan.kernel = std::move(kernel);
  return plan;
}

// Says whether the cube multiplies it: 16-bit floats, for which it has the processor's tiles and
// dot products, and f32, of which it was measured at 0.93 to 0.96 of the multiply-add peak where
// Eigen was at 0.71 to 0.75. Follows from the dtype alone, fused or not.
bool goes_to_the_cube(const AnchoredNode& node) {
  const DType dtype = node.anchor().input(0).dtype();
  return dtype == f32 || vector::is_half(dtype);
}

KernelPlan plan_on_the_cube(const AnchoredNode& node) {
  SharedEpilogues epilogues(/*saturate_f16=*/false);
  const StateLayouts none;
  return plan_cube_kernel(node, {none, epilogues});
}

KernelPlan plan_phased(const AnchoredNode& node) { return plan_phases(node, false); }

KernelPlan plan_transformed_tiles(const AnchoredNode& node) { return plan_winograd(node, false); }

}  // namespace

// The size of Eigen's tiles follows from the shape alone, so that the result does not depend on the
// number of threads.
std::span<const KernelEntry> product_entries() {
  static const KernelEntry entries[] = {
      {.matches = has_winograd_form, .supports = supports_winograd, .plan = plan_transformed_tiles},
      {.ops = {"conv2d_input_gradient"},
       .matches = has_phases,
       .supports = supports_phases,
       .plan = plan_phased},
      {.ops = {"matmul", "conv2d", "conv2d_input_gradient", "conv2d_weight_gradient"},
       .matches = goes_to_the_cube,
       .supports = supports_cube,
       .plan = plan_on_the_cube},
      {.ops = {"matmul", "conv2d", "conv2d_input_gradient", "conv2d_weight_gradient"},
       .supports = supports_product,
       .plan = plan_product}};
  return entries;
}

}  // namespace keel::cpu
