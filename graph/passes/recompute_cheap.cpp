// recompute_cheap: values of a few cheap instructions that are read in several places are computed
// where they are read, so that nobody stores them: what normalises x reads x each time, not what
// came of it.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "keel/graph/ir/fused_body.h"
#include "keel/graph/ir/rewriter.h"
#include "keel/graph/ir/views.h"
#include "keel/graph/passes/fuse_clusters.h"
#include "keel/graph/passes/passes.h"
#include "keel/graph/passes/shared_bodies.h"
#include "keel/graph/passes/users.h"

namespace keel {
namespace {

constexpr size_t kMostInstructions = 6;  // of one value

// How a value is computed from what is stored: from one variable of its shape and from smaller
// ones.
struct Recipe {
  std::set<uint32_t> nodes;
  Value variable;
};

// Finds which values are computed where they are read. Each of their users is a cluster, or a
// reduction; the backend takes either with the instructions.
class CheapValues {
 public:
  // `is_body`: the graph's inputs may be the variables of a loop.
  CheapValues(const Graph& graph, bool is_body, SharedBodies& bodies)
      : graph_(graph),
        is_body_(is_body),
        bodies_(bodies),
        live_(live_nodes(graph)),
        users_(graph, live_),
        clusters_(form_clusters(graph, live_, users_)),
        recipes_(graph.size()),
        recomputed_(graph.size(), false) {
    for (const Node& node : graph.nodes()) {
      if (live_[node.id()]) visit(node);
    }
  }

  const std::vector<bool>& live() const { return live_; }
  // Returns whether the user computes the value itself.
  bool recomputes(const Node& user, const Value& v) const {
    return recomputed_[v.node_id()] && !clusters_.together(user.id(), v.node_id());
  }
  // Returns whether the recipe of a node goes on to what it reads.
  bool goes_on(const Node& node, const Value& read) const {
    return recomputed_[read.node_id()] ||
           (clusters_.together(node.id(), read.node_id()) && read.shape() == node.type().shape);
  }
  // The place that a user is fused into: a cluster, or nothing but itself.
  using Place = std::pair<bool, uint32_t>;
  Place place_of(const Node& user) const {
    const uint32_t cluster = clusters_.cluster_of[user.id()];
    return cluster == Clusters::kNone ? std::pair{false, user.id()} : std::pair{true, cluster};
  }

 private:
  void visit(const Node& node) {
    std::optional<Recipe>& recipe = recipes_[node.id()];
    recipe = recipe_of(node);
    if (!recipe || users_.leaves(node) || !is_stored(recipe->variable, node)) return;
    // A narrow value costs less to read than a wide variable.
    if (size_of(node.type().dtype) < size_of(recipe->variable.dtype())) return;
    const Value v = node.output();
    std::vector<const Node*> users;
    for (const uint32_t id : users_.of(node)) {
      if (!clusters_.together(id, node.id())) users.push_back(&graph_.node(id));
    }
    const auto may_take = [&](const Node* user) {
      return is_in_cluster(*user, v) || reduces(*user, v);
    };
    const auto takes = [&](const Node* user) { return this->takes(*user, v, *recipe); };
    if (users.empty() || !std::all_of(users.begin(), users.end(), may_take) ||
        !std::all_of(users.begin(), users.end(), takes))
      return;
    recomputed_[node.id()] = true;
    for (const Node* user : users) {
      if (!is_in_cluster(*user, v)) continue;
      promised_[clusters_.cluster_of[user->id()]].insert(recipe->nodes.begin(),
                                                         recipe->nodes.end());
    }
  }

  bool is_in_cluster(const Node& user, const Value& v) const {
    return clusters_.cluster_of[user.id()] != Clusters::kNone && user.type().shape == v.shape();
  }
  static bool reduces(const Node& user, const Value& v) {
    return user.has(kReduction) && is_anchor(user) && user.input(0) == v;
  }

  std::optional<Recipe> recipe_of(const Node& node) const {
    const bool in_cluster = clusters_.cluster_of[node.id()] != Clusters::kNone;
    if (!in_cluster || !node.has(kCheap) || node.types().size() != 1) return std::nullopt;
    Recipe recipe{{node.id()}, {}};
    for (const Value& read : node.inputs()) {
      if (is_updated_in_place(read)) return std::nullopt;
      if (read.shape() != node.type().shape) {
        if (read.shape().num_elements() < node.type().shape.num_elements()) continue;
        return std::nullopt;
      }
      Value variable = read;
      if (goes_on(node, read)) {
        const std::optional<Recipe>& before = recipes_[read.node_id()];
        if (!before) return std::nullopt;
        recipe.nodes.insert(before->nodes.begin(), before->nodes.end());
        variable = before->variable;
      }
      if (recipe.variable.valid() && recipe.variable != variable) return std::nullopt;
      recipe.variable = variable;
    }
    if (!recipe.variable.valid() || recipe.nodes.size() > kMostInstructions) return std::nullopt;
    return recipe;
  }

  // Returns whether a variable is stored whatever becomes of the node; what is made for its cluster
  // alone may become one with it.
  bool is_stored(const Value& variable, const Node& node) const {
    if (variable.node().has(kSource) || users_.leaves(variable)) return true;
    const auto users = users_.of(variable);
    return std::any_of(users.begin(), users.end(), [&](uint32_t user) {
      return place_of(graph_.node(user)) != place_of(node);
    });
  }

