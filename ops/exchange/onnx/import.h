// Import of ONNX models: a model's graph as a Keel graph, by rules for each op that lie in files by
// family (import_rules/). Opsets 6 to 24; what Keel cannot express (sequence and optional types,
// strings, shapes that depend on data, dtypes that Keel has not) is refused before anything is
// made of it, all of it in one Error. Nodes that depend on a refused one are checked by the types
// that the file gives to its results; the Error says how many could not be, for want of such types.
//
//   auto model = keel::onnx::load("model.onnx");
//   keel::Session session(*model.graph, keel::device("npu"));
//   auto logits = session.run(model.output("logits"), {{model.input("image"), images}});
//
// Float initializers become states under their names, so an imported model trains and its weights
// are saved like any others; other initializers, and those with infinities, are constants, and what
// is computed of constants alone, such as shape arithmetic, is computed here. Dimensions that the
// file leaves open are -1; what reshapes compute from them is inferred (import_trials.h). Nodes are
// of the line "model.onnx:3" where they stand for the third node of the file's graph, or of a body
// in it. Plain functions; any thread.
#ifndef KEEL_OPS_EXCHANGE_ONNX_IMPORT_H
#define KEEL_OPS_EXCHANGE_ONNX_IMPORT_H

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "keel/core/base/error.h"
#include "keel/core/base/export.h"
#include "keel/core/tensor/tensor.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/update.h"
#include "keel/ops/exchange/onnx/read_model.h"

namespace keel::onnx {

struct ImportOptions {
  // Inputs that are constants of the imported graph: of what shapes depend on (the second input of
  // Reshape), and of what a user wants fixed. An initializer that is an input, too, is replaced.
  std::map<std::string, Tensor> bind = {};
  // Says whether the values of states are in the graph. Without, states begin as zeros, and
  // ImportedModel::weights alone has their values: for a graph that is printed.
  bool weights_in_graph = true;
  // Computes both branches of each conditional and takes the results of one: what a plan without
  // conditionals needs memory for, to be compared with.
  bool both_branches = false;
};

struct ImportedModel {
  std::unique_ptr<Graph> graph;                        // its outputs are the model's
  std::vector<std::pair<std::string, Value>> inputs;   // in the file's order, without bound ones
  std::vector<std::pair<std::string, Value>> outputs;  // in the file's order
  std::map<std::string, Tensor> weights;               // of all states, by name
  Update update;  // what the file's own training does, where its format knows such; else empty

  // Throw Error listing the names where there is none of that name.
  KEEL_API Value input(const std::string& name) const;
  KEEL_API Value output(const std::string& name) const;
};

// Nodes of one op that cannot be imported for one reason.
struct Refusal {
  std::string op;                  // "Unique"; of a domain of its own "com.example.Op"
  int64_t version = 0;             // of its op set; 0 where it has none
  std::vector<std::string> nodes;  // their names, or what they give
  std::string reason;
  // Inputs of the model that this would not need a value of if they were bound.
  std::vector<std::string> bind;
};

class KEEL_API Unsupported : public Error {
 public:
  // `unchecked`: the nodes that depend on what is refused, or are in its bodies, so that nothing
  // can be said of them.
  Unsupported(const std::string& source, std::vector<Refusal> refusals,
              std::vector<std::string> unchecked);
  ~Unsupported() override;
  const std::vector<Refusal>& refusals() const noexcept { return refusals_; }
  size_t unchecked() const noexcept { return unchecked_.size(); }
  const std::vector<std::string>& unchecked_nodes() const noexcept { return unchecked_; }

 private:
  std::vector<Refusal> refusals_;
  std::vector<std::string> unchecked_;
};

// Return what refusals call a node, and its op.
std::string node_name(const NodeProto& node);
std::string op_name(const NodeProto& node);

// Throw Error for a file that cannot be read or is damaged, for `bind` of a name or type that the
// model has not, and Unsupported.
KEEL_API ImportedModel load(const std::string& path, const ImportOptions& options = {});
KEEL_API ImportedModel import_model(const ModelProto& model, const ImportOptions& options = {});

}  // namespace keel::onnx

#endif  // KEEL_OPS_EXCHANGE_ONNX_IMPORT_H
