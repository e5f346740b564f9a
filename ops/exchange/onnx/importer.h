// Importer: one import under way: the graph that is made, what each name of the file stands for,
// and what was refused so far. Internal to the import; one thread.
#ifndef KEEL_OPS_EXCHANGE_ONNX_IMPORTER_H
#define KEEL_OPS_EXCHANGE_ONNX_IMPORTER_H

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "keel/ops/exchange/onnx/declared_types.h"
#include "keel/ops/exchange/onnx/import.h"
#include "keel/ops/exchange/onnx/import_rules.h"
#include "keel/ops/exchange/onnx/import_sizes.h"

namespace keel::onnx {

// Marks a node that only the initial values of variables need: it has no place in the graph that
// runs, so that it is computed at import whatever its size. Files of ONNX cannot say it.
inline constexpr const char* kInitial = "keel_initial";

// The thing that a name of the file stands for.
struct Binding {
  Value value;                  // invalid until somebody uses it, where it is known
  std::optional<Tensor> known;  // at import
  std::string state;            // the name of the initializer of floats that it is
  const TensorProto* initializer = nullptr;
  bool refused = false;  // what it depends on was refused
  // It is of the type that the file says, in place of a result that was refused, or made of such.
  bool assumed = false;
  // Not empty where some of a known value follows from the sizes of a trial.
  Origins origins;

  // Says whether its value might have been known, had nothing been refused.
  bool lost() const noexcept { return refused || (assumed && !known); }
};

// One value that a body is given for an input.
struct BodyArgument {
  Type type;
  std::optional<Tensor> known;  // at import
  friend bool operator==(const BodyArgument& a, const BodyArgument& b);
};

// Names of one graph of the file, and those of the graphs around it.
class NameTable {
 public:
  explicit NameTable(NameTable* parent = nullptr) : parent_(parent) {}
  // Null where nobody defined it.
  Binding* find(const std::string& name);
  // Says whether this graph of the file has it, not one around it.
  bool has(const std::string& name) const { return names_.count(name) != 0; }
  void set(const std::string& name, Binding binding) { names_[name] = std::move(binding); }

 private:
  NameTable* parent_;
  std::unordered_map<std::string, Binding> names_;
};

// Thrown where a node depends on one that was refused, so that nothing can be said of it.
struct DependsOnRefused {};

// A graph in which known values are computed.
struct Scratch {
  Graph graph;
  ConstantOrigins origins;
};

class Importer {
 public:
  // `rules` must outlive it, and so must the log of the sizes that trials read, where this is one.
  Importer(const ModelProto& model, const ImportOptions& options, const ImportRules& rules,
           SizeLog* sizes = nullptr);
  ImportedModel run();

  const ModelProto& model() const noexcept { return model_; }
  const ImportOptions& options() const noexcept { return options_; }
  Graph& graph() noexcept { return *result_.graph; }
  // The graph that nodes of the file are imported into: the model's, or that of a body.
  Graph& place() noexcept { return place_ == nullptr ? graph() : *place_; }
  class PlaceScope {
   public:
    PlaceScope(Importer& importer, Graph& place)
        : importer_(importer), outer_(std::exchange(importer.place_, &place)) {}
    ~PlaceScope() { importer_.place_ = outer_; }
    PlaceScope(const PlaceScope&) = delete;
    PlaceScope& operator=(const PlaceScope&) = delete;

