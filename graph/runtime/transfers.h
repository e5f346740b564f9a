// Transfers: how much was copied between host and device memory, counted where the copies are made:
// by the host in a stream, or by a queue's producer. On a device that shares the host's memory a
// copy into a program's inputs counts like any other, and what is written there at once is none. A
// plain value.
#ifndef KEEL_GRAPH_RUNTIME_TRANSFERS_H
#define KEEL_GRAPH_RUNTIME_TRANSFERS_H

#include <cstdint>

namespace keel {

struct Transfers {
  int64_t to_device = 0;  // copies
  int64_t to_device_bytes = 0;
  int64_t to_host = 0;  // copies
  int64_t to_host_bytes = 0;

  Transfers& operator+=(const Transfers& other) noexcept {
    to_device += other.to_device;
    to_device_bytes += other.to_device_bytes;
    to_host += other.to_host;
    to_host_bytes += other.to_host_bytes;
    return *this;
  }
};

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_TRANSFERS_H
