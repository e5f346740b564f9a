#include "keel/backends/common/vector/softmax_rows.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "keel/backends/common/vector/instructions.h"
#include "keel/backends/common/vector/softmax.h"
#include "keel/backends/common/vector/softmax_gradient.h"
#include "keel/backends/common/vector/widened_rows.h"
#include "keel/core/base/error.h"
#include "keel/graph/ir/graph.h"
#include "keel/ops/loss.h"
#include "keel/ops/scalar_rules.h"

namespace keel::vector {
namespace {

constexpr int64_t kSoftmaxElementsOfABlock = 16384;
constexpr int64_t kMostSoftmaxBlocks = 32;

enum class Kind : uint8_t {
  kSoftmax,
  kLogSoftmax,
  kSoftmaxGradient,
  kLogSoftmaxGradient,
  kLoss,
  kGradient
};

// The names stand in the order of the kinds.
constexpr std::string_view kOps[] = {"softmax",
                                     "log_softmax",
                                     "softmax_gradient",
                                     "log_softmax_gradient",
                                     "softmax_cross_entropy",
                                     "softmax_cross_entropy_grad"};

std::optional<Kind> find_kind(const Node& node) {
  const auto op = std::find(std::begin(kOps), std::end(kOps), node.op_name());
  if (op == std::end(kOps)) return std::nullopt;
  return static_cast<Kind>(op - std::begin(kOps));
}

// REQUIRES one of them.
Kind kind_of(const Node& node) { return find_kind(node).value(); }

class SoftmaxRows final : public RowOp {
 public:
  SoftmaxRows(const Node& node, DType dtype)
      : columns_(node.input(0).shape().back()),
        row_bytes_(columns_ * static_cast<int64_t>(size_of(dtype))),
        instruction_(kind_of(node) == Kind::kSoftmax ? find_softmax(dtype)
                                                     : find_log_softmax(dtype)) {}

  void run(void* const* args, int64_t begin, int64_t end, void*) const override {
    SoftmaxCall call;
    call.src = static_cast<const char*>(args[0]) + begin * row_bytes_;
    call.dst = static_cast<char*>(args[1]) + begin * row_bytes_;
    call.stride = call.dst_stride = call.cols = static_cast<size_t>(columns_);
    call.rows = static_cast<size_t>(end - begin);
    instruction_(call);
  }

 private:
  int64_t columns_, row_bytes_;
  SoftmaxInstruction instruction_;
};

// Computes the gradient in f32. That of the logarithm has its probabilities in the place of its
// result.
class SoftmaxGradientRows final : public RowOp {
 public:
  explicit SoftmaxGradientRows(const Node& node)
      : columns_(node.input(0).shape().back()),
        softmax_(kind_of(node) == Kind::kLogSoftmaxGradient ? find_softmax(f32) : nullptr),
        instruction_(softmax_ != nullptr ? find_log_softmax_gradient() : find_softmax_gradient()) {}

  void run(void* const* args, int64_t begin, int64_t end, void*) const override {
    SoftmaxGradientCall call;
    call.rows = static_cast<size_t>(end - begin);
    call.cols = static_cast<size_t>(columns_);
    call.probabilities = static_cast<const float*>(args[0]) + begin * columns_;
    call.upstream = static_cast<const float*>(args[1]) + begin * columns_;
    call.dst = static_cast<float*>(args[2]) + begin * columns_;
    if (softmax_ != nullptr) {
      softmax_({call.probabilities, call.cols, call.dst, call.cols, call.rows, call.cols});
      call.probabilities = call.dst;
    }
    instruction_(call);
  }

 private:
  int64_t columns_;
  SoftmaxInstruction softmax_;
  SoftmaxGradientInstruction instruction_;
};

bool has_targets(const Node& node) { return kind_of(node) >= Kind::kLoss; }
bool is_gradient(const Node& node) { return kind_of(node) == Kind::kGradient; }
bool is_gradient_of_softmax(const Node& node) {
  return !has_targets(node) && node.inputs().size() > 1;
}

// The loss of each row, its gradient, or both from one pass over the logits.
class CrossEntropyRows final : public RowOp {
 public:
  CrossEntropyRows(std::span<const Node* const> nodes, DType dtype)
      : columns_(nodes[0]->input(0).shape().back()),
        dtype_(dtype),
        labels_(nodes[0]->input(1).dtype()),
        smoothing_(nodes[0]->as<CrossEntropyOptions>().label_smoothing),
        instruction_(find_softmax_cross_entropy(dtype_)),
        multiply_(find_instruction("mul", dtype_, dtype_)) {
    size_t inputs = 0;
    for (const Node* node : nodes) {
      if (is_gradient(*node)) upstream_at_ = inputs + 2;
      inputs += node->inputs().size();
    }
    for (size_t i = 0; i < nodes.size(); ++i) {
      (is_gradient(*nodes[i]) ? gradient_at_ : loss_at_) = inputs + i;
    }
  }

  void run(void* const* args, int64_t begin, int64_t end, void*) const override {
    dtype_ == f64 ? run_rows<double>(args, begin, end) : run_rows<float>(args, begin, end);
  }