  // Returns whether the value shows a state or a loop's variable, which is updated in place where
  // nobody reads it later.
  bool is_updated_in_place(const Value& value) const {
    const Value root = root_of(value);
    return root.node().is(OpRole::kState) || (is_body_ && root.node().is(OpRole::kInput));
  }

  // Asks the backend for the user with the recipe ahead of it. REQUIRES a user that may take it.
  bool takes(const Node& user, const Value& v, const Recipe& recipe) {
    const std::vector<uint32_t> nodes(recipe.nodes.begin(), recipe.nodes.end());
    FusedParts parts;
    if (is_in_cluster(user, v)) {
      if (!has_room(clusters_.cluster_of[user.id()], recipe)) return false;
      parts.epilogue = nodes;
      parts.epilogue.push_back(user.id());
    } else {
      parts.prologue = nodes;
      parts.anchor = &user;
    }
    for (uint32_t i = 0; i < user.types().size(); ++i) parts.outputs.push_back(user.output(i));
    return bodies_.ask(bodies_.fuse(graph_, parts)).supported;
  }

  // Returns whether a cluster stays within its limits with a recipe and those that were promised to
  // it before.
  bool has_room(uint32_t cluster, const Recipe& recipe) const {
    const std::vector<uint32_t>& members = clusters_.members[cluster];
    std::set<uint32_t> all = recipe.nodes;
    all.insert(members.begin(), members.end());
    if (const auto before = promised_.find(cluster); before != promised_.end())
      all.insert(before->second.begin(), before->second.end());
    std::unordered_set<Value, ValueHash> operands;
    for (const uint32_t id : all) {
      for (const Value& v : graph_.node(id).inputs()) {
        if (!all.contains(v.node_id()) && !is_scalar_constant(v)) operands.insert(v);
      }
    }
    for (const uint32_t id : members) {
      const Node& node = graph_.node(id);
      for (const uint32_t user : users_.of(node)) {
        if (!clusters_.together(user, id)) operands.insert(node.output());
      }
      if (users_.leaves(node)) operands.insert(node.output());
    }
    const FuseLimits limits;
    return all.size() <= limits.instructions && operands.size() <= limits.inputs_and_outputs;
  }

  const Graph& graph_;
  bool is_body_;
  SharedBodies& bodies_;
  std::vector<bool> live_;
  Users users_;
  Clusters clusters_;
  std::vector<std::optional<Recipe>> recipes_;                 // by node id
  std::vector<bool> recomputed_;                               // by node id
  std::unordered_map<uint32_t, std::set<uint32_t>> promised_;  // to clusters: nodes of recipes
};

// Copies a graph, with copies of cheap values for those who read them.
class Copier {
 public:
  Copier(const Graph& from, Graph& to, bool is_body, const SupportsFunction& supports)
      : from_(from),
        to_(to),
        supports_(supports),
        rewriter_(from, to),
        bodies_(supports),
        cheap_(from, is_body, bodies_) {}

  void run() {
    rewriter_.clone_inputs();
    for (const Node& node : from_.nodes()) {
      if (cheap_.live()[node.id()] && !node.is(OpRole::kInput)) copy(node);
    }
    rewriter_.finish();
  }

 private:
  void copy(const Node& node) {
    const auto recomputes = [&](const Value& v) { return cheap_.recomputes(node, v); };
    const NodeList<Value> reads = node.data_inputs();
    if (node.bodies().empty() && std::none_of(reads.begin(), reads.end(), recomputes)) {
      rewriter_.clone(node);
      return;
    }
    std::vector<std::shared_ptr<Graph>> bodies;
    for (const auto& body : node.bodies()) {
      bodies.push_back(std::make_shared<Graph>(body->ops()));
      Copier(*body, *bodies.back(), /*is_body=*/true, supports_).run();
    }
    Values inputs;
    for (const Value& v : reads) {
      inputs.push_back(recomputes(v) ? computed_for(cheap_.place_of(node), v) : rewriter_(v));
    }
    rewriter_.clone(node, std::move(inputs), node.attributes(), std::move(bodies));
  }

  // The value, computed again for a user.
  Value computed_for(const CheapValues::Place& user, const Value& v) {
    Value& copy = copies_[{user, v.node_id()}];
    if (copy.valid()) return copy;
    const Node& node = v.node();
    Values inputs;
    for (const Value& read : node.inputs()) {
      inputs.push_back(cheap_.goes_on(node, read) ? computed_for(user, read) : rewriter_(read));
    }
    const Node& again = to_.add(node.op(), std::move(inputs), node.attributes(), node.site());
    to_.relabel(again, node.shared_label());
    return copies_[{user, v.node_id()}] = again.output();
  }

  const Graph& from_;
  Graph& to_;
  const SupportsFunction& supports_;
  Rewriter rewriter_;
  SharedBodies bodies_;
  CheapValues cheap_;
  std::map<std::pair<CheapValues::Place, uint32_t>, Value> copies_;
};

}  // namespace

std::unique_ptr<Graph> recompute_cheap(const Graph& graph, const SupportsFunction& supports) {
  auto result = std::make_unique<Graph>(graph.ops());
  Copier(graph, *result, /*is_body=*/false, supports).run();
  return result;
}

}  // namespace keel
