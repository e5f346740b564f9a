#include "keel/backends/common/row_op.h"

#include <algorithm>
#include <utility>

#include "keel/graph/ir/graph.h"

namespace keel {
namespace {

class RowKernel final : public Kernel {
 public:
  RowKernel(std::unique_ptr<RowOp> op, int64_t rows, int64_t rows_of_block)
      : op_(std::move(op)), rows_(rows), rows_of_block_(rows_of_block) {}

  int blocks(int) const override {
    return static_cast<int>(std::max<int64_t>(1, (rows_ + rows_of_block_ - 1) / rows_of_block_));
  }
  void run(void* const* args, int, int block) const override {
    const int64_t begin = std::min(rows_, block * rows_of_block_);
    const int64_t end = std::min(rows_, begin + rows_of_block_);
    if (begin < end) op_->run(args, begin, end);
  }

 private:
  std::unique_ptr<RowOp> op_;
  int64_t rows_, rows_of_block_;
};

}  // namespace

RowOp::~RowOp() = default;

std::unique_ptr<Kernel> make_row_kernel(const Node& node, std::unique_ptr<RowOp> op,
                                        int64_t rows_of_block) {
  const Shape& shape = node.input(0).shape();
  const int64_t columns = shape.back();
  const int64_t rows = columns == 0 ? 0 : shape.num_elements() / columns;
  return std::make_unique<RowKernel>(std::move(op), rows, rows_of_block);
}

}  // namespace keel
