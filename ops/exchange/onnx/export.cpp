#include "keel/ops/exchange/onnx/export.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "keel/core/base/error.h"
#include "keel/graph/ir/label.h"
#include "keel/graph/passes/passes.h"
#include "keel/ops/exchange/onnx/export_graph.h"
#include "keel/ops/exchange/onnx/export_rules.h"
#include "keel/version.h"

namespace keel::onnx {
namespace {

constexpr const char* kOp = "onnx::save";

// Ops that the decomposition leaves as they are: those that a rule writes, and those that nothing
// can, which are listed later with all others.
Support has_form(const Node& node) {
  const ExportRule* rule = export_rules().find(node.op_name());
  const bool written = rule != nullptr && (rule->refuses == nullptr || rule->refuses(node).empty());
  return {.supported = written || node.op().decompose == nullptr, .reason = ""};
}

std::map<std::string, Type> types_of_inputs(const Values& inputs, const SaveOptions& options,
                                            int64_t batch) {
  std::map<std::string, Type> types;
  for (const Value& input : inputs) {
    const std::string& name = name_of(input.node());
    Type type = input.type();
    const auto given = options.shapes.find(name);
    if (given != options.shapes.end() && given->second.rank() == type.shape.rank())
      type.shape = given->second;
    for (size_t axis = 0; axis < type.shape.rank(); ++axis) {
      if (type.shape[axis] >= 0) continue;
      if (axis != 0) {
        throw Error({.op = kOp,
                     .argument = name,
                     .expected = "an input whose first dimension alone is open",
                     .got = to_string(input.type()),
                     .fix = "give its shape in SaveOptions::shapes" + made_at(input)});
      }
      type.shape = type.shape.with_dim(axis, batch);
    }
    types[name] = type;
  }
  return types;
}

void require_known(const std::map<std::string, Shape>& shapes, const Values& inputs) {
  for (const auto& [name, shape] : shapes) {
    bool found = false;
    for (const Value& input : inputs) {
      if (name_of(input.node()) != name) continue;
      found = true;
      if (matches(input.shape(), shape)) continue;
      throw Error({.op = kOp,
                   .argument = "shapes: " + name,
                   .expected = to_string(input.shape()),
                   .got = to_string(shape)});
    }
    if (!found) {
      throw Error({.op = kOp,
                   .argument = "shapes: " + name,
                   .expected = "an input that the fetches reach",
                   .got = "'" + name + "'"});
    }
  }
}

ExportNames names_of_fetches(const Values& fetches, const SaveOptions& options) {
  ExportNames names = options.names;
  if (!names.empty() && names.size() != fetches.size()) {
    throw Error({.op = kOp,
                 .argument = "names",
                 .expected = std::to_string(fetches.size()) + ", one for each fetch",
                 .got = std::to_string(names.size())});
  }
  for (const std::string& name : names) {
    if (!name.empty()) continue;
    throw Error({.op = kOp,
                 .argument = "names",
                 .expected = "a name for each output, which may not be empty",
                 .got = "''"});
  }
  if (!names.empty()) return names;
  for (const Value& fetch : fetches) {
    names.push_back(full_name(fetch.node()));
    if (fetch.output() > 0) names.back() += ":" + std::to_string(fetch.output());
  }
  return names;
}

// One model as it is for each size of the batch that is probed, or for the one that is given.
class Twins {
 public:
  Twins(const Graph& graph, const Values& fetches, const SaveOptions& options) {
    SpecialiseRequest request{
        .graph = &graph, .fetches = fetches, .update = {}, .input_types = {}, .boundary = {}};
    const Values inputs = reached_inputs(request);
    require_known(options.shapes, inputs);
    bool open = false;
    for (const auto& [name, type] : types_of_inputs(inputs, options, -1))
      open = open || !type.shape.known();
    std::vector<int64_t> batches(kProbedBatches.begin(), kProbedBatches.end());
    if (!open || options.batch != 0) batches = {options.batch};
    for (const int64_t batch : batches) {
      request.input_types = types_of_inputs(inputs, options, batch);
      try {
        graphs_.push_back(decompose(*specialise(request), has_form));
      } catch (const Error& error) {
        if (batches.size() == 1) throw;
        throw Error(
            {.op = kOp,
             .argument = "batch",
             .message = "the model does not take every size of it, where the run decides. For " +
                        std::to_string(batch) + ": " + error.what(),
             .fix = "export it for one size of the batch: SaveOptions::batch, or --batch"});
      }
    }
  }

