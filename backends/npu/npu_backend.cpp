// npu: a simulated Ascend-like accelerator: memory of its own, work that reaches it through streams
// only, a control unit that walks the task list, kernels written against a small ISA.
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "keel/backends/common/cube/kernel_choice.h"
#include "keel/backends/common/products/prepacked_weight.h"
#include "keel/backends/common/task_list.h"
#include "keel/backends/common/vector/host_isa.h"
#include "keel/backends/npu/device/float_status.h"
#include "keel/backends/npu/device/memory.h"
#include "keel/backends/npu/kernels/kernel_entry.h"
#include "keel/backends/npu/npu_program.h"
#include "keel/backends/npu/options.h"
#include "keel/backends/npu/resident_prices.h"
#include "keel/core/base/environment.h"
#include "keel/core/base/error.h"

namespace keel {
namespace npu {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// A server has so many of them.
constexpr size_t kDevices = 8;

// Returns the options of a session that asks for nothing.
const NpuOptions& default_options() {
  static const NpuOptions options;
  return options;
}

// Throws Error for another backend's.
const NpuOptions& own_options(const DeviceOptions* options) {
  if (options == nullptr) return default_options();
  const auto* own = dynamic_cast<const NpuOptions*>(options);
  if (own != nullptr) return *own;
  throw Error({.op = "device options",
               .expected = "npu::NpuOptions",
               .got = "some of another backend",
               .fix = "make them with npu::options()",
               .kind = ErrorKind::kInvalidArgument});
}

constexpr const char* kStrictText =
    "on: KEEL_NPU_STRICT=1, every copy is real and checked, launches run as planned (keel graph "
    "--compiled names those that do not, and why)";

// Holds what belongs to one of the devices.
struct NpuDevice {
  std::shared_ptr<DeviceMemory> memory;
  std::shared_ptr<std::atomic<uint32_t>> float_status = std::make_shared<std::atomic<uint32_t>>(0);
};

class NpuBackend final : public Backend {
 public:
  NpuBackend() {
    const int64_t mib = environment_integer("KEEL_NPU_MEMORY_MIB", 1, int64_t{1} << 30)
                            .value_or(default_preset()->hbm_bytes / kMiB);
    for (size_t i = 0; i < kDevices; ++i)
      devices_.push_back({std::make_shared<DeviceMemory>(static_cast<size_t>(mib * kMiB))});
    strict_ = environment_choice("KEEL_NPU_STRICT", {"0", "1"}).value_or("0") == "1";
    // A KEEL_ISA that is wrong is reported here, not at the first launch.
    static_cast<void>(vector::host_isa());
  }

  std::string name() const override { return "npu"; }
  std::vector<DeviceInfo> devices() const override {
    const Preset& preset = *default_preset();
    std::vector<DeviceInfo> infos;
    for (const NpuDevice& device : devices_) {
      infos.push_back(
          {"npu:" + std::to_string(infos.size()),
           "simulated Ascend-like accelerator",
           device.memory->capacity(),
           {{"preset", preset.name + ": " + preset.description},
            {"isa", host_isa_name()},
            {"available isas", vector::available_host_isa_names()},
            {"AMX", (vector::amx_status().available ? "available: " : "not available: ") +
                        vector::amx_status().reason},
            {"strict", strict_ ? kStrictText : "off"}}});
    }
    return infos;
  }
  void require_options(const DeviceOptions* options) const override {
    static_cast<void>(own_options(options));
  }
  std::string default_precision_mode(const DeviceOptions* options) const override {
    return own_options(options).preset()->precision_mode;
  }
  Support computes_in(const std::string& dtype, const DeviceOptions* options) const override {
    const Preset& preset = *own_options(options).preset();
    if (dtype == "bf16" && !preset.bf16) {
      return {false, preset.name + " has no bf16; presets that have it: " + presets_with_bf16()};
    }
    if (dtype != "hif8") return Backend::computes_in(dtype, options);
    return {false, preset.name + " has no hif8, and no other preset has it"};
  }
  Support finds_overflow(const std::string& kind, const DeviceOptions* options) const override {
    const Preset& preset = *own_options(options).preset();
    if (kind == "all") return {true, ""};
    if (preset.series == "910B")
      return {false, preset.name + " is of series 910B, which has none but all"};
    return {false, "this model of " + preset.name +
                       " has one status word for each op, whether its cores overflowed or what "
                       "they added to memory; it has all"};
  }
  Support supports(const Node& node, const DeviceOptions* options) const override {
    return supports_in_task_list(NpuLibrary(own_options(options).preset()), node);
  }

