// Import of TensorFlow 1 graphs: frozen ones, and training graphs with their own updates.
//
//   auto model = keel::graphdef::load("frozen.pb", {.outputs = {"output"}});
//   keel::Session session(*model.graph, keel::device("npu"));
//   auto logits = session.run({model.output("output")}, {{model.input("X"), images}});
//
// Placeholders, and what iterators and queues give, become inputs. Variables become states that
// begin with the initial values of the graph; random ones are drawn by Keel, by the variable's
// name. Nodes of one shared_name and container are one variable where their devices do not say
// otherwise. In a frozen graph constants that are weights by their use (the matrix of a product, a
// bias, the scale of a norm) become states, so that it trains further. Nodes that assign to
// variables (Assign, ApplyAdam, ...) and are needed by the outputs, be it as control inputs, become
// the model's update, which takes effect at the end of a step. A node that comes behind one of them
// in the step, by data or control edges, reads the value that this one assigns; a node that no
// edges order with it reads the value from before the step (variable_order.h). Nodes that no output
// needs are left out. Conditionals and loops of version 1 (Switch, Merge, Enter ...) become those
// of version 2, see `control_flow`; assignments in these, which not every run reaches, are refused.
// All that cannot be imported is refused in one onnx::Unsupported. Plain functions; any thread.
#ifndef KEEL_OPS_EXCHANGE_GRAPHDEF_IMPORT_H
#define KEEL_OPS_EXCHANGE_GRAPHDEF_IMPORT_H

#include <string>
#include <utility>
#include <vector>

#include "keel/core/base/export.h"
#include "keel/ops/exchange/graphdef/file/graph_def.h"
#include "keel/ops/exchange/onnx/import.h"

namespace keel::graphdef {

// A value of the graph that is given from outside: a placeholder, or any other value, what is in
// front of which is left out.
struct GivenInput {
  std::string value;                // "X", "IteratorGetNext:1"
  ShapeProto shape = std::nullopt;  // nothing: as the graph says
};

// Control flow of version 1 makes no plan where shapes are not known before the run, so it is
// refused there unless it is asked for to be converted.
enum class ControlFlow { kConvertFixedShapes, kConvert };

struct ImportOptions {
  // Inputs in this order, before the other placeholders that are needed.
  std::vector<GivenInput> inputs = {};
  // Values, and nodes that are run for what they assign ("train"). Empty: the values of a frozen
  // graph that no node reads; a graph with variables does not say which of them are meant.
  std::vector<std::string> outputs = {};
  ControlFlow control_flow = ControlFlow::kConvertFixedShapes;
  // Leaves out what assigns to variables.
  bool drop_updates = false;
  // As of onnx::ImportOptions.
  std::map<std::string, Tensor> bind = {};
  bool weights_in_graph = true;
  bool both_branches = false;
};

struct ImportedModel : onnx::ImportedModel {
  // "y" and "y:0" are the same value. Throw Error for a name that the model has not.
  KEEL_API Value input(const std::string& name) const;
  KEEL_API Value output(const std::string& name) const;
  // The nodes that the outputs need, of all that the file has.
  size_t needed_nodes = 0, file_nodes = 0;
  // States that were constants of a frozen graph, by name; the others were variables.
  std::vector<std::string> weights_of_constants;
  // Nodes whose random numbers are in initial values, drawn by Keel.
  std::vector<std::string> drawn;
  // How many were made of control flow of version 1, those in bodies included.
  size_t conditionals = 0, loops = 0;
};

// Throw Error for a file that cannot be read or is damaged, for names that the graph has not, for
// control flow that cannot be converted or that assigns, and onnx::Unsupported.
KEEL_API ImportedModel load(const std::string& path, const ImportOptions& options = {});
KEEL_API ImportedModel import_graph(const GraphDef& graph, const ImportOptions& options = {});

}  // namespace keel::graphdef

#endif  // KEEL_OPS_EXCHANGE_GRAPHDEF_IMPORT_H
