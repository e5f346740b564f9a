// ref: the oracle. Each node is one task whose kernel is the op's own reference function; nothing
// is fused, nothing is clever.
#include <memory>
#include <utility>
#include <vector>

#include "keel/backends/common/host_backend.h"

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
      : op_(node.op()), attributes_(node.attributes()), outputs_(node.types().to_vector()) {
    for (const Value& v : node.inputs()) inputs_.push_back(v.type());
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

class ReferenceLibrary final : public KernelLibrary {
 public:
  Support supports(const Node& node) const override {
    if (node.op().reference != nullptr) return {true, ""};
    return {false, "the op has no reference function"};
  }
  KernelPlan plan(const Node& node, const StateLayouts&) const override {
    KernelPlan plan;
    plan.kernel = std::make_unique<ReferenceKernel>(node);
    plan.kind = TaskKind::kAiCpu;
    return plan;
  }
  KernelPlan plan_copy(size_t bytes) const override {
    KernelPlan plan;
    plan.kernel = make_copy_kernel(bytes);
    plan.kind = TaskKind::kMemcpy;
    return plan;
  }
  int64_t control_ns(TaskKind) const override { return 0; }
};

}  // namespace

std::unique_ptr<Backend> make_ref_backend() {
  return std::make_unique<HostBackend>("ref",
                                       "reference functions of the ops, one at a time: the oracle",
                                       std::make_unique<ReferenceLibrary>());
}

}  // namespace keel
