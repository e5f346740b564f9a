// npu: a simulated Ascend-like accelerator: memory of its own, work that reaches it through streams
// only, a control unit that walks the task list, kernels written against a small ISA.
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "keel/backends/common/host_backend.h"
#include "keel/backends/common/movement_kernels.h"
#include "keel/backends/common/task_program.h"
#include "keel/backends/npu/device/memory.h"
#include "keel/backends/npu/isa/host_isa.h"
#include "keel/backends/npu/kernels/kernels.h"
#include "keel/core/base/environment.h"
#include "keel/core/base/error.h"

namespace keel {
namespace npu {
namespace {

constexpr int kMostBlocks = 32;
constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kDefaultMemoryMiB = 65536;

class NpuLibrary final : public KernelLibrary {
 public:
  Support supports(const Node& node) const override {
    for (const Value& v : node.inputs()) {
      if (v.dtype() == f64) return {false, "the NPU does not compute in f64"};
    }
    if (!node.types().empty() && node.type().dtype == f64) {
      return {false, "the NPU does not compute in f64"};
    }
    if (has_movement_kernel(node)) return {true, ""};
    if (node.has(kElementwise)) return supports_tiles(node);
    if (node.op_name() == "matmul") return supports_matmul(node);
    if (has_index_kernel(node) || has_random_kernel(node)) return {true, ""};
    const Support reduce = supports_reduce(node);
    return reduce.supported ? reduce : supports_softmax(node);
  }

  KernelPlan plan(const Node& node) const override {
    if (has_movement_kernel(node)) return plan_movement(node, kMostBlocks);
    if (node.has(kElementwise)) return plan_tiles(node);
    if (node.op_name() == "matmul") return plan_matmul(node);
    if (has_index_kernel(node)) return plan_index(node, kMostBlocks);
    if (has_random_kernel(node)) return plan_random(node, kMostBlocks);
    if (supports_reduce(node).supported) return plan_reduce(node);
    return plan_softmax(node);
  }

  KernelPlan plan_copy(size_t bytes) const override {
    KernelPlan plan;
    plan.kernel = make_copy_kernel(bytes);
    plan.kind = TaskKind::kMemcpy;
    return plan;
  }

  int64_t control_ns(TaskKind) const override { return 0; }
};

// Refuses what is not the device's own memory before the work is handed over.
class NpuProgram final : public TaskProgram {
 public:
  NpuProgram(TaskList list, std::shared_ptr<Buffer> constants, Stream& transfer,
             std::shared_ptr<DeviceMemory> memory)
      : TaskProgram(std::move(list), std::move(constants), transfer), memory_(std::move(memory)) {}

  void launch(Stream& stream, LaunchArgs& args) override {
    for (const StateHome& home : args.states) {
      require(home.current, "state");
      require(home.other, "second home of a state");
    }
    for (const Buffer* b : args.inputs) require(b, "input");
    for (const Buffer* b : args.outputs) require(b, "output");
    require(args.scratch, "scratch");
    TaskProgram::launch(stream, args);
  }

 private:
  void require(const Buffer* buffer, const char* what) const {
    if (buffer != nullptr) memory_->require_own(*buffer, what);
  }
  std::shared_ptr<DeviceMemory> memory_;
};

class NpuBackend final : public Backend {
 public:
  NpuBackend() {
    const int64_t mib =
        environment_integer("KEEL_NPU_MEMORY_MIB", 1, int64_t{1} << 30).value_or(kDefaultMemoryMiB);
    memory_ = std::make_shared<DeviceMemory>(static_cast<size_t>(mib * kMiB));
    static_cast<void>(
        host_isa());  // a KEEL_ISA that is wrong is reported here, not at the first launch
  }

  std::string name() const override { return "npu"; }
  std::vector<DeviceInfo> devices() const override {
    return {{"npu:0",
             "simulated Ascend-like accelerator",
             memory_->capacity(),
             {{"isa", host_isa_text()}}}};
  }
  Support supports(const Node& node) const override {
    return supports_in_task_list(library_, node);
  }

  std::shared_ptr<Buffer> allocate(int, size_t bytes, const std::string& holder) override {
    return memory_->allocate(bytes, holder);
  }
  SlotMemory allocate_slot(int, size_t bytes, const std::string& holder) override {
    auto buffer = memory_->allocate(bytes, holder);
    void* address = buffer->address();
    return {std::move(buffer), address, nullptr};
  }
  std::unique_ptr<Stream> make_stream(int, StreamKind kind) override {
    if (kind == StreamKind::kTransfer) return std::make_unique<InlineStream>(memory_);
    return std::make_unique<WorkerStream>(memory_);
  }
  std::unique_ptr<Program> compile(int, const Graph& graph, const CompileOptions&) override {
    TaskList list = lower(graph, library_);
    auto constants = memory_->allocate(list.info.constant_bytes, "constants");
    InlineStream transfer(memory_);
    return std::make_unique<NpuProgram>(std::move(list), std::move(constants), transfer, memory_);
  }
  void convert_layout(const Type& type, const Layout& from, const void* source, const Layout& to,
                      void* destination) const override {
    if (from != to) {
      throw Error({.op = "npu",
                   .argument = "layout",
                   .expected = "row-major only",
                   .got = from + " to " + to});
    }
    if (const size_t bytes = type.shape.num_bytes(type.dtype); bytes != 0) {
      std::memcpy(destination, source, bytes);
    }
  }
  int64_t transfer_device_ns(int, size_t) const override { return 0; }

 private:
  NpuLibrary library_;
  std::shared_ptr<DeviceMemory> memory_;
};

}  // namespace
}  // namespace npu

std::unique_ptr<Backend> make_npu_backend() { return std::make_unique<npu::NpuBackend>(); }

}  // namespace keel