   private:
    Importer& importer_;
    Graph* outer_;
  };
  // Returns the version of the op set that the file names for a domain; 0 where it names none.
  int64_t version_of(const std::string& domain) const;
  // The value in the model's graph: a known one becomes a constant or, of an initializer of floats,
  // a state. Throws RefusedNode where it follows from the sizes of a trial.
  Value value_of(Binding& binding, StateUse use);
  // The same for a body or a result that hands it on: what it is computed from is kept.
  Value handed_on(Binding& binding, StateUse use);
  // Null where the import is no trial.
  SizeLog* sizes() noexcept { return sizes_; }
  // REQUIRES that the value is a constant of the model's graph.
  Origins origins_of(const Value& value) const;
  void note_origins(const Value& constant, const Origins& origins);
  // A state of the model's graph under that name, or one like it where that is taken.
  Value add_state(const std::string& name, const Tensor& value, StateUse use);
  // Makes `next` what the state is after a step. The last call for a state says it.
  void assign(const Value& state, const Value& next);
  // Imports the nodes of a graph around which `names` already has its inputs.
  void import_nodes(const GraphProto& graph, NameTable& names);
  void add_initializers(const GraphProto& graph, NameTable& names);
  // The types that a body gives for such inputs. It is imported for that once, into a graph that is
  // thrown away: bodies in bodies would else be imported anew for each one around them.
  const std::vector<Type>* known_body_types(const GraphProto& body,
                                            const std::vector<BodyArgument>& inputs) const;
  const std::vector<Type>& keep_body_types(const GraphProto& body, std::vector<BodyArgument> inputs,
                                           std::vector<Type> outputs);
  // Inputs of the model that a value is computed from.
  std::vector<std::string> inputs_under(const Value& value) const;
  void refuse(const NodeProto& node, const RefusedNode& refused);
  // Counts the bytes of a tensor that the import makes. Throws Error beyond the file's read budget.
  void take(uint64_t bytes);
  // Makes room for a tensor whose bytes lie in another file than the model.
  void give(uint64_t bytes) { budget_ += bytes; }
  // Notes of rules with values of the model's graph, by their nodes.
  std::unordered_map<uint32_t, std::unordered_set<double>>& notes() noexcept { return notes_; }
  // To be called for each binding that a node uses.
  void note_read(const Binding& binding) {
    read_assumed_ = read_assumed_ || (binding.assumed && !binding.known);
  }

 private:
  Value made_of(const Binding& binding, StateUse use);
  void check_graph(const GraphProto& graph);
  void check_value(const ValueInfo& info, const char* what);
  void add_inputs(NameTable& names);
  // Refuses an input that no graph takes. Throws Error where what it is bound to does not fit it.
  Binding bound_input(const ValueInfo& info);
  void add_outputs(NameTable& names);
  // `site` is the file, and the node's place in its graph, from 1.
  void import_node(const GraphProto& graph, const NodeProto& node, CallSite site, NameTable& names);
  // The binding that goes on under the name of a result that was refused.
  Binding stand_in(const GraphProto& graph, const std::string& name);
  void leave_unchecked(const GraphProto& body);
  Values build(const NodeProto& node, NameTable& names, Scratch* scratch);
  bool fold(const NodeProto& node, CallSite site, NameTable& names);
  bool is_foldable(const NodeProto& node, NameTable& names) const;
  bool fits(const Scratch& scratch, const NodeProto& node, const Values& values) const;
  Value named_output(Value value, const std::string& name);
  std::vector<std::string> unchecked_nodes() const;
  void require_nothing_refused() const;

  const ModelProto& model_;
  const ImportOptions& options_;
  const ImportRules& rules_;
  SizeLog* sizes_;
  ConstantOrigins origins_;
  ImportedModel result_;
  Graph* place_ = nullptr;  // null: the model's graph
  // A body is imported as often as its types are asked for; its initializers are there once.
  std::map<const TensorProto*, Value> initializers_;
  struct BodyTypes {
    std::vector<BodyArgument> inputs;
    std::vector<Type> outputs;
  };
  std::map<const GraphProto*, BodyTypes> body_types_;
  std::vector<Refusal> refusals_;
  std::map<std::pair<std::string, std::string>, size_t> refusal_of_;  // by op and reason
  uint64_t budget_, taken_ = 0;
  DeclaredTypes declared_;
  std::unordered_map<uint32_t, std::unordered_set<double>> notes_;
  std::unordered_map<uint32_t, size_t> assigned_;  // the assignment of a state's node
  int stand_ins_ = 0;
  std::set<const GraphProto*> known_graphs_;  // that were checked
  size_t nodes_of_file_ = 0, nodes_imported_ = 0;
  bool read_assumed_ = false;  // by the node that is being built, or in a body of it
  // Nodes that were refused, that were looked at, and that depend on those or are in their bodies.
  std::set<const NodeProto*> refused_, checked_, unchecked_;
};

// Imports a model by these rules, with the sizes of open dimensions tried out where its shapes need
// them (import_trials.h). Throws what import_model throws.
ImportedModel import_by_rules(const ModelProto& model, const ImportOptions& options,
                              const ImportRules& rules);

}  // namespace keel::onnx

#endif  // KEEL_OPS_EXCHANGE_ONNX_IMPORTER_H
