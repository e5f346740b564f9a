// A backend that loads and runs and is wrong: its element 2 of every product of two numbers is one
// too large, its sqrt throws, and it has no exp.
#include <memory>

#include <keel/backends/common/host_backend.h>
#include <keel/backends/common/reference_kernel.h>
#include <keel/backends/plugin.h>
#include <keel/core/base/error.h>

namespace {

class WrongKernel final : public keel::Kernel {
 public:
  WrongKernel(keel::KernelPlan right, int64_t elements)
      : right_(std::move(right.kernel)), elements_(elements) {}
  void run(void* const* args, int phase, int block) const override {
    right_->run(args, phase, block);
    if (elements_ > 2) static_cast<float*>(args[2])[2] += 1;
  }

 private:
  std::unique_ptr<keel::Kernel> right_;
  int64_t elements_;
};

class WrongLibrary final : public keel::KernelLibrary {
 public:
  keel::Support supports(const keel::Node& node) const override {
    if (node.op_name() == "exp") return {false, "nobody wrote a kernel for it"};
    return keel::supports_reference(node);
  }
  keel::KernelPlan plan(const keel::Node& node, const keel::StateLayouts&) const override {
    if (node.op_name() == "sqrt") throw 42;
    keel::KernelPlan plan = keel::plan_reference(node);
    const bool wrong = node.op_name() == "mul" && node.type().dtype == keel::f32;
    if (!wrong) return plan;
    keel::KernelPlan other;
    other.kernel = std::make_unique<WrongKernel>(std::move(plan), node.type().shape.num_elements());
    return other;
  }
  keel::KernelPlan plan_copy(size_t bytes) const override {
    keel::KernelPlan plan;
    plan.kernel = keel::make_copy_kernel(bytes);
    return plan;
  }
  int64_t control_ns(keel::TaskKind) const override { return 0; }
};

class WrongBackend final : public keel::HostBackend {
 public:
  WrongBackend() : HostBackend("wrong", "for tests", std::make_unique<WrongLibrary>()) {}
};

}  // namespace

KEEL_BACKEND_PLUGIN(WrongBackend)
