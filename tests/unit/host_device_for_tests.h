// HostBackend: a device whose memory is the host's, for tests of queues and feeders. It compiles
// nothing. Tests make one, use device(), and let it outlive what they made on it.
#ifndef KEEL_TESTS_UNIT_HOST_DEVICE_FOR_TESTS_H
#define KEEL_TESTS_UNIT_HOST_DEVICE_FOR_TESTS_H

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "keel/core/base/error.h"
#include "keel/core/device/backend.h"
#include "keel/core/device/device.h"

namespace keel::testing {

class HostEvent : public Event {
 public:
  void synchronize() override {}
};

class HostStream : public Stream {
 public:
  explicit HostStream(const std::atomic<int>* copies_until_failure)
      : copies_until_failure_(copies_until_failure) {}

  void copy_to_device(Buffer& to, size_t offset, const void* from, size_t bytes) override {
    if (copies_until_failure_->load() == 0) throw Error("the copy failed");
    std::byte* target = static_cast<std::byte*>(to.address()) + offset;
    if (target != from) std::memcpy(target, from, bytes);
  }
  void copy_to_host(void* to, const Buffer& from, size_t offset, size_t bytes) override {
    std::memcpy(to, static_cast<const std::byte*>(from.address()) + offset, bytes);
  }
  std::shared_ptr<Event> record() override { return std::make_shared<HostEvent>(); }
  void wait(const std::shared_ptr<Event>&) override {}
  void synchronize() override {}

 private:
  const std::atomic<int>* copies_until_failure_;
};

class HostBackend : public Backend {
 public:
  std::string name() const override { return "host"; }
  std::vector<DeviceInfo> devices() const override {
    return {{.name = "host:0", .description = "host memory", .memory_bytes = 0, .properties = {}}};
  }
  Support supports(const Node&, const DeviceOptions*) const override {
    return {false, "tests only"};
  }
  std::shared_ptr<Buffer> allocate(int, size_t bytes, const std::string&) override {
    allocated_bytes += bytes;
    return allocate_host_buffer(bytes);
  }
  // Host and device side apart, so that a missing copy shows.
  SlotMemory allocate_slot(int device, size_t bytes, const std::string& holder) override {
    auto host = allocate_host_buffer(bytes);
    return {allocate(device, bytes, holder), host->address(), host};
  }
  std::unique_ptr<Stream> make_stream(int, StreamKind) override {
    return std::make_unique<HostStream>(&copies_until_failure);
  }
  std::unique_ptr<Program> compile(int, const Graph&, const CompileOptions&) override {
    throw Error("the host device of the tests compiles nothing");
  }
  void convert_layout(const Type&, const Layout&, const void*, const Layout&,
                      void*) const override {
    throw Error("the host device of the tests has one layout");
  }
  int64_t transfer_device_ns(int, size_t bytes, const DeviceOptions*) const override {
    return static_cast<int64_t>(bytes) * 2;
  }

  Device device() { return Device(this, 0); }

  std::atomic<size_t> allocated_bytes{0};
  std::atomic<int> copies_until_failure{-1};  // 0: every copy throws
};

}  // namespace keel::testing

#endif  // KEEL_TESTS_UNIT_HOST_DEVICE_FOR_TESTS_H
