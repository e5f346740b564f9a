#include "keel/ops/exchange/graphdef/import.h"

#include <algorithm>

#include "keel/core/base/environment.h"
#include "keel/core/base/printable.h"
#include "keel/ops/exchange/graphdef/control_flow/functionalise.h"
#include "keel/ops/exchange/graphdef/file/read_graph_def.h"
#include "keel/ops/exchange/graphdef/file/values.h"
#include "keel/ops/exchange/graphdef/op_rules.h"
#include "keel/ops/exchange/graphdef/selection.h"
#include "keel/ops/exchange/graphdef/translate.h"
#include "keel/ops/exchange/onnx/importer.h"

namespace keel::graphdef {
namespace {

// As TensorFlow's adapter has it: exactly "1".
bool conversion_is_forced() {
  return environment_text("ENABLE_FORCE_V2_CONTROL").value_or("") == "1";
}

bool has_unknown_shapes(const Selection& selection) {
  return std::any_of(
      selection.inputs.begin(), selection.inputs.end(), [](const onnx::ValueInfo& input) {
        return !input.shape || std::any_of(input.shape->begin(), input.shape->end(),
                                           [](const auto& dim) { return dim.size < 0; });
      });
}

[[noreturn]] void refuse_version_1(const std::string& source,
                                   const std::vector<ControlFlowNode>& nodes) {
  const ControlFlowNode& first = nodes.front();
  const std::string others =
      nodes.size() == 1 ? "" : " (and " + std::to_string(nodes.size() - 1) + " more)";
  throw Error({.op = source,
               .message = "node " + printable(first.name, 200) + "(" + first.op +
                          ") is v1 control operator, which is not supported, please convert to v2 "
                          "control operator" +
                          others,
               .fix =
                   "keel import --control-flow v2, ENABLE_FORCE_V2_CONTROL=1, or inputs of fixed "
                   "shapes: --inputs NAME:SHAPE,..."});
}

// Control flow of version 1 in what was selected becomes that of version 2. The inputs stand as
// placeholders for it meanwhile.
void convert_control_flow(Selection& selection, ControlFlow control_flow) {
  const std::vector<ControlFlowNode> nodes = version_1_control_flow(selection.graph);
  if (nodes.empty()) return;
  const bool wanted = control_flow == ControlFlow::kConvert || conversion_is_forced();
  if (!wanted && has_unknown_shapes(selection)) refuse_version_1(selection.graph.source, nodes);
  std::set<std::string> placeholders;
  for (const onnx::ValueInfo& input : selection.inputs) {
    const std::string node = parse_value(input.name).node;
    if (!placeholders.insert(node).second) continue;
    selection.graph.nodes.emplace_back();
    selection.graph.nodes.back().name = node;
    selection.graph.nodes.back().op = "Placeholder";
  }
  selection.graph = functionalise(selection.graph, selection.outputs);
  std::erase_if(selection.graph.nodes,
                [&](const NodeDef& node) { return placeholders.count(node.name) != 0; });
}

// Returns how many nodes of that op a conversion made, in the graph and in its bodies: their bodies
// are none of the file's.
size_t count_made(const GraphDef& graph, const char* op, const GraphDef& file) {
  const auto is_made = [&](const NodeDef& node) {
    return node.op == op &&
           std::any_of(node.attributes.begin(), node.attributes.end(), [&](const auto& entry) {
             return entry.second.kind == AttrValue::Kind::kFunction &&
                    file.bodies.count(entry.second.strings.at(0)) == 0;
           });
  };
  const auto in = [&](const std::vector<NodeDef>& nodes) {
    return static_cast<size_t>(std::count_if(nodes.begin(), nodes.end(), is_made));
  };
  size_t count = in(graph.nodes);
  for (const auto& body : graph.bodies) count += in(body.second.nodes);
  return count;
}

// The name of a value as the model has it.
std::string first_form(const std::string& name) {
  const ValueName value = parse_value(name);
  return value.control ? name : value_name(value.node, value.output);
}

}  // namespace

Value ImportedModel::input(const std::string& name) const {
  return onnx::ImportedModel::input(first_form(name));
}
Value ImportedModel::output(const std::string& name) const {
  return onnx::ImportedModel::output(first_form(name));
}

ImportedModel import_graph(const GraphDef& graph, const ImportOptions& options) {
  const OpRules rules;
  Selection selection = select(graph, options, rules);
  convert_control_flow(selection, options.control_flow);
  const onnx::ModelProto model = translate(selection, rules);
  ImportedModel imported{onnx::import_by_rules(model,
                                               {.bind = options.bind,
                                                .weights_in_graph = options.weights_in_graph,
                                                .both_branches = options.both_branches},
                                               rules.import_rules())};
  imported.needed_nodes = selection.needed_nodes;
  imported.file_nodes = graph.nodes.size();
  for (const onnx::TensorProto& tensor : model.graph.initializers)
    imported.weights_of_constants.push_back(tensor.name);
  for (const onnx::NodeProto& node : model.graph.nodes) {
    const OpRule* rule = rules.find(node.op);
    const bool is_initial = selection.only_initial.count(node.name) != 0;
    if (is_initial && rule != nullptr && rule->random) imported.drawn.push_back(node.name);
  }
  imported.conditionals = count_made(selection.graph, "If", graph);
  imported.loops = count_made(selection.graph, "While", graph);
  return imported;
}

ImportedModel load(const std::string& path, const ImportOptions& options) {
  return import_graph(read_graph_def(path), options);
}

}  // namespace keel::graphdef
