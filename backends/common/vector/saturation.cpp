#include "keel/backends/common/vector/saturation.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "keel/backends/common/float_status.h"

namespace keel::vector {
namespace {

constexpr int64_t kCheckedElementsOfABlock = 65536;
constexpr int64_t kMostCheckedBlocks = 32;
constexpr uint16_t kMagnitude = 0x7fff;
constexpr uint16_t kInfinity = 0x7c00;
constexpr uint16_t kLargest = 0x7bff;

// The kernel and a phase behind it that looks at its f16 outputs.
class SaturatingKernel final : public Kernel {
 public:
  SaturatingKernel(std::unique_ptr<Kernel> kernel, const Node& node, size_t status)
      : kernel_(std::move(kernel)), status_(status) {
    for (size_t i = 0; i < node.types().size(); ++i) {
      if (node.type(i).dtype != f16) continue;
      outputs_.push_back({node.inputs().size() + i, node.type(i).shape.num_elements()});
      most_ = std::max(most_, outputs_.back().elements);
    }
    blocks_ = static_cast<int>(
        std::clamp<int64_t>(most_ / kCheckedElementsOfABlock, 1, kMostCheckedBlocks));
  }
  int phases() const override { return kernel_->phases() + 1; }
  int blocks(int phase) const override {
    return phase < kernel_->phases() ? kernel_->blocks(phase) : blocks_;
  }
  void run(void* const* args, int phase, int block) const override {
    if (phase < kernel_->phases()) return kernel_->run(args, phase, block);
    uint32_t status = 0;
    for (const Output& output : outputs_) {
      const int64_t begin = output.elements * block / blocks_;
      const int64_t end = output.elements * (block + 1) / blocks_;
      status |= stop_at_largest(static_cast<uint16_t*>(args[output.argument]) + begin, end - begin);
    }
    raise_float_status(args[status_], status);
  }

 private:
  struct Output {
    size_t argument;
    int64_t elements;
  };
  std::unique_ptr<Kernel> kernel_;
  size_t status_;
  std::vector<Output> outputs_;
  int64_t most_ = 0;
  int blocks_ = 1;
};

}  // namespace

// Rounding to f16 makes an infinity of what is beyond the largest value, so this is the same as
// stopping before it.
uint32_t stop_at_largest(uint16_t* values, int64_t count) {
  uint32_t met = 0;
  for (int64_t i = 0; i < count; ++i) {
    const bool infinite = (values[i] & kMagnitude) == kInfinity;
    met |= infinite ? 1u : 0u;
    values[i] = static_cast<uint16_t>(values[i] - (infinite ? kInfinity - kLargest : 0));
  }
  return met != 0 ? kFloatStatusF16Overflow : 0;
}

KernelPlan saturate_results(KernelPlan plan, const Node& node) {
  const bool workspace = plan.workspace_bytes != 0;
  const size_t status = node.inputs().size() + node.types().size() + (workspace ? 1 : 0);
  plan.kernel = std::make_unique<SaturatingKernel>(std::move(plan.kernel), node, status);
  plan.float_status = true;
  return plan;
}

}  // namespace keel::vector
