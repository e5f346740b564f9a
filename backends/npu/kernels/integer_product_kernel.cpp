#include "keel/backends/npu/kernels/integer_product_kernel.h"

#include <algorithm>
#include <vector>

#include "keel/backends/common/vector/integer_product.h"
#include "keel/core/base/checked.h"

namespace keel::npu {
namespace {

// Multiply-adds that keep a host thread busy for some microseconds; less is not worth handing over.
constexpr int64_t kWorkOfABlock = int64_t{1} << 16;
constexpr int64_t kMostIntegerBlocks = 32;

// Deals the result to blocks by rows, over all products of the batch, or by columns where those are
// more: a block packs the columns that it multiplies.
class IntegerProductKernel final : public Kernel {
 public:
  explicit IntegerProductKernel(const AnchoredNode& product)
      : multiply_(vector::find_integer_multiply(product.node().type().dtype)),
        element_size_(size_of(product.node().type().dtype)) {
    const ProductMatrices& matrices = product.matrices();
    product_ = {.m = static_cast<size_t>(matrices.m),
                .n = static_cast<size_t>(matrices.n),
                .k = static_cast<size_t>(matrices.k),
                .transpose_a = matrices.a.transposed,
                .transpose_b = matrices.b.transposed};
    batch_ = matrices.batch;
    const auto count = static_cast<int64_t>(batch_.size());
    by_columns_ = product_.n > product_.m;
    side_ = static_cast<int64_t>(by_columns_ ? product_.n : product_.m);
    const int64_t work = product.node().type().shape.num_elements() *
                         static_cast<int64_t>(std::max<size_t>(1, product_.k));
    const int64_t wanted = std::clamp<int64_t>(work / kWorkOfABlock, 1, kMostIntegerBlocks);
    tiles_ =
        std::clamp<int64_t>(wanted / std::max<int64_t>(1, count), 1, std::max<int64_t>(1, side_));
    blocks_ = static_cast<int>(
        std::clamp<int64_t>(std::min(tiles_ * count, wanted), 1, kMostIntegerBlocks));
    scratch_ = align_up(std::max<size_t>(1, vector::integer_product_scratch(product_)), 64);
  }

  size_t workspace_bytes() const { return scratch_ * static_cast<size_t>(blocks_); }
  int blocks(int) const override { return blocks_; }

  void run(void* const* args, int, int block) const override {
    const int64_t all = tiles_ * static_cast<int64_t>(batch_.size());
    for (int64_t i = all * block / blocks_; i < all * (block + 1) / blocks_; ++i) {
      multiply_tile(args, static_cast<size_t>(i / tiles_), i % tiles_,
                    static_cast<char*>(args[3]) + scratch_ * static_cast<size_t>(block));
    }
  }

 private:
  void multiply_tile(void* const* args, size_t batch, int64_t tile, char* scratch) const {
    vector::IntegerProductCall call;
    const auto matrix = [&](size_t arg, int64_t start) {
      return static_cast<char*>(args[arg]) + static_cast<size_t>(start) * element_size_;
    };
    call.a = matrix(0, batch_[batch].a);
    call.b = matrix(1, batch_[batch].b);
    const auto begin = static_cast<size_t>(side_ * tile / tiles_);
    const auto end = static_cast<size_t>(side_ * (tile + 1) / tiles_);
    call.m1 = product_.m;
    call.n1 = product_.n;
    (by_columns_ ? call.n0 : call.m0) = begin;
    (by_columns_ ? call.n1 : call.m1) = end;
    call.c = matrix(2, batch_[batch].c + static_cast<int64_t>(call.m0 * product_.n + call.n0));
    call.c_stride = product_.n;
    call.scratch = scratch;
    multiply_(product_, call);
  }

  vector::IntegerMultiply multiply_;
  size_t element_size_;
  vector::IntegerProduct product_;
  std::vector<ProductMatrices::Starts> batch_;
  bool by_columns_ = false;
  int64_t side_ = 0, tiles_ = 1;
  int blocks_ = 1;
  size_t scratch_ = 0;
};

}  // namespace

Support supports_integer_product(const AnchoredNode& fused) {
  if (!fused.is_fused()) return {true, ""};
  return {false, "an integer product is a task of its own on the vector unit"};
}

KernelPlan plan_integer_product(const AnchoredNode& product) {
  auto kernel = std::make_unique<IntegerProductKernel>(product);
  KernelPlan plan;
  plan.workspace_bytes = kernel->workspace_bytes();
  plan.block_dim = kernel->blocks(0);
  plan.kind = TaskKind::kAiVectorCore;
  plan.kernel = std::move(kernel);
  return plan;
}

}  // namespace keel::npu
