// `blocks`: a backend from outside of Keel's tree. It has a kernel of its own for a few
// element-wise ops, cut into blocks that run on several threads, which computes with the
// instructions of Keel's vector library; every other op runs by its reference function. Memory,
// streams, compilation and the sunk loop are Keel's: HostBackend makes a task list of the kernels
// that the library below chooses, and the interpreter runs it.
#include <algorithm>
#include <iterator>
#include <memory>
#include <string_view>
#include <utility>

#include <keel/backends/common/host_backend.h>
#include <keel/backends/common/reference_kernel.h>
#include <keel/backends/common/vector/instructions.h>
#include <keel/backends/plugin.h>
#include <keel/keel.h>

namespace {

using keel::Node;

// Elements of a block. It may depend on nothing but the shape, so that a program is the same for
// every number of threads.
constexpr int64_t kBlock = 16384;

constexpr std::string_view kOwnOps[] = {"add", "sub", "mul", "neg", "square", "sqrt"};

// The instruction for a node that we have a kernel for, of which every operand has the output's
// type; null for other nodes, and where the library has none for the dtype.
keel::VectorInstruction find_instruction(const Node& node) {
  const auto* const op = std::find(std::begin(kOwnOps), std::end(kOwnOps), node.op_name());
  if (op == std::end(kOwnOps)) return nullptr;
  const bool fits = std::all_of(node.inputs().begin(), node.inputs().end(),
                                [&](keel::Value v) { return v.type() == node.type(); });
  const keel::DType dtype = node.type().dtype;
  return fits ? keel::vector::find_instruction(*op, dtype, dtype) : nullptr;
}

class ElementKernel final : public keel::Kernel {
 public:
  explicit ElementKernel(const Node& node)
      : instruction_(find_instruction(node)),
        operands_(node.inputs().size()),
        element_size_(static_cast<int64_t>(keel::size_of(node.type().dtype))),
        elements_(node.type().shape.num_elements()) {}

  int blocks(int) const override {
    return static_cast<int>(std::max<int64_t>(1, (elements_ + kBlock - 1) / kBlock));
  }
  // The arguments are the node's inputs, then its output.
  void run(void* const* args, int, int block) const override {
    const int64_t begin = block * kBlock;
    const int64_t end = std::min(elements_, begin + kBlock);
    const auto place = [&](size_t argument) {
      return static_cast<char*>(args[argument]) + begin * element_size_;
    };
    keel::VectorCall call;
    for (size_t i = 0; i < operands_; ++i) call.src[i] = place(i);
    call.dst = place(operands_);
    call.n = static_cast<size_t>(end - begin);
    instruction_(call);
  }

 private:
  keel::VectorInstruction instruction_;
  size_t operands_;
  int64_t element_size_;
  int64_t elements_;
};

keel::KernelPlan plan_elements(const Node& node) {
  keel::KernelPlan plan;
  auto kernel = std::make_unique<ElementKernel>(node);
  plan.block_dim = kernel->blocks(0);
  plan.kernel = std::move(kernel);
  plan.kind = keel::TaskKind::kAiVectorCore;
  // Each element is read before it is written, so the result may take an operand's place.
  for (size_t i = 0; i < node.inputs().size(); ++i)
    plan.in_place.push_back({.output = 0, .input = i});
  return plan;
}

class BlocksLibrary final : public keel::KernelLibrary {
 public:
  keel::Support supports(const Node& node) const override {
    if (find_instruction(node) != nullptr) return {true, ""};
    return keel::supports_reference(node);
  }
  keel::KernelPlan plan(const Node& node, const keel::StateLayouts&) const override {
    if (find_instruction(node) != nullptr) return plan_elements(node);
    return keel::plan_reference(node);
  }
  keel::KernelPlan plan_copy(size_t bytes) const override {
    keel::KernelPlan plan;
    plan.kernel = keel::make_copy_kernel(bytes);
    plan.kind = keel::TaskKind::kMemcpy;
    return plan;
  }
  // This backend models no device time.
  int64_t control_ns(keel::TaskKind) const override { return 0; }
};

class BlocksBackend final : public keel::HostBackend {
 public:
  BlocksBackend()
      : HostBackend("blocks", "element-wise ops in blocks, everything else by its reference",
                    std::make_unique<BlocksLibrary>()) {}
};

}  // namespace

KEEL_BACKEND_PLUGIN(BlocksBackend)
