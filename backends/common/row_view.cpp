#include "keel/backends/common/row_view.h"

#include <cstdint>
#include <memory>

#include "keel/backends/common/indices.h"
#include "keel/core/tensor/buffer.h"
#include "keel/graph/ir/placement.h"
#include "keel/ops/gather.h"

namespace keel {
namespace {

size_t row_bytes(const Node& node) { return node.type().shape.num_bytes(node.type().dtype); }

class RowViewKernel final : public Kernel {
 public:
  explicit RowViewKernel(const Node& node)
      : rows_(node.input(0).shape()[0]),
        bytes_(static_cast<int64_t>(row_bytes(node))),
        index_dtype_(node.input(1).dtype()) {}
  void run(void* const* args, int, int) const override {
    with_indices(index_dtype_, args[1], [&](const auto* index) {
      check_indices(index, 1, rows_, "gather", 0);
      *static_cast<int64_t*>(args[2]) = static_cast<int64_t>(*index) * bytes_;
    });
  }

 private:
  int64_t rows_;
  int64_t bytes_;
  DType index_dtype_;
};

}  // namespace

bool shows_row(const Node& node) {
  if (node.op_name() != "gather" || is_on_host(node)) return false;
  if (node.as<GatherAttributes>().axis != 0 || node.input(1).shape().num_elements() != 1)
    return false;
  const size_t bytes = row_bytes(node);
  return bytes != 0 && bytes % Buffer::kAlignment == 0;
}

KernelPlan plan_row_view(const Node& node) {
  KernelPlan plan;
  plan.kernel = std::make_unique<RowViewKernel>(node);
  plan.kind = TaskKind::kAiVectorCore;
  plan.reason = "the row is read where it lies";
  return plan;
}

}  // namespace keel
