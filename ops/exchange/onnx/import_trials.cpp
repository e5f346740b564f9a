#include "keel/ops/exchange/onnx/import_trials.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "keel/graph/ir/rewriter.h"
#include "keel/graph/ir/scopes.h"
#include "keel/ops/exchange/onnx/importer.h"
#include "keel/ops/shape.h"

namespace keel::onnx {
namespace {

// Each open dimension has a size of its own: odd ones, ones that many numbers divide, larger ones,
// and 1, where models tend to branch. Trials alone prove nothing of other sizes: what is computed
// from sizes that differ, and might come to the same for these and not for others, is refused in
// each of them (import_sizes.h).
constexpr size_t kTrials = 4;
constexpr int64_t kSizes[kTrials][4] = {
    {13, 31, 43, 61}, {60, 72, 84, 96}, {502, 514, 518, 526}, {1, 1, 1, 1}};
constexpr size_t kMostOpen = std::size(kSizes[0]);

struct Differs {};

// The model with sizes in place of open dimensions; those of one name have one size.
ModelProto with_sizes(const ModelProto& model, const ImportOptions& options, size_t trial) {
  ModelProto sized = model;
  std::map<std::string, int64_t> sizes;
  for (ValueInfo& input : sized.graph.inputs) {
    if (!input.shape || options.bind.count(input.name) != 0) continue;
    for (size_t axis = 0; axis < input.shape->size(); ++axis) {
      Dimension& dim = (*input.shape)[axis];
      if (dim.size >= 0) continue;
      const std::string name =
          dim.name.empty() ? input.name + "\n" + std::to_string(axis) : dim.name;
      const auto known = sizes.find(name);
      if (known == sizes.end() && sizes.size() == kMostOpen) throw Differs{};
      dim.size = known != sizes.end()
                     ? known->second
                     : sizes.emplace(name, kSizes[trial][sizes.size()]).first->second;
    }
  }
  return sized;
}

// The target of a reshape, with the dimension in which trials differ left to be inferred, or the
// one that trials after the first, which knows nothing of sizes yet, left so.
Shape joined(const std::vector<const Node*>& twins) {
  const Shape& first = twins[0]->type().shape;
  const Shape& given = twins[0]->as<ShapeAttributes>().shape;
  Shape shape;
  int open = 0;
  for (size_t i = 0; i < first.rank(); ++i) {
    bool same = true;
    for (const Node* twin : twins) {
      if (twin->type().shape.rank() != first.rank()) throw Differs{};
      const bool left_open = twin->as<ShapeAttributes>().shape[i] < 0 && given[i] >= 0;
      same = same && !left_open && twin->type().shape[i] == first[i];
    }
    shape.push_back(same ? first[i] : kUnknownDim);
    open += same ? 0 : 1;
  }
  if (open > 1) throw Differs{};
  return shape;
}

// Makes one graph of its trials.
class Joining {
 public:
  Joining(const ModelProto& model, std::vector<const Graph*> trials, Graph& to)
      : model_(model), trials_(std::move(trials)), to_(to), rewriter_(*trials_[0], to) {}

  void run() {
    const Graph& first = *trials_[0];
    for (const Graph* trial : trials_)
      if (trial->size() != first.size()) throw Differs{};
    // Numbers that shapes were computed from stand there as constants that nobody reads.
    const std::vector<bool> live = live_nodes(first);
    for (uint32_t id = 0; id < first.size(); ++id) {
      if (!live[id] && !first.node(id).is(OpRole::kState)) continue;
      std::vector<const Node*> twins;
      for (const Graph* trial : trials_) twins.push_back(&trial->node(id));
      join(twins);
    }
    to_.set_outputs(rewriter_(first.outputs()));
    for (const Assignment& update : first.updates())
      to_.add_update(rewriter_(update.state), rewriter_(update.next));
  }
  Value operator()(const Value& v) const { return rewriter_(v); }

 private:
  void join(const std::vector<const Node*>& twins) {
    const Node& first = *twins[0];
    bool same = true;
    for (const Node* twin : twins) {
      require_same_structure(first, *twin);
      same = same && twin->attributes() == first.attributes();
    }
    if (first.is(OpRole::kInput)) {
      join_input(first);
    } else if (same) {
      rewriter_.clone(first);
    } else if (first.op_name() == "reshape") {
      const SiteScope line(to_, first.site());
      const Value made = reshape(rewriter_(first.input(0)), joined(twins), first.site());
      to_.relabel(made.node({}), first.shared_label());
      rewriter_.map(first.output(), made);
    } else {
      throw Differs{};
    }
  }

  static void require_same_structure(const Node& a, const Node& b) {
    if (&a.op() != &b.op() || a.inputs().size() != b.inputs().size() || !a.bodies().empty())
      throw Differs{};
    for (size_t i = 0; i < a.inputs().size(); ++i) {
      if (a.input(i).node_id() != b.input(i).node_id() ||
          a.input(i).output() != b.input(i).output())
        throw Differs{};
    }
  }

  // With the dimensions of the file.
  void join_input(const Node& node) {
    for (const ValueInfo& info : model_.graph.inputs) {
      if (info.name != keel::name_of(node)) continue;
      Shape shape;
      for (const Dimension& dim : *info.shape)
        shape.push_back(dim.size < 0 ? kUnknownDim : dim.size);
      rewriter_.map(node.output(), to_.input(info.name, node.type().dtype, shape, node.site()));
      return;
    }
    throw Differs{};
  }

  const ModelProto& model_;
  std::vector<const Graph*> trials_;
  Graph& to_;
  Rewriter rewriter_;
};

}  // namespace

bool has_open_dimensions(const ModelProto& model, const ImportOptions& options) {
  for (const ValueInfo& input : model.graph.inputs) {
    if (!input.shape || options.bind.count(input.name) != 0) continue;
    for (const Dimension& dim : *input.shape)
      if (dim.size < 0) return true;
  }
  return false;
}

std::optional<ImportedModel> import_by_trials(const ModelProto& model, const ImportOptions& options,
                                              const ImportRules& rules) {
  try {
    std::vector<ImportedModel> trials;
    SizeLog sizes;
    for (size_t i = 0; i < kTrials; ++i) {
      const ModelProto sized = with_sizes(model, options, i);
      sizes.begin();
      trials.push_back(Importer(sized, options, rules, &sizes).run());
    }
    std::vector<const Graph*> graphs;
    for (const ImportedModel& trial : trials) graphs.push_back(trial.graph.get());
    auto graph = std::make_unique<Graph>();
    Joining joining(model, std::move(graphs), *graph);
    joining.run();
    ImportedModel made = std::move(trials[0]);
    for (auto* values : {&made.inputs, &made.outputs})
      for (auto& entry : *values) entry.second = joining(entry.second);
    for (Assignment& update : made.update.assignments)
      update = {joining(update.state), joining(update.next)};
    made.graph = std::move(graph);
    return made;
  } catch (const Differs&) {
    return std::nullopt;
  }
}

}  // namespace keel::onnx
