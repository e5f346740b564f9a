#include "cli/onnx/planned_memory.h"

#include <memory>
#include <utility>

#include <keel/keel.h>

namespace keel_cli {

std::optional<size_t> planned_memory(const keel::onnx::ImportedModel& model) {
  keel::ElementSpec element;
  for (const auto& input : model.inputs) {
    if (!input.second.type().shape.known()) return std::nullopt;
    element.fields.push_back({input.first, input.second.type()});
  }
  keel::Values fetches;
  for (const auto& output : model.outputs) fetches.push_back(output.second);
  try {
    keel::Session session(*model.graph, keel::device("npu:0"));
    keel::SinkOptions step{.update = model.update, .fetches = fetches};
    if (!element.fields.empty()) {
      step.source = std::make_shared<keel::DeviceQueue>(session.device(), std::move(element),
                                                        keel::DeviceQueueOptions{.depth = 1});
    }
    return session.sink(step).program().info().scratch_bytes;
  } catch (const keel::Error&) {
    return std::nullopt;
  }
}

std::optional<size_t> memory_of_all_values(const keel::onnx::ImportedModel& model) {
  size_t bytes = 0;
  for (const keel::Node& node : model.graph->nodes()) {
    if (node.is(keel::OpRole::kInput) || node.is(keel::OpRole::kState) ||
        node.is(keel::OpRole::kConstant))
      continue;
    for (const keel::Type& type : node.types()) {
      if (!type.shape.known()) return std::nullopt;
      bytes += type.shape.num_bytes(type.dtype);
    }
  }
  return bytes;
}

}  // namespace keel_cli
