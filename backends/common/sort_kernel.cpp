#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "keel/backends/common/shared_kernels.h"
#include "keel/core/tensor/convert.h"
#include "keel/ops/sort.h"

namespace keel {
namespace {

constexpr int64_t kElementsWorthABlock = 8192;

// sort and top_k: each block orders the indices of its lines in a part of the workspace. That the
// index decides between equal elements makes the order stable and the result of a sort that needs
// no memory of its own the only one possible.
class SortKernel final : public Kernel {
 public:
  SortKernel(const Node& node, int64_t axis, bool descending, int most_blocks)
      : dtype_(node.input(0).dtype()), descending_(descending) {
    const Shape& x = node.input(0).shape();
    const auto at = static_cast<size_t>(axis);
    count_ = x[at];
    kept_ = node.type(0).shape[at];
    stride_ = x.strides()[at];
    lines_ = kept_ == 0 ? 0 : node.type(0).shape.num_elements() / kept_;
    const int64_t worth = x.num_elements() / kElementsWorthABlock;
    blocks_ = static_cast<int>(
        std::clamp<int64_t>(std::min(worth, lines_), 1, static_cast<int64_t>(most_blocks)));
  }
  int blocks(int) const override { return blocks_; }
  size_t workspace_bytes() const {
    return static_cast<size_t>(blocks_) * static_cast<size_t>(count_) * sizeof(int64_t);
  }
  void run(void* const* args, int, int block) const override {
    if (lines_ == 0) return;
    int64_t* order = static_cast<int64_t*>(args[3]) + block * count_;
    visit_dtype(dtype_, [&]<class T>() {
      for (int64_t line = lines_ * block / blocks_; line < lines_ * (block + 1) / blocks_; ++line) {
        order_line(static_cast<const T*>(args[0]), static_cast<T*>(args[1]),
                   static_cast<int64_t*>(args[2]), line, order);
      }
    });
  }

 private:
  template <class T>
  void order_line(const T* x, T* values, int64_t* indices, int64_t line, int64_t* order) const {
    const int64_t outer = line / stride_, inner = line % stride_;
    const T* from = x + outer * count_ * stride_ + inner;
    const auto number = [&](int64_t i) {
      if constexpr (is_half_type<T>)
        return static_cast<float>(from[i * stride_]);
      else
        return from[i * stride_];
    };
    const auto before = [&](int64_t a, int64_t b) {
      const int way = ascending_order(number(a), number(b));
      return way == 0 ? a < b : descending_ ? way > 0 : way < 0;
    };
    std::iota(order, order + count_, int64_t{0});
    if (kept_ == count_)
      std::sort(order, order + count_, before);
    else
      std::partial_sort(order, order + kept_, order + count_, before);
    for (int64_t i = 0; i < kept_; ++i) {
      const int64_t to = (outer * kept_ + i) * stride_ + inner;
      values[to] = from[order[i] * stride_];
      indices[to] = order[i];
    }
  }

  DType dtype_;
  bool descending_;
  int64_t count_, kept_, stride_, lines_;
  int blocks_;
};

KernelPlan plan_of(std::unique_ptr<SortKernel> kernel) {
  KernelPlan plan;
  plan.block_dim = kernel->blocks(0);
  plan.workspace_bytes = kernel->workspace_bytes();
  plan.kind = TaskKind::kAiVectorCore;
  plan.kernel = std::move(kernel);
  return plan;
}

KernelPlan plan_sort(const Node& node, int most_blocks) {
  const auto& a = node.as<SortAttributes>();
  return plan_of(std::make_unique<SortKernel>(node, a.axis, a.descending, most_blocks));
}

KernelPlan plan_top_k(const Node& node, int most_blocks) {
  const int64_t axis = node.as<TopKAttributes>().axis;
  return plan_of(std::make_unique<SortKernel>(node, axis, /*descending=*/true, most_blocks));
}

constexpr SharedKernel kRows[] = {{"sort", plan_sort}, {"top_k", plan_top_k}};

}  // namespace

std::span<const SharedKernel> sort_kernels() { return kRows; }

}  // namespace keel
