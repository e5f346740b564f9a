#include "keel/ops/exchange/onnx/declared_types.h"

namespace keel::onnx {

const DeclaredTypes::ByName& DeclaredTypes::types_in(const GraphProto& graph) {
  const auto [entry, added] = graphs_.try_emplace(&graph);
  if (!added) return entry->second;
  for (const ValueInfo& info : graph.results) entry->second.emplace(info.name, &info);
  for (const ValueInfo& info : graph.outputs) entry->second.emplace(info.name, &info);
  return entry->second;
}

std::optional<Type> DeclaredTypes::find(const GraphProto& graph, const std::string& name) {
  const ByName& types = types_in(graph);
  const auto entry = types.find(name);
  if (entry == types.end()) return std::nullopt;
  const ValueInfo& info = *entry->second;
  const std::optional<DType> dtype = dtype_of(info.type);
  if (!dtype || !info.shape || info.shape->size() > Shape::kMaxRank) return std::nullopt;
  if (!open_) {
    open_.emplace();
    for (const ValueInfo& input : model_.graph.inputs) {
      if (!input.shape) continue;
      for (const Dimension& dim : *input.shape)
        if (dim.size < 0 && !dim.name.empty()) open_->insert(dim.name);
    }
  }
  Shape shape;
  for (const Dimension& dim : *info.shape) {
    if (dim.size < 0 && open_->count(dim.name) == 0) return std::nullopt;
    shape.push_back(dim.size < 0 ? kUnknownDim : dim.size);
  }
  return Type{*dtype, shape};
}

}  // namespace keel::onnx
