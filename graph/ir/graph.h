// Graph: nodes in an arena, in topological order, with inputs, states, outputs
// and updates. Passes walk large graphs from one end to the other: what a walk reads lies in the
// order of the nodes, and is given back in one piece. What users build models in, what bodies of
// control ops are, and what passes produce. Nodes are pure: a state is read as the value it had
// when the step began, and an Update names its next value. Owned by whoever made it; Values point
// into it, so it can be neither copied nor moved. Building: one thread at a time.
#ifndef KEEL_GRAPH_IR_GRAPH_H
#define KEEL_GRAPH_IR_GRAPH_H

#include <memory>
#include <memory_resource>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "keel/core/base/call_site.h"
#include "keel/core/base/export.h"
#include "keel/graph/ir/initializer.h"
#include "keel/graph/ir/node.h"
#include "keel/graph/ir/node_store.h"
#include "keel/graph/ir/op_table.h"
#include "keel/graph/ir/update.h"
#include "keel/graph/ir/value.h"

namespace keel {

struct InputAttributes {
  std::string name;
  std::vector<Type> type;  // exactly one
  static void fields(auto&& visit) {
    visit("name", &InputAttributes::name);
    visit("type", &InputAttributes::type);
  }
};

struct ConstantAttributes {
  Tensor value;
  static void fields(auto&& visit) { visit("value", &ConstantAttributes::value); }
};

struct StateAttributes {
  std::string name;
  std::string init = "constant";
  std::vector<Type> type;  // exactly one, all dimensions known
  double a = 0;
  double b = 0;
  Tensor value;
  bool trainable = true;
  Initializer initializer() const { return {init, type.at(0), a, b, value}; }
  static void fields(auto&& visit) {
    visit("name", &StateAttributes::name);
    visit("init", &StateAttributes::init);
    visit("type", &StateAttributes::type);
    visit("a", &StateAttributes::a);
    visit("b", &StateAttributes::b);
    visit("value", &StateAttributes::value);
    visit("trainable", &StateAttributes::trainable);
  }
};

struct StateOptions {
  bool trainable = true;
};

// Reserved states: the number of steps executed with an Update, how many of these applied theirs
// (apply_if may skip it), and the random seed. i64 scalars, never trainable.
inline constexpr const char* kStepState = "keel/step";
inline constexpr const char* kUpdatesState = "keel/updates";
inline constexpr const char* kSeedState = "keel/seed";

// Bounds how deep bodies of control ops may nest where a model is built. Passes and destructors
// recurse over them.
inline constexpr int kMaxBodyDepth = 64;
// Bounds how deep any bodies may nest, those of the nodes that passes make included; text, too,
// which holds what passes made.
inline constexpr int kMaxNesting = kMaxBodyDepth + 8;

class KEEL_API Graph {
 public:
  // A root graph over the built-in ops, or over `table`.
  Graph();
  explicit Graph(const OpTable& table);
  // Makes a body whose operations may use values of `parent`: they become captures. Throws Error
  // where it would be deeper than kMaxBodyDepth.
  explicit Graph(Graph* parent, CallSite site = CallSite::here());
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // ---- building
  // A value fed at each run; unknown dimensions are -1. Throws for a repeated
  // name, and for one that is not UTF-8 text without control characters.
  Value input(const std::string& name, DType dtype, const Shape& shape,
              CallSite site = CallSite::here());
  // Makes a value kept between steps. Root graphs only. Names are unique and, as they are keys in
  // saved files, UTF-8 text without control characters; "keel/..." is reserved.
  Value state(const std::string& name, const Initializer& init, StateOptions options = {},
              CallSite site = CallSite::here());
  Value constant(const Tensor& value, CallSite site = CallSite::here());
  // Returns the reserved states, made on first use; in a body, captured from the root. A graph that
  // never asked for updates_applied() skips none: there step() counts both.
  Value step();
  Value updates_applied();
  Value seed();

