#include <map>
#include <set>
#include <string>
#include <utility>

#include "keel/ops/exchange/migration/file_kinds.h"
#include "keel/ops/exchange/onnx/import.h"

namespace keel::migration {
namespace {

using onnx::GraphProto;
using onnx::ModelProto;
using onnx::NodeProto;
using onnx::Refusal;
using onnx::Unsupported;

constexpr const char* kOnnxModule = "onnx";

// Holds what the importer says of the nodes that it does not take as they are.
class Verdicts {
 public:
  explicit Verdicts(const Unsupported& unsupported) {
    for (const Refusal& refusal : unsupported.refusals()) {
      for (const std::string& node : refusal.nodes)
        refused_.emplace(std::make_pair(refusal.op, node), judge(refusal));
    }
    for (const std::string& node : unsupported.unchecked_nodes()) ++unchecked_[node];
  }
  Verdicts() = default;

  Finding take(const std::string& op, const std::string& node) {
    if (const auto entry = refused_.find({op, node}); entry != refused_.end())
      return std::move(refused_.extract(entry).mapped());
    if (const auto entry = unchecked_.find(node); entry != unchecked_.end() && entry->second-- > 0)
      return {kOnnxModule, op, Level::kAnalysing,
              "depends on what is refused, so that it could not be checked"};
    return {kOnnxModule, op, Level::kSupported, "keel import takes it as it is"};
  }

  // Calls `add` with what is left: refusals of inputs, of weights, of the model itself.
  template <class Add>
  void take_rest(Add add) {
    for (const auto& [place, finding] : refused_) add(place.second, finding);
  }

 private:
  static Finding judge(const Refusal& refusal) {
    if (refusal.bind.empty())
      return {kOnnxModule, refusal.op, Level::kUnsupportedNoPlan, refusal.reason};
    std::string advice = refusal.reason + "; make constants of inputs:";
    for (const std::string& input : std::set<std::string>(refusal.bind.begin(), refusal.bind.end()))
      advice += " --bind " + input + "=FILE.npy";
    return {kOnnxModule, refusal.op, Level::kApiAfterTool, advice};
  }

  std::multimap<std::pair<std::string, std::string>, Finding> refused_;  // by op and node
  std::map<std::string, int64_t> unchecked_;
};

void add_nodes(const GraphProto& graph, Verdicts& verdicts, ReportBuilder& report) {
  for (const NodeProto& node : graph.nodes) {
    const std::string name = onnx::node_name(node);
    report.add(0, name, verdicts.take(onnx::op_name(node), name));
    for (const onnx::AttributeProto& attribute : node.attributes)
      if (attribute.graph != nullptr) add_nodes(*attribute.graph, verdicts, report);
  }
}

Verdicts judge(const ModelProto& model) {
  try {
    onnx::import_model(model, {.weights_in_graph = false});
    return {};
  } catch (const Unsupported& unsupported) {
    return Verdicts(unsupported);
  }
}

}  // namespace

void read_onnx_model(const std::string& path, const ScanContext&, ReportBuilder& report) {
  const ModelProto model = onnx::read_model(path);
  Verdicts verdicts = judge(model);
  add_nodes(model.graph, verdicts, report);
  if (model.has_training_info) {
    report.add(0, "training_info",
               {kOnnxModule, "training_info", Level::kTrainingAfterTool,
                "keel import leaves it out; keel train --model trains the imported graph by an "
                "optimizer of Keel's"});
  }
  verdicts.take_rest(
      [&](const std::string& node, const Finding& finding) { report.add(0, node, finding); });
}

}  // namespace keel::migration
