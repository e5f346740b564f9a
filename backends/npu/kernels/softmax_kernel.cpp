#include <algorithm>
#include <bit>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "keel/backends/npu/isa/softmax.h"
#include "keel/backends/npu/isa/vector_unit.h"
#include "keel/backends/npu/kernels/element_work.h"
#include "keel/backends/npu/kernels/kernel_row.h"
#include "keel/backends/npu/kernels/kernels.h"
#include "keel/core/base/error.h"
#include "keel/ops/loss.h"

namespace keel::npu {
namespace {

constexpr int64_t kElementsOfABlock = 16384;
constexpr int64_t kMostBlocks = 32;

enum class Kind : uint8_t { kSoftmax, kLogSoftmax, kLoss, kGradient };

// They stand in the order of the kinds. Passes are those of max, sub, exp, sum and div.
struct RowOpOfKind {
  std::string_view op;
  int64_t passes;
};
constexpr RowOpOfKind kOps[] = {{"softmax", 19},
                                {"log_softmax", 16},
                                {"softmax_cross_entropy", 16},
                                {"softmax_cross_entropy_grad", 22}};

std::optional<Kind> find_kind(const Node& node) {
  for (size_t i = 0; i < std::size(kOps); ++i) {
    if (kOps[i].op == node.op_name()) return static_cast<Kind>(i);
  }
  return std::nullopt;
}

// REQUIRES one of them.
Kind kind_of(const Node& node) { return find_kind(node).value(); }

class SoftmaxRows final : public RowOp {
 public:
  explicit SoftmaxRows(const Node& node)
      : columns_(node.input(0).shape().back()),
        instruction_(kind_of(node) == Kind::kSoftmax ? find_softmax() : find_log_softmax()) {}

  void run(void* const* args, int64_t begin, int64_t end) const override {
    SoftmaxCall call;
    call.src = static_cast<const float*>(args[0]) + begin * columns_;
    call.dst = static_cast<float*>(args[1]) + begin * columns_;
    call.stride = call.dst_stride = call.cols = static_cast<size_t>(columns_);
    call.rows = static_cast<size_t>(end - begin);
    instruction_(call);
  }

 private:
  int64_t columns_;
  SoftmaxInstruction instruction_;
};

bool is_gradient(const Node& node) { return kind_of(node) == Kind::kGradient; }

// The loss of each row, its gradient, or both from one pass over the logits.
class CrossEntropyRows final : public RowOp {
 public:
  explicit CrossEntropyRows(std::span<const Node* const> nodes)
      : columns_(nodes[0]->input(0).shape().back()),
        labels_(nodes[0]->input(1).dtype()),
        smoothing_(static_cast<float>(nodes[0]->as<CrossEntropyOptions>().label_smoothing)),
        instruction_(find_softmax_cross_entropy()),
        multiply_(find_vector_instruction("mul", f32, f32)) {
    size_t inputs = 0;
    for (const Node* node : nodes) {
      if (is_gradient(*node)) upstream_at_ = inputs + 2;
      inputs += node->inputs().size();
    }
    for (size_t i = 0; i < nodes.size(); ++i) {
      (is_gradient(*nodes[i]) ? gradient_at_ : loss_at_) = inputs + i;
    }
  }

  void run(void* const* args, int64_t begin, int64_t end) const override {
    CrossEntropyCall call;
    call.rows = static_cast<size_t>(end - begin);
    call.logits = static_cast<const float*>(args[0]) + begin * columns_;
    call.stride = call.cols = call.gradient_stride = static_cast<size_t>(columns_);
    call.labels =
        static_cast<const char*>(args[1]) + begin * static_cast<int64_t>(size_of(labels_));
    call.label_dtype = labels_;
    call.smoothing = smoothing_;
    if (loss_at_ != 0) call.loss = static_cast<float*>(args[loss_at_]) + begin;
    if (gradient_at_ == 0) return check(instruction_(call), call.labels, begin);
    call.gradient = static_cast<float*>(args[gradient_at_]) + begin * columns_;
    // The mean of a batch gives all rows one factor, which the instruction applies; 1 changes no
    // bit.
    const float* upstream = static_cast<const float*>(args[upstream_at_]) + begin;
    const bool one_factor = std::all_of(upstream, upstream + call.rows, [&](float factor) {
      return std::bit_cast<uint32_t>(factor) == std::bit_cast<uint32_t>(upstream[0]);
    });
    if (one_factor) call.scale = upstream[0];
    check(instruction_(call), call.labels, begin);
    if (!one_factor) scale_rows(call, upstream);
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
    throw Error({.op = "softmax_cross_entropy",
                 .argument = "targets",
                 .expected = "class ids from 0 to " + std::to_string(columns_ - 1),
                 .got = std::to_string(id) + " in row " + std::to_string(begin + wrong)});
  }