  // Adds a node. Values of ancestor graphs among `inputs` are captured; others
  // of foreign graphs are refused, naming both lines. An effect, or a control op with effects in
  // its bodies, gets token() as its last input and a token as its last output, so that effects are
  // one chain. Throws what inference throws, and Error for a wrong arity, wrong attributes, a
  // token in any other place, and bodies that would nest deeper than kMaxNesting.
  const Node& add(const OpDef& op, Values inputs, Attributes attributes, CallSite site,
                  std::vector<std::shared_ptr<Graph>> bodies = {});
  const Node& add(std::string_view op, Values inputs, Attributes attributes, CallSite site,
                  std::vector<std::shared_ptr<Graph>> bodies = {});

  // Adds a copy of another graph's node, with its attributes, bodies and line. `inputs` pair with
  // its data inputs; where they have the types of these, the copy has the node's types, which
  // inference would say again. Throws what add() throws.
  const Node& add_copy(const Node& node, std::span<const Value> inputs);

  // Returns the token behind the last effect of this graph, which the next one takes. Where there
  // is no effect yet, that is the result of the `token` op, which the first call adds.
  Value token();
  bool has_effects() const noexcept;

  // This graph's stand-in for `outer`, a value of an ancestor: a new input, or
  // the one made before. Throws Error for a value of no ancestor.
  Value capture(Value outer);
  // Throws Error unless nodes of this graph can use `value`: one of this graph or of one around it.
  // It names `op` and `argument`, the line where the value was made, and `site`.
  void require_within_reach(const Value& value, const std::string& op, const std::string& argument,
                            CallSite site) const;
  // Does the same unless `value` is of this very graph; `owner` says which that is ("the session's
  // graph").
  void require_own(const Value& value, const std::string& op, const std::string& argument,
                   CallSite site, const char* owner = "the graph") const;
  // Says that the function that built this body, which `op` at `site` called, is through: nothing
  // but captures can be added any more, and values of the body mean nothing outside.
  void close(const char* op, CallSite site) noexcept;
  bool finished() const noexcept { return closed_by_ != nullptr; }
  // Throws Error for a body that is finished; `value` is the one of it that `op` was to use at
  // `site`.
  void require_open(const std::string& op, const std::string& argument, const Value& value,
                    CallSite site) const;
  // (outer, inner) in the order of the inputs they became.
  const std::vector<std::pair<Value, Value>>& captures() const noexcept { return captures_; }

  // Makes a body whose operations may use values of this graph, which keeps it: values of a body
  // stay valid, to be refused, also where the op that it was for was never made. `always_runs`: at
  // least once each time that what is around it runs, as the body of a loop of known turns does.
  std::shared_ptr<Graph> make_body(CallSite site, bool always_runs);
  bool always_runs() const noexcept { return always_runs_; }
  // Returns the innermost body that is being built in this graph (made and not closed yet), or this
  // graph where there is none: where calls that are made now add their nodes.
  Graph& under_construction() noexcept;

  // Puts the inputs made by captures behind the others, in the order of `outers` (values of the
  // parent); those not captured yet are. For the bodies of one control node, which must agree on
  // their inputs.
  void order_captures(const Values& outers);

  // Sets the iteration count among the inputs of a while_loop's body; random keys fold it in.
  // Invalid elsewhere.
  void set_iteration(Value iteration) noexcept { iteration_ = iteration; }
  Value iteration() const noexcept { return iteration_; }
  // Numbers the random ops of the whole graph tree, from 0 up.
  int64_t next_salt() noexcept;
  // The numbers up to this one are taken, by random ops that came from text.
  void skip_salts(int64_t last) noexcept;

  // Returns what nodes added to this graph and to bodies in it are labelled with (ir/scopes.h sets
  // it), and its exchange for another, which returns the old one.
  const NodeLabelPtr& label() const noexcept;
  NodeLabelPtr exchange_label(NodeLabelPtr label) noexcept;
  // Exchanges the line that nodes added to this graph and to bodies in it have, whatever their
  // calls say (ir/scopes.h sets it), for another, and returns the old one. Not known: what the
  // calls say.
  CallSite exchange_site(CallSite site) noexcept;
  // Gives a node of this graph another label. For passes; users take named().
  void relabel(const Node& node, NodeLabelPtr label);

