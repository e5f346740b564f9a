#include "keel/backends/checked_backend.h"

#include <exception>
#include <utility>

#include "keel/core/base/error.h"

namespace keel {

template <class Made>
auto CheckedBackend::checked(const char* call, const Made& made) const {
  const auto refuse = [&](const std::string& message) {
    return Error({.op = "backend " + name_, .argument = call, .message = message});
  };
  try {
    return made();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw refuse(error.what());
  } catch (...) {
    throw refuse("it threw something that is no exception");
  }
}

void CheckedBackend::require(bool given, const char* call, const char* what) const {
  if (given) return;
  throw Error({.op = "backend " + name_, .message = std::string(call) + " gave " + what});
}

std::vector<DeviceInfo> CheckedBackend::devices() const {
  auto devices = checked("devices", [&] { return backend_->devices(); });
  // It had some when it was loaded.
  if (devices.empty()) throw Error({.op = "backend " + name_, .message = "it has no device now"});
  return devices;
}

void CheckedBackend::require_options(const DeviceOptions* options) const {
  checked("require_options", [&] { backend_->require_options(options); });
}

Support CheckedBackend::supports(const Node& node, const DeviceOptions* options) const {
  return checked("supports", [&] { return backend_->supports(node, options); });
}

std::string CheckedBackend::default_precision_mode(const DeviceOptions* options) const {
  return checked("default_precision_mode",
                 [&] { return backend_->default_precision_mode(options); });
}

Support CheckedBackend::computes_in(const std::string& dtype, const DeviceOptions* options) const {
  return checked("computes_in", [&] { return backend_->computes_in(dtype, options); });
}

Support CheckedBackend::finds_overflow(const std::string& kind,
                                       const DeviceOptions* options) const {
  return checked("finds_overflow", [&] { return backend_->finds_overflow(kind, options); });
}

std::shared_ptr<Buffer> CheckedBackend::allocate(int device, size_t bytes,
                                                 const std::string& holder) {
  auto buffer = checked("allocate", [&] { return backend_->allocate(device, bytes, holder); });
  require(buffer != nullptr, "allocate", "no buffer");
  return buffer;
}

Backend::SlotMemory CheckedBackend::allocate_slot(int device, size_t bytes,
                                                  const std::string& holder) {
  SlotMemory slot =
      checked("allocate_slot", [&] { return backend_->allocate_slot(device, bytes, holder); });
  require(slot.buffer != nullptr, "allocate_slot", "no buffer");
  require(bytes == 0 || slot.host_address != nullptr, "allocate_slot", "no address for the host");
  return slot;
}

std::unique_ptr<Stream> CheckedBackend::make_stream(int device, StreamKind kind) {
  auto stream = checked("make_stream", [&] { return backend_->make_stream(device, kind); });
  require(stream != nullptr, "make_stream", "no stream");
  return stream;
}

std::unique_ptr<Program> CheckedBackend::compile(int device, const Graph& graph,
                                                 const CompileOptions& options) {
  auto program = checked("compile", [&] { return backend_->compile(device, graph, options); });
  require(program != nullptr, "compile", "no program");
  return program;
}

void CheckedBackend::convert_layout(const Type& type, const Layout& from, const void* source,
                                    const Layout& to, void* destination) const {
  checked("convert_layout", [&] { backend_->convert_layout(type, from, source, to, destination); });
}

int64_t CheckedBackend::transfer_device_ns(int device, size_t bytes,
                                           const DeviceOptions* options) const {
  return checked("transfer_device_ns",
                 [&] { return backend_->transfer_device_ns(device, bytes, options); });
}

}  // namespace keel
