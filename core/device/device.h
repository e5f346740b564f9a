// Device: a copyable handle to one device of a backend. Backends live as long as the process, so a
// handle never dangles.
#ifndef KEEL_CORE_DEVICE_DEVICE_H
#define KEEL_CORE_DEVICE_DEVICE_H

#include <string>

#include "keel/core/device/backend.h"

namespace keel {

class KEEL_API Device {
 public:
  Device() = default;  // none: using it throws
  Device(Backend* backend, int index) : backend_(backend), index_(index) {}

  bool valid() const noexcept { return backend_ != nullptr; }
  // Throws Error when this is no device.
  Backend& backend() const;
  int index() const noexcept { return index_; }
  std::string name() const;  // "npu:0"

  bool operator==(const Device&) const = default;

 private:
  Backend* backend_ = nullptr;
  int index_ = 0;
};

}  // namespace keel

#endif  // KEEL_CORE_DEVICE_DEVICE_H
