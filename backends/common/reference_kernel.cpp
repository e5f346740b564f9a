#include "keel/backends/common/reference_kernel.h"

#include <memory>
#include <utility>
#include <vector>

namespace keel {
namespace {

// The memory of a task argument, seen as a Buffer; owned by the program's arena.
class BorrowedBuffer final : public Buffer {
 public:
  BorrowedBuffer(void* address, size_t bytes) noexcept : Buffer(address, bytes, true) {}
};

class ReferenceKernel final : public Kernel {
 public:
  explicit ReferenceKernel(const Node& node)
      : op_(node.op()), attributes_(node.attributes()), outputs_(node.data_types().to_vector()) {
    for (const Value& v : node.data_inputs()) inputs_.push_back(v.type());
  }

  void run(void* const* args, int, int) const override {
    std::vector<Tensor> inputs;
    std::vector<Tensor> outputs;
    for (const Type& type : inputs_) inputs.push_back(borrow(*args++, type));
    for (const Type& type : outputs_) outputs.push_back(borrow(*args++, type));
    op_.reference(ReferenceContext{op_, attributes_, inputs, outputs});
  }

 private:
  static Tensor borrow(void* address, const Type& type) {
    auto buffer = std::make_shared<BorrowedBuffer>(address, type.shape.num_bytes(type.dtype));
    return Tensor(type.dtype, type.shape, std::move(buffer));
  }

  const OpDef& op_;
  Attributes attributes_;
  std::vector<Type> inputs_;
  std::vector<Type> outputs_;
};

}  // namespace

Support supports_reference(const Node& node) {
  if (node.op().reference != nullptr) return {true, ""};
  return {false, "the op has no reference function"};
}

KernelPlan plan_reference(const Node& node) {
  KernelPlan plan;
  plan.kernel = std::make_unique<ReferenceKernel>(node);
  plan.kind = TaskKind::kAiCpu;
  return plan;
}

}  // namespace keel
