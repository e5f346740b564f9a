// A backend of a project of its own: `ref` under another name. It looks at the attributes of what
// it is asked to run, declines transposed products, and has little memory.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <keel/backends/plugin.h>
#include <keel/keel.h>

namespace {

class PickyBackend final : public keel::Backend {
 public:
  std::string name() const override { return "picky"; }
  std::vector<keel::DeviceInfo> devices() const override {
    return {{.name = "picky:0", .description = "ref without transposed products"}};
  }
  keel::Support supports(const keel::Node& node,
                         const keel::DeviceOptions* options) const override {
    if (node.op_name() == "matmul" && node.as<keel::MatmulAttributes>().transpose_b)
      return {false, "the second operand is transposed"};
    return ref().supports(node, options);
  }
  std::shared_ptr<keel::Buffer> allocate(int device, size_t bytes,
                                         const std::string& holder) override {
    if (bytes > kMostBytes)
      throw keel::Error({.op = "picky", .argument = holder, .message = "does not fit into 1 MiB"});
    return ref().allocate(device, bytes, holder);
  }
  SlotMemory allocate_slot(int device, size_t bytes, const std::string& holder) override {
    return ref().allocate_slot(device, bytes, holder);
  }
  std::unique_ptr<keel::Stream> make_stream(int device, keel::StreamKind kind) override {
    return ref().make_stream(device, kind);
  }
  std::unique_ptr<keel::Program> compile(int device, const keel::Graph& graph,
                                         const keel::CompileOptions& options) override {
    return ref().compile(device, graph, options);
  }
  void convert_layout(const keel::Type& type, const keel::Layout& from, const void* source,
                      const keel::Layout& to, void* destination) const override {
    ref().convert_layout(type, from, source, to, destination);
  }
  int64_t transfer_device_ns(int device, size_t bytes,
                             const keel::DeviceOptions* options) const override {
    return ref().transfer_device_ns(device, bytes, options);
  }

 private:
  static constexpr size_t kMostBytes = size_t{1} << 20;
  static keel::Backend& ref() { return keel::backend("ref"); }
};

}  // namespace

KEEL_BACKEND_PLUGIN(PickyBackend)
