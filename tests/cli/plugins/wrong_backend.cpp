// A backend that loads and runs and is wrong: its element 2 of every product of two numbers is one
// too large, its sqrt throws, and it has no exp. A property of its device would clear a terminal.
// More is wrong where KEEL_TEST_WRONG says so: "devices" are gone once it is loaded, "copies" to
// the device throw. With "prices" its steps have a price, which is not that of Keel's NPU.
#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

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

bool more_is_wrong(const std::string& what) {
  const char* asked = std::getenv("KEEL_TEST_WRONG");
  return asked != nullptr && asked == what;
}

class ThrowingStream final : public keel::Stream {
 public:
  void copy_to_device(keel::Buffer&, size_t, const void*, size_t) override { throw 42; }
  void copy_to_host(void*, const keel::Buffer&, size_t, size_t) override { throw 42; }
  std::shared_ptr<keel::Event> record() override { return nullptr; }
  void wait(const std::shared_ptr<keel::Event>&) override {}
  void synchronize() override {}
};

class WrongBackend final : public keel::HostBackend {
 public:
  WrongBackend() : HostBackend("wrong", "for tests", std::make_unique<WrongLibrary>()) {}
  std::vector<keel::DeviceInfo> devices() const override {
    static std::atomic<int> calls{0};
    if (++calls > 1 && more_is_wrong("devices")) return {};
    std::vector<keel::DeviceInfo> devices = HostBackend::devices();
    devices[0].properties.emplace_back("colour\x1b[2J", "red");
    return devices;
  }
  std::unique_ptr<keel::Stream> make_stream(int device, keel::StreamKind kind) override {
    if (more_is_wrong("copies")) return std::make_unique<ThrowingStream>();
    return HostBackend::make_stream(device, kind);
  }
  std::unique_ptr<keel::Program> compile(int device, const keel::Graph& graph,
                                         const keel::CompileOptions& options) override {
    auto program = HostBackend::compile(device, graph, options);
    if (more_is_wrong("prices")) {
      auto& info = const_cast<keel::ProgramInfo&>(program->info());
      info.step_device_ns = 1000;
      info.launch_device_ns = 500;
      info.modelled_device = "abacus";
    }
    return program;
  }
};

}  // namespace

KEEL_BACKEND_PLUGIN(WrongBackend)
