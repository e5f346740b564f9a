// GraphExporter: the ONNX graph while it grows: names, constants, nodes, and the bodies that are
// open in it. Internal to the exporter; one object for each file, one thread.
#ifndef KEEL_OPS_EXCHANGE_ONNX_EXPORT_GRAPH_H
#define KEEL_OPS_EXCHANGE_ONNX_EXPORT_GRAPH_H

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/value_table.h"
#include "keel/ops/exchange/onnx/export_dimensions.h"
#include "keel/ops/exchange/onnx/export_rules.h"
#include "keel/ops/exchange/onnx/write_model.h"

namespace keel::onnx {

// One graph of Keel, or one body, for each size of the batch that is probed. All have the same
// nodes; what differs is dimensions, and what was computed from them.
using TwinGraphs = std::vector<const Graph*>;

class GraphExporter {
 public:
  explicit GraphExporter(const std::map<std::string, Tensor>& states) : states_(states) {}

  // Keeps a name for what is asked for by it; throws Error where it is taken.
  void reserve(const std::string& name, const std::string& what);
  std::string unique(const std::string& name);

  // Says where the size of the batch comes from: dimension `axis` of the input of that name.
  void set_batch_source(const std::string& input, size_t axis);
  // Adds an input of the written graph.
  void add_input(WrittenValue input) { model_.graph.inputs.push_back(std::move(input)); }

  // Writes the nodes that the graphs' outputs need. Returns the names of the outputs, which have
  // those of `wanted` where it is not empty.
  ExportNames write_nodes(const TwinGraphs& graphs, const ExportNames& inputs,
                          const ExportNames& wanted);
  // Tells what could not be written so far, each with the user's line.
  const std::vector<std::string>& problems() const noexcept { return problems_; }
  void add_problem(std::string problem) { problems_.push_back(std::move(problem)); }

  // ---- for rules; ExportContext says what these do
  ExportNames add_node(const Node& source, const std::string& type, const ExportNames& inputs,
                       size_t outputs, WrittenAttributes attributes);
  std::string constant(const Tensor& value);
  std::string dimensions(const ExportDimensions& dims);
  void open_body() { open_.emplace_back(); }
  std::shared_ptr<const WrittenGraph> close_body(const Node& source, const std::string& name,
                                                 std::vector<WrittenValue> inputs,
                                                 const ExportNames& outputs,
                                                 const std::vector<WrittenValue>& types);

  // The model, when all is written.
  WrittenModel finish(const ExportNames& outputs, std::vector<WrittenValue> types);

 private:
  struct OpenGraph {
    std::vector<WrittenNode> nodes;
    std::unordered_set<std::string> made;  // outputs of these nodes
  };

  void write_node(const std::vector<const Node*>& twins, ValueTable<std::string>& names,
                  const ValueTable<std::string>& wanted);
  void write_by_rule(const std::vector<const Node*>& twins, ValueTable<std::string>& names,
                     const ValueTable<std::string>& wanted);
  std::string write_weight(const Node& node);
  std::string write_constant(const std::vector<const Node*>& twins);
  std::string write_state(const Node& node);
  // Names the value `made`, which nodes from `first` on may have made, `name`.
  std::string settle(const Node& source, const std::string& made, const std::string& name,
                     size_t first);
  std::string batch();
  std::string in_preamble(const std::string& type, const ExportNames& inputs,
                          WrittenAttributes attributes, const std::string& name);

  const std::map<std::string, Tensor>& states_;
  WrittenModel model_;
  std::vector<WrittenNode>
      preamble_;                    // constants, and what computes dimensions: they stand in front
  std::vector<OpenGraph> open_{1};  // the main graph, and the bodies inside of it
  std::unordered_map<std::string, int64_t> taken_;
  std::map<std::string, std::string> constants_;   // by type and bytes
  std::map<std::string, std::string> dimensions_;  // by text
  std::unordered_set<std::string> written_states_;
  std::string batch_input_, batch_;
  size_t batch_axis_ = 0;
  std::vector<std::string> problems_;
};

// Returns what is said of a node in an error: "encoder/sort (sort f32[3]) (model.cpp:7)".
std::string described_node(const std::vector<const Node*>& twins, const std::string& reason);

// Returns how a value with these types, one for each size of the batch, is described in ONNX; a
// dimension that is the batch's own is called "batch".
WrittenValue described_value(const std::string& name, const std::vector<Type>& twins);

// Returns the dimensions of shapes, one for each size of the batch. Throws Error where one of them
// follows the batch in another way than as a multiple and a constant.
ExportDimensions dimensions_of(const std::vector<const Shape*>& shapes, const std::string& what);

}  // namespace keel::onnx

#endif  // KEEL_OPS_EXCHANGE_ONNX_EXPORT_GRAPH_H