  std::shared_ptr<Buffer> allocate(int device, size_t bytes, const std::string& holder) override {
    return at(device).memory->allocate(bytes, holder);
  }
  SlotMemory allocate_slot(int device, size_t bytes, const std::string& holder) override {
    auto buffer = at(device).memory->allocate(bytes, holder);
    if (strict_) {
      auto host = allocate_host_buffer(bytes);
      return {std::move(buffer), host->address(), host};
    }
    void* address = buffer->address();
    return {std::move(buffer), address, nullptr};
  }
  std::unique_ptr<Stream> make_stream(int device, StreamKind kind) override {
    const auto& memory = at(device).memory;
    if (kind == StreamKind::kTransfer) return std::make_unique<InlineStream>(memory);
    return std::make_unique<WorkerStream>(memory);
  }
  std::unique_ptr<Program> compile(int device, const Graph& graph,
                                   const CompileOptions& options) override {
    const NpuDevice& own = at(device);
    const NpuOptions& asked = own_options(options.device_options.get());
    std::shared_ptr<const Preset> preset = asked.preset();
    NpuLibrary library(preset, asked.block_dim(), strict_);
    TaskList list = lower(graph, library);
    NpuLibrary::Launches launches = library.take_launches();
    price_by_residency(list, launches, *preset);
    hide_collectives(list, *preset);
    set_device_times(list, *preset);
    list.info.modelled_device = preset->name;
    auto constants = own.memory->allocate(list.info.constant_bytes, "constants");
    InlineStream transfer(own.memory);
    return std::make_unique<NpuProgram>(
        std::move(list), std::move(launches), std::move(preset), std::move(constants), transfer,
        own.memory,
        InterpreterOptions{strict_, own.float_status, options.threads,
                           library.take_planned_runs()});
  }
  void convert_layout(const Type& type, const Layout&, const void* source, const Layout& to,
                      void* destination) const override {
    std::optional<PrepackedWeight> copies;
    if (!to.empty()) copies.emplace(type, to);
    const size_t bytes = type.shape.num_bytes(type.dtype);
    if (bytes != 0) std::memcpy(destination, source, bytes);
    if (copies) copies->pack(static_cast<char*>(destination));
  }
  int64_t transfer_device_ns(int, size_t bytes, const DeviceOptions* options) const override {
    return price_transfer(*own_options(options).preset(), static_cast<int64_t>(bytes));
  }

  std::atomic<uint32_t>& float_status(int device) { return *at(device).float_status; }

 private:
  const NpuDevice& at(int device) const { return devices_.at(static_cast<size_t>(device)); }

  std::vector<NpuDevice> devices_;
  bool strict_ = false;
};

std::atomic<uint32_t>& status_word(const Device& device) {
  auto* npu = dynamic_cast<NpuBackend*>(&device.backend());
  if (npu == nullptr) {
    throw Error({.op = "float status", .expected = "an NPU", .got = device.name()});
  }
  return npu->float_status(device.index());
}

}  // namespace

uint32_t float_status(const Device& device) { return status_word(device).load(); }
void clear_float_status(const Device& device) { status_word(device).store(0); }

}  // namespace npu

std::unique_ptr<Backend> make_npu_backend() { return std::make_unique<npu::NpuBackend>(); }

}  // namespace keel
