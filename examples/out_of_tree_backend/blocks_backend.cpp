// `blocks`: a backend from outside of Keel's tree. It has kernels of its own for a few element-wise
// ops, cut into blocks that run on several threads; every other op runs by its reference function.
// Memory, streams, compilation and the sunk loop are Keel's: HostBackend makes a task list of the
// kernels that the library below chooses, and the interpreter runs it.
#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include <keel/backends/common/host_backend.h>
#include <keel/backends/common/reference_kernel.h>
#include <keel/backends/plugin.h>
#include <keel/keel.h>

namespace {

using keel::Node;

// Elements of a block. It may depend on nothing but the shape, so that a program is the same for
// every number of threads.
constexpr int64_t kBlock = 16384;

// Returns what one of our ops makes of an element of each operand. Ops of one operand do not look
// at the second.
template <class T>
using Function = T (*)(T a, T b);

template <class T>
struct OwnOp {
  const char* name;
  size_t operands;
  Function<T> function;
};

template <class T>
constexpr OwnOp<T> kOwnOps[] = {
    {"add", 2, [](T a, T b) { return a + b; }},  {"sub", 2, [](T a, T b) { return a - b; }},
    {"mul", 2, [](T a, T b) { return a * b; }},  {"neg", 1, [](T a, T) { return -a; }},
    {"square", 1, [](T a, T) { return a * a; }}, {"sqrt", 1, [](T a, T) { return std::sqrt(a); }},
};

// The function for a node that we have a kernel for: floats, every operand of the output's shape.
template <class T>
Function<T> find_function(const Node& node) {
  for (const OwnOp<T>& op : kOwnOps<T>) {
    if (node.op_name() != op.name || node.inputs().size() != op.operands) continue;
    const bool fits = std::all_of(node.inputs().begin(), node.inputs().end(), [&](keel::Value v) {
      return v.type() == keel::Type{keel::dtype_of<T>, node.type().shape};
    });
    return fits ? op.function : nullptr;
  }
  return nullptr;
}

template <class T>
class ElementKernel final : public keel::Kernel {
 public:
  ElementKernel(Function<T> function, size_t operands, int64_t elements)
      : function_(function), operands_(operands), elements_(elements) {}

  int blocks(int) const override {
    return static_cast<int>(std::max<int64_t>(1, (elements_ + kBlock - 1) / kBlock));
  }
  // The arguments are the node's inputs, then its outputs.
  void run(void* const* args, int, int block) const override {
    const auto* a = static_cast<const T*>(args[0]);
    const auto* b = static_cast<const T*>(args[operands_ - 1]);
    auto* out = static_cast<T*>(args[operands_]);
    const int64_t begin = block * kBlock;
    const int64_t end = std::min(elements_, begin + kBlock);
    for (int64_t i = begin; i < end; ++i) out[i] = function_(a[i], b[i]);
  }

 private:
  Function<T> function_;
  size_t operands_;
  int64_t elements_;
};

template <class T>
keel::KernelPlan plan_elements(const Node& node) {
  const int64_t elements = node.type().shape.num_elements();
  keel::KernelPlan plan;
  auto kernel =
      std::make_unique<ElementKernel<T>>(find_function<T>(node), node.inputs().size(), elements);
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
    if (find_function<float>(node) != nullptr || find_function<double>(node) != nullptr)
      return {true, ""};
    return keel::supports_reference(node);
  }
  keel::KernelPlan plan(const Node& node, const keel::StateLayouts&) const override {
    if (find_function<float>(node) != nullptr) return plan_elements<float>(node);
    if (find_function<double>(node) != nullptr) return plan_elements<double>(node);
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
