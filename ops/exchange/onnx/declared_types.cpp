#include "keel/ops/exchange/onnx/declared_types.h"

#include <algorithm>

namespace keel::onnx {

const DeclaredTypes::ByName& DeclaredTypes::types_in(const GraphProto& graph) {
  const auto [entry, added] = graphs_.try_emplace(&graph);
  if (!added) return entry->second;
  for (const auto* infos : {&graph.results, &graph.outputs}) {
    for (const ValueInfo& info : *infos)
      if (info.shape) entry->second.emplace(info.name, &info);
  }
  return entry->second;
}

const std::map<std::string, int64_t>& DeclaredTypes::sizes_of_names() {
  if (sizes_) return *sizes_;
  sizes_.emplace();
  for (const ValueInfo& input : model_.graph.inputs) {
    if (!input.shape) continue;
    const auto bound = options_.bind.find(input.name);
    // An input that is refused for its type may be bound to a tensor that does not fit it.
    const bool fits =
        bound != options_.bind.end() && bound->second.shape().rank() == input.shape->size();
    for (size_t axis = 0; axis < input.shape->size(); ++axis) {
      const Dimension& dim = (*input.shape)[axis];
      if (dim.size >= 0 || dim.name.empty()) continue;
      int64_t& size = sizes_->try_emplace(dim.name, kUnknownDim).first->second;
      if (fits) size = bound->second.shape()[axis];
    }
  }
  return *sizes_;
}

std::optional<Type> DeclaredTypes::find(const GraphProto& graph, const std::string& name) {
  const ByName& types = types_in(graph);
  const auto entry = types.find(name);
  if (entry == types.end()) return std::nullopt;
  const ValueInfo& info = *entry->second;
  const std::optional<DType> dtype = dtype_of(info.type);
  if (!dtype || info.shape->size() > Shape::kMaxRank) return std::nullopt;
  Shape shape;
  for (const Dimension& dim : *info.shape) {
    const auto named = sizes_of_names().find(dim.name);
    if (dim.size < 0 && named == sizes_of_names().end()) return std::nullopt;
    shape.push_back(dim.size >= 0 ? dim.size : named->second);
  }
  return Type{*dtype, shape};
}

}  // namespace keel::onnx
