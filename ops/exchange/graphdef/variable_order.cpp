#include "keel/ops/exchange/graphdef/variable_order.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <unordered_map>

#include "keel/core/base/error.h"
#include "keel/core/base/printable.h"
#include "keel/ops/exchange/graphdef/file/values.h"
#include "keel/ops/exchange/graphdef/node_order.h"

namespace keel::graphdef {
namespace {

constexpr size_t kNone = SIZE_MAX;
// Each pass over the graph follows this many assignments, one bit for each.
constexpr size_t kAtOnce = 64;

enum class Hands { kNothing, kFirst, kEach, kBoth, kMerged };

// Says how a node hands references and handles on. Kernels of these share the buffer of a
// reference's variable, so that who reads behind them sees what is assigned meanwhile.
Hands hands_on(const std::string& op) {
  static const std::unordered_map<std::string, Hands> kOps{
      {"Identity", Hands::kFirst},
      {"RefIdentity", Hands::kFirst},
      {"IdentityN", Hands::kEach},
      {"StopGradient", Hands::kFirst},
      {"PreventGradient", Hands::kFirst},
      {"CheckNumerics", Hands::kFirst},
      {"EnsureShape", Hands::kFirst},
      {"Snapshot", Hands::kFirst},
      {"Print", Hands::kFirst},
      {"PlaceholderWithDefault", Hands::kFirst},
      {"Switch", Hands::kBoth},
      {"RefSwitch", Hands::kBoth},
      {"Merge", Hands::kMerged},
      {"RefMerge", Hands::kMerged},
      {"Enter", Hands::kFirst},
      {"RefEnter", Hands::kFirst},
      {"Exit", Hands::kFirst},
      {"RefExit", Hands::kFirst},
      {"NextIteration", Hands::kFirst},
      {"RefNextIteration", Hands::kFirst},
  };
  const auto entry = kOps.find(op);
  return entry == kOps.end() ? Hands::kNothing : entry->second;
}

struct Edge {
  size_t node = kNone;  // none: a value that is given from outside
  size_t output = 0;
  bool control = false;
};

// A node that makes the next value of a variable.
struct AssignmentOf {
  size_t node;
  size_t operand;
  size_t variable;
};

class Ordering {
 public:
  Ordering(std::vector<NodeDef>& nodes, const OpRules& rules, const std::string& source)
      : nodes_(nodes), rules_(rules), source_(source) {}

  AssignedVariables run() {
    if (std::none_of(nodes_.begin(), nodes_.end(), [&](const NodeDef& node) {
          const OpRule* rule = rules_.find(node.op);
          return rule != nullptr && !rule->assigns.empty();
        }))
      return {};
    read_edges();
    order_ = node_order(nodes_, source_);
    for (const size_t node : order_) find_variables(node);
    check_loops();
    for (const size_t node : order_) find_assignments(node);
    require_known_handles();
    find_uses();
    for (size_t first = 0; first < assignments_.size(); first += kAtOnce) follow(first);
    AssignedVariables assigned;
    for (const auto& entry : assigned_)
      for (const size_t variable : entry.second)
        assigned[nodes_[entry.first].name].push_back(variable == kNone ? ""
                                                                       : nodes_[variable].name);
    rewrite();
    return assigned;
  }

 private:
  void read_edges() {
    std::unordered_map<std::string, size_t> index;
    for (size_t i = 0; i < nodes_.size(); ++i) index.emplace(nodes_[i].name, i);
    edges_.resize(nodes_.size());
    for (size_t i = 0; i < nodes_.size(); ++i) {
      for (const std::string& input : nodes_[i].inputs) {
        const ValueName value = parse_value(input);
        const auto before = index.find(value.node);
        edges_[i].push_back(
            {before == index.end() ? kNone : before->second, value.output, value.control});
      }
    }
  }

  // ---- which variable a value refers to

  size_t variable_of(const Edge& edge) const {
    const auto entry = variables_.find(edge.node);
    if (edge.control || entry == variables_.end() || edge.output >= entry->second.size())
      return kNone;
    return entry->second[edge.output];
  }

