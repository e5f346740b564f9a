#include "keel/core/device/device.h"

#include "keel/core/base/error.h"

namespace keel {

Event::~Event() = default;
Stream::~Stream() = default;
Program::~Program() = default;
DeviceOptions::~DeviceOptions() = default;
Backend::~Backend() = default;

std::vector<std::string> Program::op_names() const { return {}; }

void Backend::require_options(const DeviceOptions* options) const {
  if (options == nullptr) return;
  throw Error({.op = "device options",
               .expected = "none for " + name(),
               .got = "some of another backend",
               .fix = "leave them out, or take the device that they are for",
               .kind = ErrorKind::kInvalidArgument});
}

std::string Backend::default_precision_mode(const DeviceOptions*) const { return ""; }

Support Backend::finds_overflow(const std::string& kind, const DeviceOptions*) const {
  if (kind == "all") return {true, ""};
  return {false, name() + " does not say which part of it overflowed; it has all"};
}

Support Backend::computes_in(const std::string& dtype, const DeviceOptions*) const {
  if (dtype != "hif8") return {true, ""};
  return {false, name() + " has no hif8"};
}

Backend& Device::backend() const {
  if (backend_ == nullptr) {
    throw Error({.op = "device",
                 .message = "no device is set",
                 .fix = "make one with keel::device(\"npu:0\")"});
  }
  return *backend_;
}

std::string Device::name() const { return backend().name() + ":" + std::to_string(index_); }

}  // namespace keel
