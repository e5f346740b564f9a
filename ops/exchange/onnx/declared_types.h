// DeclaredTypes: the types that an ONNX file itself gives to results of its nodes (value_info, and
// those of its outputs). The import infers types anew and needs these only to go on behind a node
// that it refuses. Owned by an import; one thread.
#ifndef KEEL_OPS_EXCHANGE_ONNX_DECLARED_TYPES_H
#define KEEL_OPS_EXCHANGE_ONNX_DECLARED_TYPES_H

#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "keel/graph/ir/graph.h"
#include "keel/ops/exchange/onnx/read_model.h"

namespace keel::onnx {

class DeclaredTypes {
 public:
  // `model` must outlive it.
  explicit DeclaredTypes(const ModelProto& model) : model_(model) {}
  // Nothing where the file is silent, says no dtype that Keel has, or leaves a dimension open that
  // is none of a model's input: the import might have known that one.
  std::optional<Type> find(const GraphProto& graph, const std::string& name);

 private:
  using ByName = std::unordered_map<std::string, const ValueInfo*>;
  const ByName& types_in(const GraphProto& graph);

  const ModelProto& model_;
  std::map<const GraphProto*, ByName> graphs_;
  std::optional<std::set<std::string>> open_;  // names of dimensions of the model's inputs
};

}  // namespace keel::onnx

#endif  // KEEL_OPS_EXCHANGE_ONNX_DECLARED_TYPES_H