  void set_outputs(Values outputs, CallSite site = CallSite::here());
  void add_update(Value state, Value next, CallSite site = CallSite::here());
  // Values that minimize gathers beside the gradients: next values of states
  // that a layer attached to `output`. The second one is for a `next` that blends the state with
  // what was observed (attached_updates in ops/nn says what that is for).
  void attach_update(Value output, Value state, Value next, CallSite site = CallSite::here());
  void attach_update(Value output, Value state, Value next, Value observed,
                     CallSite site = CallSite::here());
  const std::vector<AttachedUpdate>& attached_updates() const noexcept { return attached_; }

  // Makes this root graph one that describes its own step and can be sunk later, also when it is
  // frozen: its outputs become `fetches`, its updates `update`, the reserved states are made, and a
  // step_end node marks the boundary. `stop_when`, a bool scalar, may be invalid; where it is true
  // a launch ends after that step. Session::sink runs it; how many steps a launch has is
  // said there. Throws Error for a frozen graph and for one that has a boundary already.
  void prepare_loop(const Update& update, const Values& fetches, Value stop_when = {},
                    CallSite site = CallSite::here());

  // After this, changing the graph is an Error (GRAPH_FROZEN).
  void freeze() noexcept { frozen_ = true; }
  bool frozen() const noexcept { return frozen_; }

  // ---- reading
  const OpTable& ops() const noexcept { return *table_; }
  Graph* parent() const noexcept { return parent_; }
  int depth() const noexcept { return depth_; }
  size_t size() const noexcept { return nodes_.size(); }
  // Throws Error where there is no such node.
  const Node& node(uint32_t id) const {
    if (id >= nodes_.size()) refuse_node(id);
    return nodes_[id];
  }
  const NodeStore& nodes() const noexcept { return nodes_; }
  const Values& inputs() const noexcept { return inputs_; }
  const Values& states() const noexcept { return states_; }
  const Values& outputs() const noexcept { return outputs_; }
  const std::vector<Assignment>& updates() const noexcept { return updates_; }
  // Invalid Value when there is none of that name.
  Value find_input(std::string_view name) const;
  Value find_state(std::string_view name) const;
  // Returns a value of this graph by the name of its node (full_name of ir/label.h): "w",
  // "encoder/loss", "hidden1/matmul"; "loss" is the first output, as "loss:0" is, "top:1" the
  // second one. Invalid where there is none. Throws Error for a name that several have, naming
  // their lines.
  Value find(std::string_view name, CallSite site = CallSite::here()) const;
  // Does the same among names that were given alone: of inputs, states and by named().
  Value find_named(std::string_view name, CallSite site = CallSite::here()) const;

  // Puts the inputs in another order; throws unless `order` holds each of them once.
  void order_inputs(Values order);

