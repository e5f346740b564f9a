#include "keel/backends/common/row_op.h"

#include <algorithm>
#include <utility>

#include "keel/core/base/checked.h"
#include "keel/core/tensor/buffer.h"
#include "keel/graph/ir/graph.h"

namespace keel {
namespace {

class RowKernel final : public Kernel {
 public:
  RowKernel(const Node& node, std::unique_ptr<RowOp> op, int64_t rows_of_block)
      : op_(std::move(op)),
        rows_(count_rows(node.input(0).shape())),
        rows_of_block_(rows_of_block),
        scratch_(align_up(op_->scratch_bytes(rows_of_block), Buffer::kAlignment)),
        workspace_at_(node.inputs().size() + node.types().size()) {}

  int blocks(int) const override {
    return static_cast<int>(std::max<int64_t>(1, (rows_ + rows_of_block_ - 1) / rows_of_block_));
  }
  size_t workspace_bytes() const { return static_cast<size_t>(blocks(0)) * scratch_; }
  void run(void* const* args, int, int block) const override {
    const int64_t begin = std::min(rows_, block * rows_of_block_);
    const int64_t end = std::min(rows_, begin + rows_of_block_);
    if (begin < end) op_->run(args, begin, end, scratch_of(args, block));
  }

 private:
  static int64_t count_rows(const Shape& shape) {
    return shape.back() == 0 ? 0 : shape.num_elements() / shape.back();
  }
  void* scratch_of(void* const* args, int block) const {
    if (scratch_ == 0) return nullptr;
    return static_cast<char*>(args[workspace_at_]) + static_cast<size_t>(block) * scratch_;
  }

  std::unique_ptr<RowOp> op_;
  int64_t rows_, rows_of_block_;
  size_t scratch_;  // bytes of a block
  size_t workspace_at_;
};

}  // namespace

RowOp::~RowOp() = default;

size_t RowOp::scratch_bytes(int64_t) const { return 0; }

KernelPlan plan_row_kernel(const Node& node, std::unique_ptr<RowOp> op, int64_t rows_of_block) {
  auto kernel = std::make_unique<RowKernel>(node, std::move(op), rows_of_block);
  KernelPlan plan;
  plan.workspace_bytes = kernel->workspace_bytes();
  plan.block_dim = kernel->blocks(0);
  plan.kernel = std::move(kernel);
  return plan;
}

}  // namespace keel