  void find_variables(size_t node) {
    const OpRule* rule = rules_.find(nodes_[node].op);
    if (rule != nullptr && rule->variable) {
      variables_[node] = {node};
      return;
    }
    if (rule != nullptr && !rule->assigns.empty()) {
      // The forms with references hand the variable on; those with resources give nothing.
      const size_t operand = rule->assigns.front();
      if (!rule->gives_nothing && operand < edges_[node].size())
        keep(node, {variable_of(edges_[node][operand])});
      return;
    }
    const Hands hands = hands_on(nodes_[node].op);
    if (hands == Hands::kNothing || edges_[node].empty()) return;
    std::vector<size_t> found;
    for (const Edge& edge : edges_[node])
      if (!edge.control && !comes_from_turn_before(edge)) found.push_back(variable_of(edge));
    if (found.empty()) return;
    if (hands == Hands::kMerged)
      found = {std::all_of(found.begin(), found.end(), [&](size_t v) { return v == found[0]; })
                   ? found[0]
                   : kNone};
    else if (hands == Hands::kBoth)
      found = {found[0], found[0]};
    else if (hands == Hands::kFirst)
      found.resize(1);
    keep(node, std::move(found));
  }

  void keep(size_t node, std::vector<size_t> variables) {
    if (std::any_of(variables.begin(), variables.end(), [](size_t v) { return v != kNone; }))
      variables_[node] = std::move(variables);
  }

  bool comes_from_turn_before(const Edge& edge) const {
    return edge.node != kNone && leads_back(nodes_[edge.node].op);
  }

  // A loop that hands on another variable in each turn has none of which the order can be told.
  void check_loops() const {
    for (size_t node = 0; node < nodes_.size(); ++node) {
      const size_t own = variable_of({node, 0, false});
      if (own == kNone) continue;
      for (const Edge& edge : edges_[node])
        if (comes_from_turn_before(edge) && !edge.control && variable_of(edge) != own)
          fail(node, "refers to the variable '" + printable(nodes_[own].name) +
                         "' in the first turn of its loop alone");
    }
  }

  void find_assignments(size_t node) {
    const OpRule* rule = rules_.find(nodes_[node].op);
    if (rule == nullptr || rule->assigns.empty()) return;
    std::vector<size_t>& of_node = assigned_[node];
    for (size_t i = 0; i < rule->assigns.size(); ++i) {
      const size_t operand = rule->assigns[i];
      const bool there = operand < edges_[node].size();
      of_node.push_back(there ? variable_of(edges_[node][operand]) : kNone);
      if (of_node.back() != kNone) assignments_.push_back({node, i, of_node.back()});
    }
  }

  void require_known_handles() const {
    for (size_t node = 0; node < nodes_.size(); ++node) {
      const OpRule* rule = rules_.find(nodes_[node].op);
      if (rule == nullptr || !rule->reads_handle || edges_[node].empty()) continue;
      const Edge& handle = edges_[node][0];
      if (handle.node != kNone && variable_of(handle) == kNone)
        fail(node, "reads a variable that cannot be told behind '" +
                       printable(nodes_[handle.node].name) +
                       "', in a step that assigns to variables");
    }
  }

  // ---- which assignments come before a node

  void find_uses() {
    own_.resize(nodes_.size(), 0);
    before_.resize(nodes_.size(), 0);
    place_.resize(nodes_.size());
    for (size_t place = 0; place < order_.size(); ++place) {
      const size_t node = order_[place];
      place_[node] = place;
      has_loops_ = has_loops_ || leads_back(nodes_[node].op);
      for (const Edge& edge : edges_[node])
        if (const size_t variable = variable_of(edge); variable != kNone)
          last_use_[variable] = place;
    }
  }

  // Follows the assignments from `first` on along all edges, as far as their variables are used.
  void follow(size_t first) {
    const size_t count = std::min(kAtOnce, assignments_.size() - first);
    size_t begin = nodes_.size(), end = 0;
    std::unordered_map<size_t, uint64_t> of_variable;
    for (size_t i = 0; i < count; ++i) {
      const AssignmentOf& assignment = assignments_[first + i];
      own_[assignment.node] |= uint64_t{1} << i;
      of_variable[assignment.variable] |= uint64_t{1} << i;
      begin = std::min(begin, place_[assignment.node]);
      end = std::max(end, last_use_.at(assignment.variable) + 1);
    }
    if (has_loops_) begin = 0, end = order_.size();
    spread(begin, end);
    for (size_t place = begin; place < end; ++place) {
      const size_t node = order_[place];
      if (before_[node] == 0) continue;
      for (size_t i = 0; i < edges_[node].size(); ++i) {
        const auto bits = of_variable.find(variable_of(edges_[node][i]));
        if (bits == of_variable.end() || (bits->second & before_[node]) == 0) continue;
        const auto highest = static_cast<size_t>(std::bit_width(bits->second & before_[node]) - 1);
        seen_[node][i] = first + highest;
      }
    }
    for (size_t i = 0; i < count; ++i) require_order(first + i, uint64_t{1} << i);
    for (size_t i = 0; i < count; ++i) own_[assignments_[first + i].node] = 0;
    for (size_t place = begin; place < end; ++place) before_[order_[place]] = 0;
  }

