// DecliningBackend: a device whose steps the host has to drive, for tests of what must be the same
// there.
#ifndef KEEL_TESTS_SUPPORT_DECLINING_BACKEND_H
#define KEEL_TESTS_SUPPORT_DECLINING_BACKEND_H

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "keel/backends/registry.h"
#include "keel/core/base/error.h"
#include "keel/graph/ir/graph.h"

namespace keel_test {

// Another backend but for one op that it does not run.
class DecliningBackend : public keel::Backend {
 public:
  DecliningBackend(const std::string& base, std::string declined)
      : base_(keel::backend(base)), declined_(std::move(declined)) {}

  std::string name() const override { return "modest"; }
  void require_options(const keel::DeviceOptions* options) const override {
    base_.require_options(options);
  }
  std::vector<keel::DeviceInfo> devices() const override { return base_.devices(); }
  keel::Support supports(const keel::Node& node,
                         const keel::DeviceOptions* options) const override {
    if (node.op_name() == declined_) return {false, "its control unit is too small"};
    return base_.supports(node, options);
  }
  std::shared_ptr<keel::Buffer> allocate(int index, size_t bytes,
                                         const std::string& holder) override {
    return base_.allocate(index, bytes, holder);
  }
  SlotMemory allocate_slot(int index, size_t bytes, const std::string& holder) override {
    return base_.allocate_slot(index, bytes, holder);
  }
  std::unique_ptr<keel::Stream> make_stream(int index, keel::StreamKind kind) override {
    return base_.make_stream(index, kind);
  }
  std::unique_ptr<keel::Program> compile(int index, const keel::Graph& graph,
                                         const keel::CompileOptions& options) override {
    for (const keel::Node& node : graph.nodes()) {
      if (node.op_name() == declined_) throw keel::Error("it was said that this does not run here");
    }
    return base_.compile(index, graph, options);
  }
  void convert_layout(const keel::Type& type, const keel::Layout& from, const void* source,
                      const keel::Layout& to, void* destination) const override {
    base_.convert_layout(type, from, source, to, destination);
  }
  int64_t transfer_device_ns(int index, size_t bytes,
                             const keel::DeviceOptions* options) const override {
    return base_.transfer_device_ns(index, bytes, options);
  }
  keel::Device device() { return keel::Device(this, 0); }

 private:
  keel::Backend& base_;
  std::string declined_;
};

}  // namespace keel_test

#endif  // KEEL_TESTS_SUPPORT_DECLINING_BACKEND_H
