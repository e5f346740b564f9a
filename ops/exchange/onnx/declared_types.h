// DeclaredTypes: the types that an ONNX file itself gives to results of its nodes (value_info, and
// those of its outputs). The import infers types anew and needs these only to go on behind a node
// that it refuses. Owned by an import; one thread.
#ifndef KEEL_OPS_EXCHANGE_ONNX_DECLARED_TYPES_H
#define KEEL_OPS_EXCHANGE_ONNX_DECLARED_TYPES_H

#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include "keel/ops/exchange/onnx/import.h"
#include "keel/ops/exchange/onnx/read_model.h"

namespace keel::onnx {

class DeclaredTypes {
 public:
  // Both must outlive it.
  DeclaredTypes(const ModelProto& model, const ImportOptions& options)
      : model_(model), options_(options) {}
  // Nothing where the file is silent, says no dtype that Keel has, or leaves a dimension open that
  // is not one of the model inputs' named dimensions: the import might have known that one.
  std::optional<Type> find(const GraphProto& graph, const std::string& name);

 private:
  using ByName = std::unordered_map<std::string, const ValueInfo*>;
  const ByName& types_in(const GraphProto& graph);
  const std::map<std::string, int64_t>& sizes_of_names();

  const ModelProto& model_;
  const ImportOptions& options_;
  std::map<const GraphProto*, ByName> graphs_;
  // The sizes of the model inputs' named dimensions; -1 where no bound input has it.
  std::optional<std::map<std::string, int64_t>> sizes_;
};

}  // namespace keel::onnx

#endif  // KEEL_OPS_EXCHANGE_ONNX_DECLARED_TYPES_H