  int64_t columns_;
  DType labels_;
  float smoothing_;
  CrossEntropyInstruction instruction_;
  VectorInstruction multiply_;
  size_t upstream_at_ = 0, loss_at_ = 0, gradient_at_ = 0;  // arguments; 0: none
};

// Returns whether a node and another are the loss of some rows and its gradient.
bool belong_together(const Node& a, const Node& b) {
  return a.input(1) == b.input(1) && is_gradient(a) != is_gradient(b) &&
         a.as<CrossEntropyOptions>().label_smoothing == b.as<CrossEntropyOptions>().label_smoothing;
}

// Multiples of 16, which is what the instructions work on at once.
int64_t rows_of_block(const Shape& logits) {
  const int64_t columns = std::max<int64_t>(1, logits.back());
  const int64_t rows = logits.num_elements() / columns;
  const int64_t blocks = std::clamp<int64_t>(rows * columns / kElementsOfABlock, 1, kMostBlocks);
  return std::max<int64_t>(16, ((rows + blocks - 1) / blocks + 15) / 16 * 16);
}

Support supports_rows(const Node& node) {
  if (!find_kind(node)) return {false, "no kernel for it"};
  if (node.type().dtype != f32)
    return {false, std::string("no kernel for ") + name_of(node.type().dtype)};
  if (node.inputs().size() > 1 && !is_integer(node.input(1).dtype())) {
    return {false, "no kernel for weights as targets"};
  }
  return {true, ""};
}

Support supports_softmax(const AnchoredNode& anchored) { return supports_rows(anchored.node()); }

KernelPlan plan_softmax(const AnchoredNode& anchored, const PlanRequest&) {
  const Node& node = anchored.node();
  const Node* const nodes[] = {&node};
  KernelPlan plan;
  plan.kernel = make_row_kernel(node, make_row_op(nodes), rows_of_block(node.input(0).shape()));
  plan.block_dim = plan.kernel->blocks(0);
  plan.kind = TaskKind::kAiVectorCore;
  return plan;
}

NodeWork softmax_work(const WorkRequest& request) {
  const Node& node = request.anchored.node();
  const Type type = node.input(0).type();
  return {{}, {row_work(request.preset, node, type, last_dim(type))}};
}

}  // namespace

std::unique_ptr<RowOp> make_row_op(std::span<const Node* const> nodes) {
  for (const Node* node : nodes) {
    if (!supports_rows(*node).supported) return nullptr;
  }
  const bool plain = nodes[0]->inputs().size() == 1;
  if (nodes.size() == 1 && plain) return std::make_unique<SoftmaxRows>(*nodes[0]);
  if (plain || nodes.size() > 2) return nullptr;
  if (nodes.size() == 2 && nodes[1]->inputs().size() == 1) return nullptr;
  if (nodes.size() == 2 && !belong_together(*nodes[0], *nodes[1])) return nullptr;
  return std::make_unique<CrossEntropyRows>(nodes);
}

std::span<const KernelRow> softmax_rows() {
  static const std::vector<KernelRow> rows = [] {
    std::vector<KernelRow> made;
    for (const RowOpOfKind& row : kOps) {
      made.push_back({.ops = {row.op},
                      .supports = supports_softmax,
                      .plan = plan_softmax,
                      .work = softmax_work,
                      .passes = row.passes,
                      .planned = &kPlannedSoftmax});
    }
    return made;
  }();
  return rows;
}

}  // namespace keel::npu
