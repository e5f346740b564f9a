// HostBackend: what the backends that compute in host memory (cpu, ref) share: memory, streams,
// compilation through lower() and TaskProgram. A subclass gives its name and its kernels.
#ifndef KEEL_BACKENDS_COMMON_HOST_BACKEND_H
#define KEEL_BACKENDS_COMMON_HOST_BACKEND_H

#include <memory>
#include <string>
#include <vector>

#include "keel/backends/common/kernel.h"
#include "keel/backends/common/worker_stream.h"
#include "keel/core/device/backend.h"

namespace keel {

class KEEL_API HostBackend : public Backend {
 public:
  HostBackend(std::string name, std::string description, std::unique_ptr<KernelLibrary> library);
  ~HostBackend() override;

  std::string name() const override { return name_; }
  std::vector<DeviceInfo> devices() const override;
  Support supports(const Node& node, const DeviceOptions* options) const override;
  std::shared_ptr<Buffer> allocate(int device, size_t bytes, const std::string& holder) override;
  SlotMemory allocate_slot(int device, size_t bytes, const std::string& holder) override;
  std::unique_ptr<Stream> make_stream(int device, StreamKind kind) override;
  std::unique_ptr<Program> compile(int device, const Graph& graph,
                                   const CompileOptions& options) override;
  void convert_layout(const Type& type, const Layout& from, const void* source, const Layout& to,
                      void* destination) const override;
  int64_t transfer_device_ns(int device, size_t bytes, const DeviceOptions* options) const override;
  const KernelLibrary& library() const noexcept { return *library_; }

 private:
  std::string name_;
  std::string description_;
  std::unique_ptr<KernelLibrary> library_;
  std::shared_ptr<MemoryTransfer> memory_;
};

// Says whether the processor of the host has a node as one task: by the kernel of the backend
// `cpu`, or by its reference where the op is not a composite.
KEEL_API Support supports_on_host_processor(const Node& node);
// Plans a node with the kernel of the backend `cpu`, whose bits it then has, as a task of the
// host's processor; with its reference where that backend has no kernel for it.
KEEL_API KernelPlan plan_on_host_processor(const Node& node);

// Returns a kernel that copies `bytes` from argument 0 to argument 1, in blocks of a size that
// depends on `bytes` alone.
KEEL_API std::unique_ptr<Kernel> make_copy_kernel(size_t bytes);

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_HOST_BACKEND_H
