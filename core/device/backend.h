// Backend: what a kind of device implements. A process has one object of each (made by
// backends/registry or loaded from a plugin), never unloaded. All functions may be called from any
// thread.
#ifndef KEEL_CORE_DEVICE_BACKEND_H
#define KEEL_CORE_DEVICE_BACKEND_H

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "keel/core/base/export.h"
#include "keel/core/device/program.h"
#include "keel/core/device/stream.h"

namespace keel {

class Graph;
class Node;

// Raised whenever Backend, Stream, Program or the structs they exchange change; plugins of another
// version are refused.
inline constexpr int kBackendApiVersion = 16;

struct DeviceInfo {
  std::string name;  // "npu:0"
  std::string description;
  size_t memory_bytes = 0;
  std::vector<std::pair<std::string, std::string>> properties;  // for `keel info`: name, value
};

struct Support {
  bool supported = false;
  std::string reason;  // why not
};

// Holds what a session asks of its device beyond the graph (npu: preset and block_dim). A backend
// that takes any has a struct of its own, and refuses another's. Immutable, shared by the session's
// programs.
class KEEL_API DeviceOptions {
 public:
  virtual ~DeviceOptions();
};

struct CompileOptions {
  int threads = 0;  // compute threads of a launch; 0: those of the thread that compiles
  std::shared_ptr<const DeviceOptions> device_options =
      {};  // null: what the backend does without any
};

class KEEL_API Backend {
 public:
  virtual ~Backend();
  virtual std::string name() const = 0;  // "npu"
  virtual std::vector<DeviceInfo> devices() const = 0;
  // Throws Error (kInvalidArgument) for options that are not for this backend. Null is for all.
  virtual void require_options(const DeviceOptions* options) const;
  // Returns whether a specialised node can run here. Composite nodes are decomposed before this
  // matters.
  virtual Support supports(const Node& node, const DeviceOptions* options = nullptr) const = 0;
  // Returns the precision_mode (graph/precision/precision_mode.h) of sessions that name none;
  // empty: none, each node computes in the graph's dtypes.
  virtual std::string default_precision_mode(const DeviceOptions* options = nullptr) const;
  // Returns whether the device computes in a dtype that a precision mode is about: "bf16", "hif8".
  virtual Support computes_in(const std::string& dtype,
                              const DeviceOptions* options = nullptr) const;
  // Returns whether it can look for f16 overflow of one kind alone, by Ascend's names of
  // dump_debug_mode: "aicore_overflow", "atomic_overflow"; "all" is for every backend.
  virtual Support finds_overflow(const std::string& kind,
                                 const DeviceOptions* options = nullptr) const;
  // Device memory, zeroed. Throws Error naming bytes asked, in use and the largest holders when
  // there is not enough. `holder` says whose it is ("state w", "scratch", "queue train").
  virtual std::shared_ptr<Buffer> allocate(int device, size_t bytes, const std::string& holder) = 0;
  // Memory of a queue's slot: host_address() of the pair is where the producer writes before the
  // transfer stream's copy_to_device(buffer, 0, host_address, bytes); on devices that map their
  // memory it is the buffer's own address and that copy moves nothing.
  struct SlotMemory {
    std::shared_ptr<Buffer> buffer;
    void* host_address = nullptr;
    std::shared_ptr<void> host_owner;
  };
  virtual SlotMemory allocate_slot(int device, size_t bytes, const std::string& holder) = 0;
  virtual std::unique_ptr<Stream> make_stream(int device, StreamKind kind) = 0;
  virtual std::unique_ptr<Program> compile(int device, const Graph& graph,
                                           const CompileOptions& options) = 0;
  // Rewrites a state's bytes between layouts on the host; only called with layouts its programs
  // reported. Each begins with the plain value (Layout).
  virtual void convert_layout(const Type& type, const Layout& from, const void* source,
                              const Layout& to, void* destination) const = 0;
  // Modelled time of a host-to-device copy in ns on the device clock; 0 where nothing is priced.
  virtual int64_t transfer_device_ns(int device, size_t bytes,
                                     const DeviceOptions* options = nullptr) const = 0;
};

}  // namespace keel

#endif  // KEEL_CORE_DEVICE_BACKEND_H
