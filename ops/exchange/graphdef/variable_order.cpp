#include "keel/ops/exchange/graphdef/variable_order.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>

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
    require_no_assignment_in_loops();
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

  void require_no_assignment_in_loops() const {
    std::vector<size_t> depth(nodes_.size(), 0);  // how many loops lie around a node
    for (const size_t node : order_) {
      for (const Edge& edge : edges_[node])
        if (edge.node != kNone && !comes_from_turn_before(edge))
          depth[node] = std::max(depth[node], depth[edge.node]);
      if (depth[node] != 0 && assigned_.count(node) != 0)
        fail(node, "assigns to a variable inside of a loop, and loops that assign are not imported",
             "an assignment behind the loop, of what it gives");
      if (enters(node)) ++depth[node];
      if (leaves(node) && depth[node] != 0) --depth[node];
    }
  }

  bool enters(size_t node) const {
    return nodes_[node].op == "Enter" || nodes_[node].op == "RefEnter";
  }
  bool leaves(size_t node) const {
    return nodes_[node].op == "Exit" || nodes_[node].op == "RefExit";
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
    if (has_loops_) find_components();
  }

  // Tarjan's algorithm along the inputs: each set of nodes that come behind each other follows
  // those that it comes behind.
  void find_components() {
    std::vector<size_t> number(nodes_.size(), kNone), lowest(nodes_.size()),
        next_edge(nodes_.size());
    std::vector<bool> is_open(nodes_.size(), false);
    std::vector<size_t> open, path;
    size_t count = 0;
    const auto enter = [&](size_t node) {
      number[node] = lowest[node] = count++;
      is_open[node] = true;
      open.push_back(node);
      path.push_back(node);
    };
    for (size_t root = 0; root < nodes_.size(); ++root) {
      if (number[root] == kNone) enter(root);
      while (!path.empty()) {
        const size_t node = path.back();
        if (next_edge[node] < edges_[node].size()) {
          const size_t before = edges_[node][next_edge[node]++].node;
          if (before == kNone) continue;
          if (number[before] == kNone)
            enter(before);
          else if (is_open[before])
            lowest[node] = std::min(lowest[node], number[before]);
          continue;
        }
        path.pop_back();
        if (!path.empty()) lowest[path.back()] = std::min(lowest[path.back()], lowest[node]);
        if (lowest[node] != number[node]) continue;
        const auto first = std::find(open.rbegin(), open.rend(), node).base() - 1;
        components_.emplace_back(first, open.end());
        for (const size_t member : components_.back()) is_open[member] = false;
        open.erase(first, open.end());
      }
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

  void spread(size_t begin, size_t end) {
    const auto bits_in_front = [&](size_t node) {
      uint64_t bits = 0;
      for (const Edge& edge : edges_[node])
        if (edge.node != kNone) bits |= before_[edge.node] | own_[edge.node];
      return bits;
    };
    if (!has_loops_) {
      for (size_t place = begin; place < end; ++place)
        before_[order_[place]] = bits_in_front(order_[place]);
      return;
    }
    for (const std::vector<size_t>& component : components_) {
      uint64_t bits = 0;
      for (const size_t node : component) bits |= bits_in_front(node);
      for (const size_t node : component) before_[node] = bits;
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
        nodes_[of_node.first].inputs[input] = carried(
            value_name(nodes_[seen.node].name, seen.operand), edges_[of_node.first][input].node);
      }
    for (NodeDef& node : carrying_) nodes_.push_back(std::move(node));
  }

  // A value reaches the inside of loops through the same entries as the reference `from` does.
  // Copies of them carry it, since others may read the entries in front of the assignment.
  std::string carried(std::string value, size_t from) {
    std::vector<size_t> entries;
    size_t left = 0;
    // A Merge of a loop has its entry first or behind the NextIteration.
    for (size_t node = from; node != kNone && hands_on(nodes_[node].op) != Hands::kNothing;) {
      if (leaves(node)) ++left;
      if (enters(node) && left == 0) entries.push_back(node);
      if (enters(node) && left != 0) --left;
      const auto before =
          std::find_if(edges_[node].begin(), edges_[node].end(),
                       [&](const Edge& e) { return !e.control && !comes_from_turn_before(e); });
      node = before == edges_[node].end() ? kNone : before->node;
    }
    for (size_t i = entries.size(); i-- > 0;) {
      std::string& name = carried_[{entries[i], value}];
      if (name.empty()) {
        NodeDef copy = nodes_[entries[i]];
        name = free_name(copy.name + "/assigned");
        copy.name = name;
        copy.op = "Enter";
        copy.inputs = {value};
        copy.attributes["is_constant"] = {.kind = AttrValue::Kind::kBool, .ints = {1}};
        carrying_.push_back(std::move(copy));
      }
      value = name;
    }
    return value;
  }

  std::string free_name(std::string name) {
    if (names_.empty())
      for (const NodeDef& node : nodes_) names_.insert(node.name);
    while (!names_.insert(name).second) name += "_";
    return name;
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
  std::vector<std::vector<size_t>> components_;  // of a graph with loops, in an order of a step
  std::unordered_map<size_t, std::vector<size_t>> variables_;  // of a node's outputs
  std::unordered_map<size_t, std::vector<size_t>> assigned_;   // by nodes
  std::vector<AssignmentOf> assignments_;                      // in the order of the nodes
  std::vector<size_t> next_;                                   // of the same variable
  std::unordered_map<size_t, size_t> last_use_;                // the place where a variable is used
  // The assignments that are followed: which ones a node makes, and which ones come before it.
  std::vector<uint64_t> own_, before_;
  // The assignment that an input of a node sees.
  std::unordered_map<size_t, std::unordered_map<size_t, size_t>> seen_;
  // Entries into loops that carry next values, by those that they are copies of.
  std::map<std::pair<size_t, std::string>, std::string> carried_;
  std::vector<NodeDef> carrying_;
  std::unordered_set<std::string> names_;
};

}  // namespace

AssignedVariables order_variables(std::vector<NodeDef>& nodes, const OpRules& rules,
                                  const std::string& source) {
  return Ordering(nodes, rules, source).run();
}

}  // namespace keel::graphdef
