#include <algorithm>
#include <memory>
#include <numeric>

#include "keel/backends/common/shared_kernels.h"
#include "keel/core/tensor/convert.h"
#include "keel/ops/sort.h"

namespace keel {
namespace {

constexpr int64_t kSortedElementsWorthABlock = 8192;

// sort and top_k: the indices of a line are ordered in the scratch. That the index decides between
// equal elements makes the order stable and the result of a sort that needs no memory of its own
// the only one possible.
class SortKernel final : public RangeKernel {
 public:
  SortKernel(const Node& node, int64_t axis, bool descending, int most_blocks)
      : RangeKernel(node,
                    {lines_of(node, axis), blocks_worth(node.input(0).shape().num_elements(),
                                                        kSortedElementsWorthABlock, most_blocks)}),
        dtype_(node.input(0).dtype()),
        descending_(descending),
        count_(node.input(0).shape()[static_cast<size_t>(axis)]),
        kept_(node.type(0).shape[static_cast<size_t>(axis)]),
        stride_(node.input(0).shape().strides()[static_cast<size_t>(axis)]) {}
  int64_t line() const override { return count_; }
  int64_t line_step() const override { return stride_; }
  std::unique_ptr<RangeKernel> of_lines_together() const override {
    auto kernel = std::make_unique<SortKernel>(*this);
    kernel->stride_ = 1;
    return kernel;
  }
  size_t scratch_bytes() const override { return static_cast<size_t>(count_) * sizeof(int64_t); }
  void make(void* const* args, int64_t begin, int64_t end, void* scratch) const override {
    visit_dtype(dtype_, [&]<class T>() {
      for (int64_t line = begin; line < end; ++line) {
        order_line(static_cast<const T*>(args[0]), static_cast<T*>(args[1]),
                   static_cast<int64_t*>(args[2]), line, static_cast<int64_t*>(scratch));
      }
    });
  }

 private:
  static int64_t lines_of(const Node& node, int64_t axis) {
    const int64_t kept = node.type(0).shape[static_cast<size_t>(axis)];
    return kept == 0 ? 0 : node.type(0).shape.num_elements() / kept;
  }
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
  int64_t count_, kept_, stride_;
};

std::unique_ptr<RangeKernel> make_sort(const Node& node, int most_blocks) {
  const auto& a = node.as<SortAttributes>();
  return std::make_unique<SortKernel>(node, a.axis, a.descending, most_blocks);
}

std::unique_ptr<RangeKernel> make_top_k(const Node& node, int most_blocks) {
  const int64_t axis = node.as<TopKAttributes>().axis;
  return std::make_unique<SortKernel>(node, axis, /*descending=*/true, most_blocks);
}

constexpr SharedKernel kSortKernels[] = {made_in_ranges<make_sort>("sort"),
                                         made_in_ranges<make_top_k>("top_k")};

}  // namespace

std::span<const SharedKernel> sort_kernels() { return kSortKernels; }

}  // namespace keel