  // Edges that lead back into loops need further passes.
  void spread(size_t begin, size_t end) {
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t place = begin; place < end; ++place) {
        const size_t node = order_[place];
        uint64_t bits = before_[node];
        for (const Edge& edge : edges_[node])
          if (edge.node != kNone) bits |= before_[edge.node] | own_[edge.node];
        if (bits == before_[node]) continue;
        before_[node] = bits;
        changed = changed || leads_back(nodes_[node].op);
      }
    }
  }

  // The next assignment to the same variable has to come behind this one.
  void require_order(size_t i, uint64_t bit) {
    if (next_.empty()) {
      next_.assign(assignments_.size(), kNone);
      std::unordered_map<size_t, size_t> later;
      for (size_t k = assignments_.size(); k-- > 0;) {
        const auto known = later.find(assignments_[k].variable);
        if (known != later.end()) next_[k] = known->second;
        later[assignments_[k].variable] = k;
      }
    }
    if (next_[i] == kNone) return;
    const AssignmentOf& next = assignments_[next_[i]];
    if ((before_[next.node] & bit) != 0) return;
    const std::string& name = nodes_[next.variable].name;
    fail(assignments_[i].node,
         "another node assigns to '" + printable(name) + "' in the same step: '" +
             printable(nodes_[next.node].name) + "', and no edges say which of them comes first",
         "a control input between them");
  }

  // A node that reads one which hands the same next value on stays as it is: in a branch it is the
  // Switch in front of it that says when it runs.
  void rewrite() {
    for (const auto& of_node : seen_)
      for (const auto& [input, assignment] : of_node.second) {
        if (handed_on(edges_[of_node.first][input]) == assignment) continue;
        const AssignmentOf& seen = assignments_[assignment];
        nodes_[of_node.first].inputs[input] = value_name(nodes_[seen.node].name, seen.operand);
      }
  }

  size_t handed_on(const Edge& edge) const {
    const Hands hands = hands_on(nodes_[edge.node].op);
    const auto of_node = seen_.find(edge.node);
    if (hands == Hands::kNothing || of_node == seen_.end()) return kNone;
    const auto seen = of_node->second.find(hands == Hands::kEach ? edge.output : 0);
    return seen == of_node->second.end() ? kNone : seen->second;
  }

  [[noreturn]] void fail(size_t node, const std::string& message,
                         const std::string& fix = "") const {
    throw Error({.op = source_,
                 .argument = "node '" + printable(nodes_[node].name) + "'",
                 .message = message,
                 .fix = fix});
  }

  std::vector<NodeDef>& nodes_;
  const OpRules& rules_;
  const std::string& source_;
  std::vector<std::vector<Edge>> edges_;
  std::vector<size_t> order_, place_;  // nodes by their places, and the reverse
  bool has_loops_ = false;
  std::unordered_map<size_t, std::vector<size_t>> variables_;  // of a node's outputs
  std::unordered_map<size_t, std::vector<size_t>> assigned_;   // by nodes
  std::vector<AssignmentOf> assignments_;                      // in the order of the nodes
  std::vector<size_t> next_;                                   // of the same variable
  std::unordered_map<size_t, size_t> last_use_;                // the place where a variable is used
  // The assignments that are followed: which ones a node makes, and which ones come before it.
  std::vector<uint64_t> own_, before_;
  // The assignment that an input of a node sees.
  std::unordered_map<size_t, std::unordered_map<size_t, size_t>> seen_;
};

}  // namespace

AssignedVariables order_variables(std::vector<NodeDef>& nodes, const OpRules& rules,
                                  const std::string& source) {
  return Ordering(nodes, rules, source).run();
}

}  // namespace keel::graphdef