  TwinGraphs graphs() const {
    TwinGraphs pointers;
    for (const auto& graph : graphs_) pointers.push_back(graph.get());
    return pointers;
  }
  const Graph& first() const { return *graphs_.front(); }
  WrittenValue described(const std::string& name,
                         const std::function<const Value&(const Graph&)>& find) const {
    std::vector<Type> types;
    for (const auto& graph : graphs_) types.push_back(find(*graph).type());
    return described_value(name, types);
  }

 private:
  std::vector<std::unique_ptr<Graph>> graphs_;
};

// Equal lines are listed once: one call of a user's, as a dropout, may have made several nodes.
[[noreturn]] void refuse(const std::vector<std::string>& all) {
  std::vector<std::string> problems;
  for (const std::string& problem : all) {
    if (std::find(problems.begin(), problems.end(), problem) == problems.end())
      problems.push_back(problem);
  }
  std::string list;
  for (const std::string& problem : problems) list += (list.empty() ? "" : "; ") + problem;
  throw Error({.op = kOp,
               .message = std::to_string(problems.size()) +
                          (problems.size() == 1 ? " value cannot" : " values cannot") +
                          " be written as ONNX: " + list});
}

void reserve_names(GraphExporter& exporter, const Graph& graph, ExportNames& wanted,
                   bool given_names) {
  for (const Value& input : graph.inputs())
    exporter.reserve(name_of(input.node()), "input '" + name_of(input.node()) + "'");
  for (const Value& state : graph.states())
    exporter.reserve(name_of(state.node()), "state '" + name_of(state.node()) + "'");
  for (std::string& name : wanted) {
    if (given_names)
      exporter.reserve(name, "names");
    else
      name = exporter.unique(name);
  }
}

}  // namespace

void save(const Graph& graph, const std::map<std::string, Tensor>& states, const Values& fetches,
          const std::string& path, const SaveOptions& options) {
  if (fetches.empty())
    throw Error({.op = kOp, .argument = "fetches", .expected = "at least one", .got = "none"});
  if (options.batch < 0) {
    throw Error({.op = kOp,
                 .argument = "batch",
                 .expected = "at least 1, or 0 for a size that the run decides",
                 .got = std::to_string(options.batch)});
  }
  ExportNames wanted = names_of_fetches(fetches, options);
  const Twins twins(graph, fetches, options);
  const Graph& first = twins.first();
  GraphExporter exporter(states);
  reserve_names(exporter, first, wanted, !options.names.empty());
  ExportNames inputs;
  for (size_t i = 0; i < first.inputs().size(); ++i) {
    const std::string& name = name_of(first.inputs()[i].node());
    inputs.push_back(name);
    WrittenValue described =
        twins.described(name, [i](const Graph& g) -> const Value& { return g.inputs()[i]; });
    if (!described.shape.empty() && !described.shape[0].symbol.empty())
      exporter.set_batch_source(name, 0);
    exporter.add_input(std::move(described));
  }
  const ExportNames outputs = exporter.write_nodes(twins.graphs(), inputs, wanted);
  if (!exporter.problems().empty()) refuse(exporter.problems());
  std::vector<WrittenValue> types;
  for (size_t i = 0; i < outputs.size(); ++i) {
    types.push_back(
        twins.described("", [i](const Graph& g) -> const Value& { return g.outputs()[i]; }));
  }
  WrittenModel model = exporter.finish(outputs, std::move(types));
  model.graph.name = "keel";
  model.producer_version = KEEL_VERSION;
  model.metadata = options.metadata;
  write_model(model, path);
}

// ---- the rules

void ExportRules::add(ExportRule rule) {
  const std::string op = rule.op;
  if (!rules_.emplace(op, std::move(rule)).second)
    throw Error({.op = kOp, .argument = op, .message = "has two rules"});
}

const ExportRule* ExportRules::find(std::string_view op) const {
  const auto it = rules_.find(op);
  return it == rules_.end() ? nullptr : &it->second;
}

const ExportRules& export_rules() {
  static const ExportRules kRules = [] {
    ExportRules rules;
    register_export_rules(rules);
    return rules;
  }();
  return kRules;
}

}  // namespace keel::onnx
