#include <algorithm>
#include <array>
#include <memory>
#include <type_traits>

#include "keel/backends/common/shared_kernels.h"
#include "keel/core/tensor/convert.h"
#include "keel/ops/reference_loops.h"
#include "keel/ops/scalar_rules.h"
#include "keel/ops/scan.h"

namespace keel {
namespace {

constexpr int64_t kScannedElementsWorthABlock = 8192;
// Chains of additions that a thread has under way at once: lines whose elements alternate in
// memory fill vectors, and of lines one behind the other each is a stream of its own.
constexpr int64_t kAlternatingLines = 64, kSeparateLines = 8;

struct Sum {
  static constexpr int kStart = 0;
  template <class T>
  static T step(T a, T b) {
    return scalar::add(a, b);
  }
};
struct Product {
  static constexpr int kStart = 1;
  template <class T>
  static T step(T a, T b) {
    return scalar::mul(a, b);
  }
};

// cumsum and cumprod: lines are combined in order, floats in double and rounded where they are
// stored, so that the bits are the reference's and do not depend on which lines go together.
template <class Step>
class ScanKernel final : public RangeKernel {
 public:
  ScanKernel(const Node& node, int most_blocks)
      : RangeKernel(node, {lines_of(node), blocks_worth(node.type().shape.num_elements(),
                                                        kScannedElementsWorthABlock, most_blocks)}),
        dtype_(node.type().dtype),
        options_(node.as<ScanAttributes>()),
        count_(node.type().shape[static_cast<size_t>(options_.axis)]),
        stride_(node.type().shape.strides()[static_cast<size_t>(options_.axis)]) {}
  int64_t line() const override { return count_; }
  int64_t line_step() const override { return stride_; }
  std::unique_ptr<RangeKernel> of_lines_together() const override {
    auto kernel = std::make_unique<ScanKernel>(*this);
    kernel->stride_ = 1;
    return kernel;
  }
  void make(void* const* args, int64_t begin, int64_t end, void*) const override {
    visit_dtype(dtype_, [&]<class T>() {
      if constexpr (!std::is_same_v<T, bool>) {
        const T* x = static_cast<const T*>(args[0]);
        T* out = static_cast<T*>(args[1]);
        for (int64_t line = begin; line < end;) {
          const int64_t inner = line % stride_, first = line / stride_ * stride_ * count_ + inner;
          const int64_t together = stride_ == 1
                                       ? std::min(end - line, kSeparateLines)
                                       : std::min({end - line, stride_ - inner, kAlternatingLines});
          combine(x + first, out + first, together);
          line += together;
        }
      }
    });
  }

 private:
  static int64_t lines_of(const Node& node) {
    const Shape& shape = node.type().shape;
    const int64_t count = shape[static_cast<size_t>(node.as<ScanAttributes>().axis)];
    return count == 0 ? 0 : shape.num_elements() / count;
  }

  // Combines so many lines; lines whose elements alternate begin one behind the other.
  template <class T>
  void combine(const T* x, T* out, int64_t lines) const {
    const int64_t apart = stride_ == 1 ? count_ : 1;
    std::array<Computed<T>, kAlternatingLines> totals;
    totals.fill(static_cast<Computed<T>>(Step::kStart));
    for (int64_t i = 0; i < count_; ++i) {
      const int64_t at = (options_.reverse ? count_ - 1 - i : i) * stride_;
      // The first element is itself: 0 + -0 would be 0.
      const bool starts = i == 0 && !options_.exclusive;
      for (int64_t line = 0; line < lines; ++line) {
        Computed<T>& total = totals[static_cast<size_t>(line)];
        const int64_t element = at + line * apart;
        const auto before = total;
        total = starts ? load(x, element) : Step::step(total, load(x, element));
        store(out, element, options_.exclusive ? before : total);
      }
    }
  }

  DType dtype_;
  ScanAttributes options_;
  int64_t count_, stride_;
};

template <class Step>
std::unique_ptr<RangeKernel> make_scan(const Node& node, int most_blocks) {
  return std::make_unique<ScanKernel<Step>>(node, most_blocks);
}

constexpr SharedKernel kScanKernels[] = {made_in_ranges<make_scan<Sum>>("cumsum"),
                                         made_in_ranges<make_scan<Product>>("cumprod")};

}  // namespace

std::span<const SharedKernel> scan_kernels() { return kScanKernels; }

}  // namespace keel
