#include "keel/backends/common/row_view.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "keel/backends/common/indices.h"
#include "keel/core/tensor/buffer.h"
#include "keel/graph/ir/placement.h"
#include "keel/ops/gather.h"

namespace keel {
namespace {

size_t row_bytes(const Node& node) {
  const Type& rows = node.input(0).type();
  const int64_t count = rows.shape[0];
  return count == 0 ? 0 : rows.shape.num_bytes(rows.dtype) / static_cast<size_t>(count);
}

// Returns whether the node concerns one row along the first axis that is aligned memory.
bool is_aligned_row(const Node& node) {
  if (is_on_host(node) || node.input(1).shape().num_elements() != 1) return false;
  const size_t bytes = row_bytes(node);
  return bytes != 0 && bytes % Buffer::kAlignment == 0;
}

bool is_gather_of_rows(const Node& node) {
  return node.op_name() == "gather" && node.as<GatherAttributes>().axis == 0;
}

class RowViewKernel final : public Kernel {
 public:
  explicit RowViewKernel(const Node& node)
      : op_(node.op_name()),
        axis_(is_gather_of_rows(node) ? std::optional<int64_t>(0) : std::nullopt),
        at_(is_gather_of_rows(node) ? 1 : 0),
        rows_(node.input(0).shape()[0]),
        bytes_(static_cast<int64_t>(row_bytes(node))),
        index_dtype_(node.input(1).dtype()) {}
  void run(void* const* args, int, int) const override {
    with_indices(index_dtype_, args[at_], [&](const auto* index) {
      check_indices(index, 1, rows_, op_, axis_);
      *static_cast<int64_t*>(args[at_ + 1]) = static_cast<int64_t>(*index) * bytes_;
    });
  }

 private:
  std::string op_;
  std::optional<int64_t> axis_;
  size_t at_;  // the argument that is the index
  int64_t rows_;
  int64_t bytes_;
  DType index_dtype_;
};

}  // namespace

bool shows_row(const Node& node) { return is_gather_of_rows(node) && is_aligned_row(node); }

bool writes_row(const Node& node) {
  return node.op_name() == "scatter_add" && is_aligned_row(node);
}

KernelPlan plan_row_view(const Node& node) {
  KernelPlan plan;
  plan.kernel = std::make_unique<RowViewKernel>(node);
  plan.kind = TaskKind::kAiVectorCore;
  plan.reason = is_gather_of_rows(node) ? "the row is read where it lies"
                                        : "the row is made where it is to lie";
  return plan;
}

}  // namespace keel