 private:
  template <class T>
  void run_rows(void* const* args, int64_t begin, int64_t end) const {
    CrossEntropyCall call;
    call.rows = static_cast<size_t>(end - begin);
    call.logits = static_cast<const T*>(args[0]) + begin * columns_;
    call.stride = call.cols = call.gradient_stride = static_cast<size_t>(columns_);
    call.labels =
        static_cast<const char*>(args[1]) + begin * static_cast<int64_t>(size_of(labels_));
    call.label_dtype = labels_;
    call.smoothing = smoothing_;
    if (loss_at_ != 0) call.loss = static_cast<T*>(args[loss_at_]) + begin;
    if (gradient_at_ == 0) return check(instruction_(call), call.labels, begin);
    T* gradient = static_cast<T*>(args[gradient_at_]) + begin * columns_;
    call.gradient = gradient;
    // The mean of a batch gives all rows one factor, which the instruction applies; 1 changes no
    // bit.
    const T* upstream = static_cast<const T*>(args[upstream_at_]) + begin;
    const auto bits = [](T factor) { return std::bit_cast<scalar::FloatBits<T>>(factor); };
    const bool one_factor = std::all_of(upstream, upstream + call.rows,
                                        [&](T factor) { return bits(factor) == bits(*upstream); });
    if (one_factor) call.scale = static_cast<double>(upstream[0]);
    check(instruction_(call), call.labels, begin);
    if (!one_factor) scale_rows(call, gradient, upstream);
  }

  template <class T>
  void scale_rows(const CrossEntropyCall& call, T* gradient, const T* upstream) const {
    for (size_t row = 0; row < call.rows; ++row) {
      VectorCall scale;
      scale.dst = gradient + row * call.cols;
      scale.src[0] = scale.dst;
      scale.src[1] = upstream + row;
      scale.scalar[1] = true;
      scale.n = call.cols;
      multiply_(scale);
    }
  }

  // `wrong`: of the rows from `begin`, whose labels are given, the one whose label is none; or -1.
  void check(int64_t wrong, const void* labels, int64_t begin) const {
    if (wrong < 0) return;
    int64_t id = 0;
    if (labels_ == i64)
      id = static_cast<const int64_t*>(labels)[wrong];
    else if (labels_ == i32)
      id = static_cast<const int32_t*>(labels)[wrong];
    else
      id = static_cast<const uint8_t*>(labels)[wrong];
    throw Error({.op = loss_at_ == 0 ? "softmax_cross_entropy_grad" : "softmax_cross_entropy",
                 .argument = "targets",
                 .expected = "class ids from 0 to " + std::to_string(columns_ - 1),
                 .got = std::to_string(id) + " in row " + std::to_string(begin + wrong)});
  }

  int64_t columns_;
  DType dtype_, labels_;
  double smoothing_;
  CrossEntropyInstruction instruction_;
  VectorInstruction multiply_;
  size_t upstream_at_ = 0, loss_at_ = 0, gradient_at_ = 0;  // arguments; 0: none
};

// Returns whether a node and another are the loss of some rows and its gradient.
bool belong_together(const Node& a, const Node& b) {
  return a.input(1) == b.input(1) && is_gradient(a) != is_gradient(b) &&
         a.as<CrossEntropyOptions>().label_smoothing == b.as<CrossEntropyOptions>().label_smoothing;
}

// Returns what computes nodes that are supported in a dtype that there are instructions for; null
// where there is none for all of them at once.
std::unique_ptr<RowOp> make_rows(std::span<const Node* const> nodes, DType dtype) {
  const Node& first = *nodes[0];
  if (!has_targets(first)) {
    if (nodes.size() > 1) return nullptr;
    if (is_gradient_of_softmax(first)) return std::make_unique<SoftmaxGradientRows>(first);
    return std::make_unique<SoftmaxRows>(first, dtype);
  }
  if (nodes.size() > 2) return nullptr;
  if (nodes.size() == 2 && (!has_targets(*nodes[1]) || !belong_together(first, *nodes[1])))
    return nullptr;
  return std::make_unique<CrossEntropyRows>(nodes, dtype);
}

// Multiples of 16, which is what the instructions work on at once.
int64_t rows_of_block(const Shape& logits) {
  const int64_t columns = std::max<int64_t>(1, logits.back());
  const int64_t rows = logits.num_elements() / columns;
  const int64_t blocks =
      std::clamp<int64_t>(rows * columns / kSoftmaxElementsOfABlock, 1, kMostSoftmaxBlocks);
  return std::max<int64_t>(16, ((rows + blocks - 1) / blocks + 15) / 16 * 16);
}

}  // namespace

Support supports_softmax(const Node& node) {
  if (!find_kind(node)) return {false, "no kernel for it"};
  const DType dtype = node.type().dtype;
  if (!is_half(dtype) && dtype != f32 && (dtype != f64 || is_gradient_of_softmax(node)))
    return {false, std::string("no kernel for ") + name_of(dtype)};
  if (has_targets(node) && !is_integer(node.input(1).dtype())) {
    return {false, "no kernel for weights as targets"};
  }
  return {true, ""};
}

KernelPlan plan_softmax(const Node& node) {
  KernelPlan plan =
      plan_row_kernel(node, make_softmax_op(node), rows_of_block(node.input(0).shape()));
  plan.kind = TaskKind::kAiVectorCore;
  return plan;
}

std::unique_ptr<RowOp> make_softmax_op(const Node& node) {
  const Node* const nodes[] = {&node};
  const DType dtype = node.type().dtype;
  if (!is_half(dtype)) return make_rows(nodes, dtype);
  return widen_rows(node, make_rows(nodes, f32));
}

std::span<const std::string_view> softmax_ops() { return kOps; }

std::unique_ptr<RowOp> make_softmax_rows(std::span<const Node* const> nodes) {
  for (const Node* node : nodes) {
    const bool alone = is_half(node->type().dtype) || is_gradient_of_softmax(*node);
    if (alone || !supports_softmax(*node).supported) return nullptr;
  }
  return make_rows(nodes, nodes[0]->type().dtype);
}

}  // namespace keel::vector
