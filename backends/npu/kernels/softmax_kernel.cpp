#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "keel/backends/npu/isa/softmax.h"
#include "keel/backends/npu/isa/vector_unit.h"
#include "keel/backends/npu/kernels/kernels.h"
#include "keel/core/base/error.h"
#include "keel/ops/loss.h"

namespace keel::npu {
namespace {

constexpr int64_t kElementsOfABlock = 16384;
constexpr int64_t kMostBlocks = 32;

// Rows are dealt to blocks in multiples of 16, which is what the instruction works on at once.
class RowKernel : public Kernel {
 public:
  explicit RowKernel(const Shape& logits) {
    cols_ = logits.back();
    rows_ = cols_ == 0 ? 0 : logits.num_elements() / cols_;
    blocks_ =
        static_cast<int>(std::clamp<int64_t>(rows_ * cols_ / kElementsOfABlock, 1, kMostBlocks));
    per_block_ = ((rows_ + blocks_ - 1) / blocks_ + 15) / 16 * 16;
  }
  int blocks(int) const override { return blocks_; }

 protected:
  int64_t begin_of(int block) const { return std::min(rows_, block * per_block_); }

  int64_t rows_ = 0;
  int64_t cols_ = 0;
  int64_t per_block_ = 0;
  int blocks_ = 1;
};

class SoftmaxKernel final : public RowKernel {
 public:
  SoftmaxKernel(const Node& node)
      : RowKernel(node.type().shape),
        instruction_(node.op_name() == "softmax" ? find_softmax() : find_log_softmax()) {}
  void run(void* const* args, int, int block) const override {
    const int64_t begin = begin_of(block);
    SoftmaxCall call;
    call.src = static_cast<const float*>(args[0]) + begin * cols_;
    call.dst = static_cast<float*>(args[1]) + begin * cols_;
    call.stride = call.dst_stride = call.cols = static_cast<size_t>(cols_);
    call.rows = static_cast<size_t>(begin_of(block + 1) - begin);
    if (call.rows != 0) instruction_(call);
  }

 private:
  SoftmaxInstruction instruction_;
};

class CrossEntropyKernel final : public RowKernel {
 public:
  CrossEntropyKernel(const Node& node)
      : RowKernel(node.input(0).shape()),
        gradient_(node.op_name() == "softmax_cross_entropy_grad"),
        labels_(node.input(1).dtype()),
        smoothing_(static_cast<float>(node.as<CrossEntropyOptions>().label_smoothing)),
        instruction_(find_softmax_cross_entropy()),
        multiply_(find_vector_instruction("mul", f32, f32)) {}

  void run(void* const* args, int, int block) const override {
    const int64_t begin = begin_of(block);
    CrossEntropyCall call;
    call.rows = static_cast<size_t>(begin_of(block + 1) - begin);
    if (call.rows == 0) return;
    call.logits = static_cast<const float*>(args[0]) + begin * cols_;
    call.stride = call.cols = call.gradient_stride = static_cast<size_t>(cols_);
    call.labels =
        static_cast<const char*>(args[1]) + begin * static_cast<int64_t>(size_of(labels_));
    call.label_dtype = labels_;
    call.smoothing = smoothing_;
    if (gradient_)
      call.gradient = static_cast<float*>(args[3]) + begin * cols_;
    else
      call.loss = static_cast<float*>(args[2]) + begin;
    // The mean of a batch gives all rows one factor, which the instruction applies; 1 changes no
    // bit.
    const float* upstream = gradient_ ? static_cast<const float*>(args[2]) + begin : nullptr;
    const bool one_factor =
        gradient_ && std::all_of(upstream, upstream + call.rows, [&](float factor) {
          return std::bit_cast<uint32_t>(factor) == std::bit_cast<uint32_t>(upstream[0]);
        });
    if (one_factor) call.scale = upstream[0];
    const int64_t wrong = instruction_(call);
    if (wrong >= 0) fail(begin + wrong, args[1]);
    if (gradient_ && !one_factor) scale_rows(call, upstream);
  }

 private:
  void scale_rows(const CrossEntropyCall& call, const float* upstream) const {
    for (size_t row = 0; row < call.rows; ++row) {
      VectorCall scale;
      scale.dst = call.gradient + row * call.cols;
      scale.src[0] = scale.dst;
      scale.src[1] = upstream + row;
      scale.scalar[1] = true;
      scale.n = call.cols;
      multiply_(scale);
    }
  }

  [[noreturn]] void fail(int64_t row, const void* labels) const {
    int64_t id = 0;
    if (labels_ == i64)
      id = static_cast<const int64_t*>(labels)[row];
    else if (labels_ == i32)
      id = static_cast<const int32_t*>(labels)[row];
    else
      id = static_cast<const uint8_t*>(labels)[row];
    throw Error({.op = "softmax_cross_entropy",
                 .argument = "targets",
                 .expected = "class ids from 0 to " + std::to_string(cols_ - 1),
                 .got = std::to_string(id) + " in row " + std::to_string(row)});
  }

  bool gradient_;
  DType labels_;
  float smoothing_;
  CrossEntropyInstruction instruction_;
  VectorInstruction multiply_;
};

}  // namespace

Support supports_softmax(const Node& node) {
  const std::string& op = node.op_name();
  if (op != "softmax" && op != "log_softmax" && op != "softmax_cross_entropy" &&
      op != "softmax_cross_entropy_grad") {
    return {false, "no kernel for it"};
  }
  if (node.type().dtype != f32)
    return {false, std::string("no kernel for ") + name_of(node.type().dtype)};
  if (node.inputs().size() > 1 && !is_integer(node.input(1).dtype())) {
    return {false, "no kernel for weights as targets"};
  }
  return {true, ""};
}

KernelPlan plan_softmax(const Node& node) {
  KernelPlan plan;
  if (node.inputs().size() == 1)
    plan.kernel = std::make_unique<SoftmaxKernel>(node);
  else
    plan.kernel = std::make_unique<CrossEntropyKernel>(node);
  plan.block_dim = plan.kernel->blocks(0);
  plan.kind = TaskKind::kAiVectorCore;
  return plan;
}

}  // namespace keel::npu
