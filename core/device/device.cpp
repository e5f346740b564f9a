#include "keel/core/device/device.h"

#include "keel/core/base/error.h"

namespace keel {

Event::~Event() = default;
Stream::~Stream() = default;
Program::~Program() = default;
Backend::~Backend() = default;

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