 private:
  friend class Rewriter;          // knows without a look whether the types of a copy hold
  friend class Verifier;          // sees what checks need and users do not
  friend struct GraphTestAccess;  // tests of the verifier build broken graphs
  Value reserved_state(const char* name);
  void require_unfrozen(const std::string& op, CallSite site) const;
  Graph& root() noexcept;
  const Graph& root() const noexcept { return const_cast<Graph*>(this)->root(); }
  Value find_node(std::string_view name, CallSite site) const;
  void thread_token(const OpDef& op, Values& inputs, CallSite site);
  void require_data(const Value& value, const std::string& op, const std::string& argument,
                    CallSite site) const;
  const Node& insert(const OpDef& op, Values inputs, Attributes attributes, CallSite site,
                     std::vector<std::shared_ptr<Graph>> bodies = {});
  bool types_hold(const Node& node, std::span<const Value> inputs) const;
  // add_copy where the caller says whether `inputs` are values of this graph with the types of the
  // node's data inputs.
  const Node& add_copy(const Node& node, std::span<const Value> inputs, bool types_hold);
  std::vector<Type> inferred(const OpDef& op, Values& inputs, size_t data,
                             const Attributes& attributes,
                             const std::vector<std::shared_ptr<Graph>>& bodies, CallSite site);
  // REQUIRES types that this graph keeps.
  const Node& append(const OpDef& op, std::span<const Value> inputs, NodeList<Type> types,
                     Attributes attributes, CallSite site,
                     std::vector<std::shared_ptr<Graph>> bodies);
  bool owns(const Value& value) const noexcept {
    return value.graph_ == this && value.node_id() < nodes_.size();
  }
  [[noreturn]] void refuse_node(uint32_t id) const;
  // "the result of matmul of the body of while_loop (model.cpp:3), made at model.cpp:4".
  static std::string whereabouts(const Value& value);
  int height_with(const std::vector<std::shared_ptr<Graph>>& bodies, const OpDef& op,
                  CallSite site) const;
  void require_name(const std::string& name, const OpDef& op, CallSite site) const;
  void require_new_state(const std::string& name, CallSite site) const;
  template <class T>
  NodeList<T> keep(std::span<const T> list) {
    static_assert(std::is_trivially_destructible_v<T>);  // the arena destroys nothing
    T* kept = static_cast<T*>(arena_.allocate(list.size_bytes(), alignof(T)));
    std::uninitialized_copy(list.begin(), list.end(), kept);
    return {kept, list.size()};
  }
  NodeList<Type> keep_types(std::span<const Type> types, std::span<const Value> inputs);
  NodeList<Type> types_of_copy(const Node& node, std::span<const Value> inputs);
  void check_arity(const OpDef& op, size_t inputs, size_t bodies, CallSite site) const;

  const OpTable* table_;
  Graph* parent_ = nullptr;
  int depth_ = 0;
  int height_ = 0;  // how deep the bodies of its nodes nest
  bool frozen_ = false;
  bool always_runs_ = false;
  const char* closed_by_ = nullptr;  // the op that built this body
  CallSite closed_at_;
  int64_t salts_ = 0;
  Value iteration_;
  Value token_;                                // behind the last effect
  std::pmr::monotonic_buffer_resource arena_;  // of what follows up to the names
  NodeStore nodes_{&arena_};
  Values inputs_;
  Values states_;
  Values outputs_;
  std::vector<Assignment> updates_;
  std::vector<AttachedUpdate> attached_;
  std::vector<std::shared_ptr<Graph>> made_bodies_;
  std::vector<std::pair<Value, Value>> captures_;
  std::unordered_map<Value, Value, ValueHash> captured_;  // the same, to find them
  // The names are those in the nodes' attributes. The tables end with the arena: destroying them
  // would walk over all names to give back nothing.
  using Names = std::pmr::unordered_map<std::string_view, Value>;
  Names& new_names() {
    return *std::pmr::polymorphic_allocator<Names>(&arena_).new_object<Names>();
  }
  Names& input_names_ = new_names();
  Names& state_names_ = new_names();
  NodeLabelPtr label_;                                     // of the root: what new nodes get
  CallSite site_;                                          // likewise
  std::unordered_map<std::string, uint32_t> given_names_;  // full names that named() gave
};

inline const Node& Value::node(CallSite site) const {
  const Graph& graph = this->graph(site);
  if (node_ >= graph.size()) refuse_node(site);
  return graph.node(node_);
}

inline const Type& Value::type(CallSite site) const {
  const Node& node = this->node(site);
  if (output_ >= node.types().size()) refuse_output(site);
  return node.types()[output_];
}

inline DType Value::dtype(CallSite site) const { return type(site).dtype; }
inline const Shape& Value::shape(CallSite site) const { return type(site).shape; }

// Returns the name of an input or state node.
KEEL_API const std::string& name_of(const Node& node);

}  // namespace keel

#endif  // KEEL_GRAPH_IR_GRAPH_H
