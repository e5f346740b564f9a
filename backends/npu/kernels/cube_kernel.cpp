#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "keel/backends/common/broadcast.h"
#include "keel/backends/common/float_status.h"
#include "keel/backends/npu/isa/cube.h"
#include "keel/backends/npu/isa/vector_unit.h"
#include "keel/backends/npu/kernels/kernels.h"
#include "keel/core/base/checked.h"
#include "keel/core/base/parallel_for.h"
#include "keel/ops/matmul.h"

namespace keel::npu {
namespace {

// Multiply-adds that keep a host thread busy for ten microseconds; less is not worth handing over.
constexpr int64_t kWorkOfABlock = int64_t{1} << 20;
constexpr int64_t kMostBlocks = 32;

// Splits C of each product in the batch into row or column bands. Results of f16 and bf16 products
// that are not wide are accumulated in f32 in the workspace and rounded in a second phase.
class CubeKernel final : public Kernel {
 public:
  CubeKernel(const Node& node, bool saturate_f16)
      : dtype_(node.input(0).dtype()), result_(node.type().dtype), saturate_f16_(saturate_f16) {
    const auto& attributes = node.as<MatmulAttributes>();
    const Shape& a = node.input(0).shape();
    const Shape& b = node.input(1).shape();
    const Shape& c = node.type().shape;
    CubeProblem problem;
    problem.m = static_cast<size_t>(c[c.rank() - 2]);
    problem.n = static_cast<size_t>(c[c.rank() - 1]);
    problem.k = static_cast<size_t>(a[a.rank() - (attributes.transpose_a ? 2 : 1)]);
    problem.a = problem.b = dtype_;
    problem.transpose_a = attributes.transpose_a;
    problem.transpose_b = attributes.transpose_b;
    plan_ = plan_cube(problem);
    batch_a_ = matrices_of_batch(a, c);
    batch_b_ = matrices_of_batch(b, c);
    count_ = static_cast<int64_t>(batch_a_.size());
    cut_bands();
    results_ = static_cast<size_t>(c.num_elements());
  }

  size_t workspace_bytes() const {
    const size_t wide = result_ == f32 ? 0 : align_up(results_ * sizeof(float), 64);
    return wide + static_cast<size_t>(blocks_) * scratch_;
  }
  // In the word behind the workspace.
  bool reports_status() const { return saturate_f16_ && result_ == f16 && results_ != 0; }
  int phases() const override { return result_ == f32 ? 1 : 2; }
  int blocks(int phase) const override { return phase == 0 ? blocks_ : 1; }

  void run(void* const* args, int phase, int block) const override {
    auto* workspace = static_cast<char*>(args[3]);
    if (phase == 1) {
      VectorCall call;
      call.dst = args[2];
      call.src[0] = workspace;
      call.n = results_;
      uint32_t status = 0;
      call.status = &status;
      find_vector_instruction("cast", f32, result_, saturate_f16_)(call);
      if (reports_status()) raise_float_status(args[4], status);
      return;
    }
    float* c = static_cast<float*>(result_ == f32 ? args[2] : static_cast<void*>(workspace));
    const size_t wide = result_ == f32 ? 0 : align_up(results_ * sizeof(float), 64);
    char* scratch = workspace + wide + static_cast<size_t>(block) * scratch_;
    const int64_t all = bands_ * count_;
    for (int64_t i = all * block / blocks_; i < all * (block + 1) / blocks_; ++i) {
      multiply(args, c, i / bands_, i % bands_, scratch);
    }
  }

 private:
  void cut_bands() {
    const auto m = static_cast<int64_t>(plan_.problem.m);
    const auto n = static_cast<int64_t>(plan_.problem.n);
    const int64_t work = m * n * std::max<int64_t>(1, static_cast<int64_t>(plan_.problem.k));
    // Each band packs the other operand anew: no more of them than the threads can share evenly,
    // and cut where what is packed again is the smaller one. The bits are the same for any bands.
    const int64_t shares = (2 * compute_threads() + count_ - 1) / std::max<int64_t>(1, count_);
    const int64_t wanted =
        std::clamp<int64_t>(std::min(shares, work / kWorkOfABlock), 1, kMostBlocks);
    by_columns_ = n > m;
    const int64_t side = by_columns_ ? n : m;
    const int64_t step = by_columns_ ? 64 : 16;
    band_ = std::max(step, ((side + wanted - 1) / wanted + step - 1) / step * step);
    bands_ = std::max<int64_t>(1, (side + band_ - 1) / band_);
    const int64_t worth = std::max<int64_t>(1, work * count_ / kWorkOfABlock);
    blocks_ =
        static_cast<int>(std::clamp<int64_t>(std::min(bands_ * count_, worth), 1, kMostBlocks));
    const CubeRange range = band(0);
    scratch_ = align_up(cube_scratch_bytes(plan_, range.m1 - range.m0, range.n1 - range.n0), 64);
  }

  CubeRange band(int64_t index) const {
    const auto begin = static_cast<size_t>(index * band_);
    const auto length = static_cast<size_t>(band_);
    const CubeProblem& p = plan_.problem;
    if (by_columns_) return {0, p.m, begin, std::min(p.n, begin + length)};
    return {begin, std::min(p.m, begin + length), 0, p.n};
  }

  void multiply(void* const* args, float* c, int64_t batch, int64_t index, void* scratch) const {
    const CubeProblem& p = plan_.problem;
    const auto at = static_cast<size_t>(batch);
    const size_t size = size_of(dtype_);
    CubeArgs cube;
    cube.a =
        static_cast<const char*>(args[0]) + static_cast<size_t>(batch_a_[at]) * p.m * p.k * size;
    cube.b =
        static_cast<const char*>(args[1]) + static_cast<size_t>(batch_b_[at]) * p.k * p.n * size;
    cube.a_stride = p.transpose_a ? p.m : p.k;
    cube.b_stride = p.transpose_b ? p.k : p.n;
    cube.c = c + at * p.m * p.n;
    cube.c_stride = p.n;
    const CubeRange range = band(index);
    if (range.m1 > range.m0 && range.n1 > range.n0) cube_block(plan_, cube, range, scratch);
  }

  DType dtype_;   // of the operands
  DType result_;  // f32 as accumulated, or the operands'
  bool saturate_f16_;
  CubePlan plan_;
  int64_t count_ = 1;
  std::vector<int64_t> batch_a_, batch_b_;
  bool by_columns_ = false;
  int64_t band_ = 0;
  int64_t bands_ = 1;
  int blocks_ = 1;
  size_t scratch_ = 0;
  size_t results_ = 0;
};

}  // namespace

Support supports_matmul(const Node& node) {
  const DType dtype = node.input(0).dtype();
  if (dtype == f32 || dtype == f16 || dtype == bf16) return {true, ""};
  return {false,
          std::string("the cube has no ") + name_of(dtype) + "; it multiplies f32, f16 and bf16"};
}

KernelPlan plan_matmul(const Node& node, bool saturate_f16) {
  auto kernel = std::make_unique<CubeKernel>(node, saturate_f16);
  KernelPlan plan;
  plan.workspace_bytes = kernel->workspace_bytes();
  plan.float_status = kernel->reports_status();
  plan.block_dim = kernel->blocks(0);
  plan.kernel = std::move(kernel);
  return plan;
}

}  // namespace keel::npu
