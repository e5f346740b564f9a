#include <algorithm>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

// Packed panels live on the stack: a step allocates nothing.
#define EIGEN_STACK_ALLOCATION_LIMIT (3 * 1024 * 1024)
#define EIGEN_DONT_PARALLELIZE
// Never element by element (multiply_small says why).
#define EIGEN_GEMM_TO_COEFFBASED_THRESHOLD 0
#include <Eigen/Core>

#include "keel/backends/common/broadcast.h"
#include "keel/backends/common/product_epilogue.h"
#include "keel/backends/cpu/instructions.h"
#include "keel/backends/cpu/kernels.h"
#include "keel/core/base/checked.h"
#include "keel/core/tensor/buffer.h"
#include "keel/core/tensor/convert.h"
#include "keel/ops/matmul.h"
#include "keel/ops/product_bound.h"
#include "keel/ops/scalar_rules.h"

namespace keel::cpu {
namespace {

// One tile of C: rows [m0, m1), columns [n0, n1).
struct Tile {
  int64_t m0, m1, n0, n1;
};

struct Product {
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false;
  bool transpose_b = false;
};

Product product_of(const Node& node) {
  const auto& attributes = node.as<MatmulAttributes>();
  const Shape& a = node.input(0).shape();
  const Shape& c = node.type().shape;
  return {.m = c[c.rank() - 2],
          .n = c[c.rank() - 1],
          .k = a[a.rank() - (attributes.transpose_a ? 2 : 1)],
          .transpose_a = attributes.transpose_a,
          .transpose_b = attributes.transpose_b};
}

constexpr int64_t kWork = int64_t{4} << 20, kLeastWork = kWork / 16;  // multiply-adds of a tile

// Tiles of about 4 million multiply-adds, smaller products in two; cut along the longer side in
// steps of the kernel, which takes few of C's rows and many of its columns at once.
struct Cut {
  explicit Cut(const Product& p) : along_n(p.n >= p.m) {
    const int64_t work = p.m * p.n * std::max<int64_t>(1, p.k);
    const int64_t wanted =
        std::clamp<int64_t>(std::max(work / kWork, std::min<int64_t>(2, work / kLeastWork)), 1, 64);
    const int64_t side = along_n ? p.n : p.m;
    const int64_t step = along_n ? 16 : 4;
    tile = std::max(step, ((side + wanted - 1) / wanted + step - 1) / step * step);
    tiles = std::max<int64_t>(1, (side + tile - 1) / tile);
  }
  bool along_n;
  int64_t tile = 0, tiles = 1;
};

template <class T, int kOrder>
using Operand = Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, kOrder>, 0,
                           Eigen::OuterStride<>>;
template <class T>
using Result = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>, 0,
                          Eigen::OuterStride<>>;

// Eigen sums what fits its packed panels by itself and adds these sums up, but for products with a
// vector: there the sums of panels of kLongestProductPanel are added up here, for some elements of
// C at a time, so that no chain of roundings is longer.
template <class T, class Left, class Right>
void multiply_by_panels(const Left& left, const Right& right, Result<T>& out) {
  constexpr int64_t kPart = 256;
  T sums[kPart];
  const int64_t k = left.cols(), m = left.rows(), n = right.cols();
  for (int64_t at = 0; at < m * n; at += kPart) {
    const int64_t count = std::min(kPart, m * n - at);
    const int64_t i = n == 1 ? at : 0, j = n == 1 ? 0 : at;
    const int64_t rows = n == 1 ? count : 1, columns = n == 1 ? 1 : count;
    Result<T> part(sums, rows, columns, Eigen::OuterStride<>(columns));
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

template <class T, int kA, int kB>
void multiply(const T* a, int64_t a_stride, const T* b, int64_t b_stride, T* c, int64_t c_stride,
              int64_t m, int64_t n, int64_t k) {
  const Operand<T, kA> left(a, m, k, Eigen::OuterStride<>(a_stride));
  const Operand<T, kB> right(b, k, n, Eigen::OuterStride<>(b_stride));
  Result<T> out(c, m, n, Eigen::OuterStride<>(c_stride));
  if ((m == 1 || n == 1) && k > kLongestProductPanel)
    multiply_by_panels<T>(left, right, out);
  else
    out.noalias() = left * right;
}

// Products so small that packing them would take longer than multiplying.
bool is_small(int64_t m, int64_t n, int64_t k) { return m + n + k < 20; }

// Eigen computes small products element by element, in an order that depends on whether the result
// is aligned in memory: here it is that of k, wherever the operands and the result are.
template <class T, bool kContiguousB>
void multiply_small(const Product& p, const T* a, const T* b, T* c, int64_t c_stride,
                    const Tile& t) {
  T sums[20];
  for (int64_t i = t.m0; i < t.m1; ++i, c += c_stride) {
    std::fill_n(sums, t.n1 - t.n0, T{0});
    for (int64_t k = 0; k < p.k; ++k) {
      const T x = p.transpose_a ? a[k * p.m + i] : a[i * p.k + k];
      const T* y = kContiguousB ? b + k * p.n + t.n0 : b + t.n0 * p.k + k;
      const int64_t step = kContiguousB ? 1 : p.k;
      for (int64_t j = 0; j < t.n1 - t.n0; ++j) sums[j] += x * y[j * step];
    }
    std::copy_n(sums, t.n1 - t.n0, c);
  }
}

template <class T>
void float_tile(const Product& p, const T* a, const T* b, T* c, int64_t c_stride, const Tile& t) {
  if (is_small(t.m1 - t.m0, t.n1 - t.n0, p.k)) {
    return p.transpose_b ? multiply_small<T, false>(p, a, b, c, c_stride, t)
                         : multiply_small<T, true>(p, a, b, c, c_stride, t);
  }
  constexpr int kRow = Eigen::RowMajor;
  constexpr int kColumn = Eigen::ColMajor;
  const int64_t m = t.m1 - t.m0;
  const int64_t n = t.n1 - t.n0;
  const int64_t a_stride = p.transpose_a ? p.m : p.k;
  const int64_t b_stride = p.transpose_b ? p.k : p.n;
  a += p.transpose_a ? t.m0 : t.m0 * p.k;
  b += p.transpose_b ? t.n0 * p.k : t.n0;
  if (p.transpose_a && p.transpose_b) {
    multiply<T, kColumn, kColumn>(a, a_stride, b, b_stride, c, c_stride, m, n, p.k);
  } else if (p.transpose_a) {
    multiply<T, kColumn, kRow>(a, a_stride, b, b_stride, c, c_stride, m, n, p.k);
  } else if (p.transpose_b) {
    multiply<T, kRow, kColumn>(a, a_stride, b, b_stride, c, c_stride, m, n, p.k);
  } else {
    multiply<T, kRow, kRow>(a, a_stride, b, b_stride, c, c_stride, m, n, p.k);
  }
}

template <class T>
void integer_tile(const Product& p, const T* a, const T* b, T* c, int64_t c_stride, const Tile& t) {
  for (int64_t i = t.m0; i < t.m1; ++i) {
    T* row = c + (i - t.m0) * c_stride;
    std::fill_n(row, t.n1 - t.n0, T{0});
    for (int64_t k = 0; k < p.k; ++k) {
      const T x = p.transpose_a ? a[k * p.m + i] : a[i * p.k + k];
      for (int64_t j = t.n0; j < t.n1; ++j) {
        const T y = p.transpose_b ? b[j * p.k + k] : b[k * p.n + j];
        row[j - t.n0] = scalar::add(row[j - t.n0], scalar::mul(x, y));
      }
    }
  }
}

// Halves are widened to f32 in the workspace (phase 0), multiplied (phase 1) and, unless the
// product is wide, rounded (phase 2). With an epilogue each tile of C is computed in the block's
// workspace and goes through it there.
class MatmulKernel final : public Kernel {
 public:
  explicit MatmulKernel(const AnchoredNode& fused)
      : p_(product_of(fused.anchor())),
        cut_(p_),
        dtype_(fused.anchor().input(0).dtype()),
        half_(size_of(dtype_) == 2),
        wide_(fused.anchor().as<MatmulAttributes>().wide),
        a_at_(fused.source(0).value()),
        b_at_(fused.source(1).value()),
        outputs_at_(fused.node().inputs().size()),
        workspace_at_(outputs_at_ + fused.node().types().size()) {
    const Node& node = fused.anchor();
    const Shape& a = node.input(0).shape();
    const Shape& b = node.input(1).shape();
    const Shape& c = node.type().shape;
    if (fused.has_epilogue()) epilogue_.emplace(fused, find_instruction, make_row_op);
    batch_a_ = matrices_of_batch(a, c);
    batch_b_ = matrices_of_batch(b, c);
    count_ = static_cast<int64_t>(batch_a_.size());
    const int64_t worth = p_.m * p_.n * std::max<int64_t>(1, p_.k) * count_ / kLeastWork;
    blocks_ = static_cast<int>(
        std::clamp<int64_t>(std::min(cut_.tiles * count_, std::max<int64_t>(1, worth)), 1, 64));
    counts_[0] = a.num_elements();
    counts_[1] = b.num_elements();
    counts_[2] = c.num_elements();
  }

  size_t workspace_bytes() const {
    return widened_bytes() + static_cast<size_t>(blocks_) * block_bytes();
  }
  std::vector<KernelPlan::InPlace> in_place() const {
    return epilogue_ ? epilogue_->in_place() : std::vector<KernelPlan::InPlace>{};
  }
  int phases() const override { return !half_ ? 1 : wide_ ? 2 : 3; }
  int product_phase() const { return half_ ? 1 : 0; }
  int blocks(int phase) const override {
    if (!half_ || phase == 1) return blocks_;
    return blocks_of_cast(phase == 0 ? counts_[0] + counts_[1] : counts_[2]);
  }

  void run(void* const* args, int phase, int block) const override {
    if (!half_) {
      multiply_block(args, args[a_at_], args[b_at_], args[outputs_at_], block);
      return;
    }
    auto* a = static_cast<float*>(args[workspace_at_]);
    float* parts[3] = {a, a + counts_[0], a + counts_[0] + counts_[1]};
    if (phase == 1) {
      multiply_block(args, parts[0], parts[1], wide_ ? args[outputs_at_] : parts[2], block);
      return;
    }
    if (phase == 0) {
      cast_share(args[a_at_], dtype_, parts[0], f32, 0, phase, block);
      cast_share(args[b_at_], dtype_, parts[1], f32, 1, phase, block);
    } else {
      cast_share(parts[2], f32, args[outputs_at_], dtype_, 2, phase, block);
    }
  }

 private:
  Tile tile(int64_t index) const {
    const int64_t begin = index * cut_.tile;
    if (cut_.along_n) return {0, p_.m, begin, std::min(p_.n, begin + cut_.tile)};
    return {begin, std::min(p_.m, begin + cut_.tile), 0, p_.n};
  }

  size_t widened_bytes() const {
    const int64_t result = wide_ ? 0 : counts_[2];
    const auto count = static_cast<size_t>(counts_[0] + counts_[1] + result);
    return half_ ? align_up(count * sizeof(float), Buffer::kAlignment) : 0;
  }
  size_t piece_bytes() const {
    if (!epilogue_) return 0;
    const int64_t columns = cut_.along_n ? std::min(p_.n, cut_.tile) : p_.n;
    return align_up(static_cast<size_t>(piece_rows() * columns) * size_of(half_ ? f32 : dtype_),
                    Buffer::kAlignment);
  }
  int64_t piece_rows() const { return cut_.along_n ? p_.m : std::min(p_.m, cut_.tile); }
  // A piece of C and what row-wise ops need beside it.
  size_t block_bytes() const {
    if (!epilogue_) return 0;
    const size_t rows = epilogue_->scratch_bytes(static_cast<size_t>(piece_rows()));
    return piece_bytes() + align_up(rows, Buffer::kAlignment);
  }

  static int blocks_of_cast(int64_t elements) {
    constexpr int64_t kWorthABlock = 32768;
    return static_cast<int>(std::clamp<int64_t>(elements / kWorthABlock, 1, 64));
  }

  // The block's share of the elements of a, b or c (part 0, 1 or 2) from one dtype to another.
  void cast_share(const void* from, DType from_dtype, void* to, DType to_dtype, int part, int phase,
                  int block) const {
    const int64_t begin = counts_[part] * block / blocks(phase);
    const int64_t end = counts_[part] * (block + 1) / blocks(phase);
    VectorCall call;
    call.dst = static_cast<char*>(to) + static_cast<size_t>(begin) * size_of(to_dtype);
    call.src[0] = static_cast<const char*>(from) + static_cast<size_t>(begin) * size_of(from_dtype);
    call.n = static_cast<size_t>(end - begin);
    find_cast(from_dtype, to_dtype)(call);
  }

  // left, right and result: the operands as multiplied, and C where there is no epilogue.
  void multiply_block(void* const* args, const void* left, const void* right, void* result,
                      int block) const {
    const int64_t all = cut_.tiles * count_;
    for (int64_t i = all * block / blocks_; i < all * (block + 1) / blocks_; ++i) {
      const auto batch = static_cast<size_t>(i / cut_.tiles);
      const Tile t = tile(i % cut_.tiles);
      if (t.m1 <= t.m0 || t.n1 <= t.n0) continue;
      visit_dtype(half_ ? f32 : dtype_, [&]<class T>() {
        if constexpr (!is_half_type<T> && !std::is_same_v<T, bool>) {
          const T* a = static_cast<const T*>(left) + batch_a_[batch] * p_.m * p_.k;
          const T* b = static_cast<const T*>(right) + batch_b_[batch] * p_.k * p_.n;
          if (epilogue_) {
            T* piece = static_cast<T*>(piece_of(args, block));
            multiply_tile(a, b, piece, t.n1 - t.n0, t);
            finish(args, piece, static_cast<int64_t>(batch), t);
          } else {
            T* c = static_cast<T*>(result) + static_cast<int64_t>(batch) * p_.m * p_.n;
            multiply_tile(a, b, c + t.m0 * p_.n + t.n0, p_.n, t);
          }
        }
      });
    }
  }

  void* piece_of(void* const* args, int block) const {
    return static_cast<char*>(args[workspace_at_]) + widened_bytes() +
           static_cast<size_t>(block) * block_bytes();
  }

  void finish(void* const* args, void* piece, int64_t batch, const Tile& t) const {
    const TileRectangle where{batch * p_.m + t.m0, t.m1 - t.m0, t.n0, t.n1 - t.n0};
    epilogue_->run(args, piece, where, where.columns, static_cast<char*>(piece) + piece_bytes());
  }

  // c: where the tile begins.
  template <class T>
  void multiply_tile(const T* a, const T* b, T* c, int64_t c_stride, const Tile& t) const {
    if constexpr (std::is_floating_point_v<T>)
      float_tile(p_, a, b, c, c_stride, t);
    else
      integer_tile(p_, a, b, c, c_stride, t);
  }

  Product p_;
  Cut cut_;
  DType dtype_;
  bool half_;
  bool wide_;
  size_t a_at_, b_at_, outputs_at_, workspace_at_;  // numbers of arguments
  std::optional<ProductEpilogue> epilogue_;
  int64_t count_ = 1;
  std::vector<int64_t> batch_a_, batch_b_;
  int64_t counts_[3] = {0, 0, 0};
  int blocks_ = 1;
};

Support supports_matmul(const AnchoredNode& fused) {
  for (size_t i = 0; i < fused.anchor().inputs().size(); ++i) {
    if (fused.has_prologue(i) || !fused.source(i)) {
      return {false, "its products read operands as they are"};
    }
  }
  const Type& result = fused.anchor().type();
  if (fused.has_epilogue() && size_of(result.dtype) == 2) {
    return {false, std::string("a product of ") + name_of(result.dtype) + " is rounded by itself"};
  }
  const Cut cut(product_of(fused.anchor()));
  if (!fused.rows().empty() && cut.along_n && cut.tiles > 1) {
    return {false, "a product of " + to_string(result.shape) + " is computed by columns"};
  }
  return supports_epilogue(fused, find_instruction, make_row_op);
}

KernelPlan plan_matmul(const AnchoredNode& node) {
  auto kernel = std::make_unique<MatmulKernel>(node);
  KernelPlan plan;
  plan.in_place = kernel->in_place();
  plan.workspace_bytes = kernel->workspace_bytes();
  plan.block_dim = kernel->blocks(kernel->product_phase());
  plan.kernel = std::move(kernel);
  return plan;
}

}  // namespace

// The size of the tiles follows from the shape alone, so that the result does not depend on the
// number of threads.
std::span<const KernelRow> product_rows() {
  static const KernelRow rows[] = {
      {.ops = {"matmul"}, .supports = supports_matmul, .plan = plan_matmul}};
  return rows;
}

}  // namespace keel::cpu
