// npu: a simulated Ascend-like accelerator: memory of its own, work that reaches it through streams
// only, a control unit that walks the task list, kernels written against a small ISA.
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "keel/backends/common/task_list.h"
#include "keel/backends/npu/device/float_status.h"
#include "keel/backends/npu/device/memory.h"
#include "keel/backends/npu/isa/host_isa.h"
#include "keel/backends/npu/kernels/weight_copies.h"
#include "keel/backends/npu/npu_program.h"
#include "keel/core/base/environment.h"
#include "keel/core/base/error.h"

namespace keel {
namespace npu {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

class NpuBackend final : public Backend {
 public:
  NpuBackend() {
    const int64_t mib = environment_integer("KEEL_NPU_MEMORY_MIB", 1, int64_t{1} << 30)
                            .value_or(current_preset()->hbm_bytes / kMiB);
    memory_ = std::make_shared<DeviceMemory>(static_cast<size_t>(mib * kMiB));
    strict_ = environment_choice("KEEL_NPU_STRICT", {"0", "1"}).value_or("0") == "1";
    // A KEEL_ISA that is wrong is reported here, not at the first launch.
    static_cast<void>(host_isa());
  }

  std::string name() const override { return "npu"; }
  std::vector<DeviceInfo> devices() const override {
    return {
        {"npu:0",
         "simulated Ascend-like accelerator",
         memory_->capacity(),
         {{"preset", current_preset()->name + ": " + current_preset()->description},
          {"isa", name_of(host_isa())},
          {"available isas", available_host_isa_names()},
          {"AMX",
           (amx_status().available ? "available: " : "not available: ") + amx_status().reason},
          {"strict", strict_ ? "on: KEEL_NPU_STRICT=1, every copy is real and checked" : "off"}}}};
  }
  Support supports(const Node& node) const override {
    return supports_in_task_list(NpuLibrary(current_preset()), node);
  }

  std::shared_ptr<Buffer> allocate(int, size_t bytes, const std::string& holder) override {
    return memory_->allocate(bytes, holder);
  }
  SlotMemory allocate_slot(int, size_t bytes, const std::string& holder) override {
    auto buffer = memory_->allocate(bytes, holder);
    if (strict_) {
      auto host = allocate_host_buffer(bytes);
      return {std::move(buffer), host->address(), host};
    }
    void* address = buffer->address();
    return {std::move(buffer), address, nullptr};
  }
  std::unique_ptr<Stream> make_stream(int, StreamKind kind) override {
    if (kind == StreamKind::kTransfer) return std::make_unique<InlineStream>(memory_);
    return std::make_unique<WorkerStream>(memory_);
  }
  std::unique_ptr<Program> compile(int, const Graph& graph, const CompileOptions&) override {
    auto preset = current_preset();
    NpuLibrary library(preset);
    TaskList list = lower(graph, library);
    set_device_times(list, *preset);
    auto constants = memory_->allocate(list.info.constant_bytes, "constants");
    InlineStream transfer(memory_);
    return std::make_unique<NpuProgram>(std::move(list), library.take_launches(), std::move(preset),
                                        std::move(constants), transfer, memory_,
                                        WalkerOptions{strict_, float_status_});
  }
  void convert_layout(const Type& type, const Layout&, const void* source, const Layout& to,
                      void* destination) const override {
    std::optional<WeightCopies> copies;
    if (!to.empty()) copies.emplace(type, to);
    const size_t bytes = type.shape.num_bytes(type.dtype);
    if (bytes != 0) std::memcpy(destination, source, bytes);
    if (copies) copies->pack(static_cast<char*>(destination));
  }
  int64_t transfer_device_ns(int, size_t bytes) const override {
    return price_transfer(*current_preset(), static_cast<int64_t>(bytes));
  }

  std::atomic<uint32_t>& float_status() { return *float_status_; }

 private:
  std::shared_ptr<DeviceMemory> memory_;
  std::shared_ptr<std::atomic<uint32_t>> float_status_ = std::make_shared<std::atomic<uint32_t>>(0);
  bool strict_ = false;
};

std::atomic<uint32_t>& status_word(const Device& device) {
  auto* npu = dynamic_cast<NpuBackend*>(&device.backend());
  if (npu == nullptr) {
    throw Error({.op = "float status", .expected = "an NPU", .got = device.name()});
  }
  return npu->float_status();
}

}  // namespace

uint32_t float_status(const Device& device) { return status_word(device).load(); }
void clear_float_status(const Device& device) { status_word(device).store(0); }

}  // namespace npu

std::unique_ptr<Backend> make_npu_backend() { return std::make_unique<npu::NpuBackend>(); }

}  // namespace keel
