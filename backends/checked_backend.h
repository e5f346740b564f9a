// CheckedBackend: a plugin's backend as the library calls it. What a call throws that is no Error
// becomes one that names the backend and the call, and nothing where there must be something is
// refused, so that no plugin ends the process without a word. Any thread.
#ifndef KEEL_BACKENDS_CHECKED_BACKEND_H
#define KEEL_BACKENDS_CHECKED_BACKEND_H

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "keel/core/device/backend.h"

namespace keel {

class CheckedBackend final : public Backend {
 public:
  // `name`: what the backend called itself when it was loaded.
  CheckedBackend(std::unique_ptr<Backend> backend, std::string name)
      : backend_(std::move(backend)), name_(std::move(name)) {}

  std::string name() const override { return name_; }
  std::vector<DeviceInfo> devices() const override;
  void require_options(const DeviceOptions* options) const override;
  Support supports(const Node& node, const DeviceOptions* options) const override;
  std::string default_precision_mode(const DeviceOptions* options) const override;
  Support computes_in(const std::string& dtype, const DeviceOptions* options) const override;
  Support finds_overflow(const std::string& kind, const DeviceOptions* options) const override;
  std::shared_ptr<Buffer> allocate(int device, size_t bytes, const std::string& holder) override;
  SlotMemory allocate_slot(int device, size_t bytes, const std::string& holder) override;
  std::unique_ptr<Stream> make_stream(int device, StreamKind kind) override;
  std::unique_ptr<Program> compile(int device, const Graph& graph,
                                   const CompileOptions& options) override;
  void convert_layout(const Type& type, const Layout& from, const void* source, const Layout& to,
                      void* destination) const override;
  int64_t transfer_device_ns(int device, size_t bytes, const DeviceOptions* options) const override;

 private:
  // Returns what `made` does; of an exception that is no Error it makes one. `call`: its name.
  template <class Made>
  auto checked(const char* call, const Made& made) const;
  // Throws Error unless the call gave something. `what`: "no program".
  void require(bool given, const char* call, const char* what) const;

  std::unique_ptr<Backend> backend_;
  std::string name_;
};

}  // namespace keel

#endif  // KEEL_BACKENDS_CHECKED_BACKEND_H
