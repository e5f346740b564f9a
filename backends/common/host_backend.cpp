#include "keel/backends/common/host_backend.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "keel/backends/common/reference_kernel.h"
#include "keel/backends/common/task_program.h"
#include "keel/backends/registry.h"
#include "keel/core/base/error.h"

namespace keel {
namespace {

const KernelLibrary* host_processor() {
  const auto* processor = dynamic_cast<const HostBackend*>(&backend("cpu"));
  return processor == nullptr ? nullptr : &processor->library();
}

class HostTransfer final : public MemoryTransfer {
 public:
  void to_device(Buffer& to, size_t offset, const void* from, size_t bytes) override {
    copy(static_cast<char*>(check(to, offset, bytes)) + offset, from, bytes);
  }
  void to_host(void* to, const Buffer& from, size_t offset, size_t bytes) override {
    copy(to, static_cast<const char*>(check(from, offset, bytes)) + offset, bytes);
  }

 private:
  static void copy(void* to, const void* from, size_t bytes) {
    if (bytes != 0 && to != from) std::memcpy(to, from, bytes);
  }
  static void* check(const Buffer& buffer, size_t offset, size_t bytes) {
    if (!buffer.host_accessible() || offset > buffer.size() || bytes > buffer.size() - offset) {
      throw Error(
          {.op = "copy",
           .expected = "a range inside host memory of " + std::to_string(buffer.size()) + " bytes",
           .got = std::to_string(bytes) + " bytes at offset " + std::to_string(offset)});
    }
    return buffer.address();
  }
};

class CopyKernel final : public Kernel {
 public:
  explicit CopyKernel(size_t bytes) : bytes_(bytes) {}
  int blocks(int) const override {
    return static_cast<int>(std::max<size_t>(1, (bytes_ + kBlock - 1) / kBlock));
  }
  void run(void* const* args, int, int block) const override {
    const size_t begin = static_cast<size_t>(block) * kBlock;
    const size_t end = std::min(bytes_, begin + kBlock);
    if (begin >= end) return;
    std::memcpy(static_cast<char*>(args[1]) + begin, static_cast<const char*>(args[0]) + begin,
                end - begin);
  }

 private:
  static constexpr size_t kBlock = size_t{1} << 20;
  size_t bytes_;
};

}  // namespace

std::unique_ptr<Kernel> make_copy_kernel(size_t bytes) {
  return std::make_unique<CopyKernel>(bytes);
}

HostBackend::HostBackend(std::string name, std::string description,
                         std::unique_ptr<KernelLibrary> library)
    : name_(std::move(name)),
      description_(std::move(description)),
      library_(std::move(library)),
      memory_(std::make_shared<HostTransfer>()) {}

HostBackend::~HostBackend() = default;

std::vector<DeviceInfo> HostBackend::devices() const {
  return {{name_ + ":0", description_, 0, {}}};
}

Support HostBackend::supports(const Node& node, const DeviceOptions*) const {
  return supports_in_task_list(*library_, node);
}

std::shared_ptr<Buffer> HostBackend::allocate(int, size_t bytes, const std::string& holder) {
  try {
    return allocate_host_buffer(bytes);
  } catch (const Error& error) {
    throw error.with_context(name_ + ", for " + holder);
  }
}

Backend::SlotMemory HostBackend::allocate_slot(int device, size_t bytes,
                                               const std::string& holder) {
  auto buffer = allocate(device, bytes, holder);
  void* address = buffer->address();
  return {std::move(buffer), address, nullptr};
}

std::unique_ptr<Stream> HostBackend::make_stream(int, StreamKind kind) {
  if (kind == StreamKind::kTransfer) return std::make_unique<InlineStream>(memory_);
  return std::make_unique<WorkerStream>(memory_);
}

std::unique_ptr<Program> HostBackend::compile(int device, const Graph& graph,
                                              const CompileOptions& options) {
  require_options(options.device_options.get());
  TaskList list = lower(graph, *library_);
  auto constants = allocate(device, list.info.constant_bytes, "constants");
  InlineStream transfer(memory_);
  return std::make_unique<TaskProgram>(std::move(list), std::move(constants), transfer,
                                       InterpreterOptions{.threads = options.threads});
}

void HostBackend::convert_layout(const Type& type, const Layout& from, const void* source,
                                 const Layout& to, void* destination) const {
  if (from != to) {
    throw Error({.op = name_,
                 .argument = "layout",
                 .expected = "row-major only",
                 .got = from + " to " + to});
  }
  if (const size_t bytes = type.shape.num_bytes(type.dtype); bytes != 0) {
    std::memcpy(destination, source, bytes);
  }
}

int64_t HostBackend::transfer_device_ns(int, size_t, const DeviceOptions*) const { return 0; }

Support supports_on_host_processor(const Node& node) {
  const KernelLibrary* processor = host_processor();
  const Support own = processor == nullptr ? Support{} : processor->supports(node);
  // It composes what it has no kernel for, like any backend.
  return own.supported || node.op().decompose != nullptr ? own : supports_reference(node);
}

KernelPlan plan_on_host_processor(const Node& node) {
  const KernelLibrary* processor = host_processor();
  if (processor == nullptr || !processor->supports(node).supported) return plan_reference(node);
  KernelPlan plan = processor->plan(node, {});
  plan.kind = TaskKind::kAiCpu;
  return plan;
}

}  // namespace keel
