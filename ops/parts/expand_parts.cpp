// The expansion of a sum_of_parts node (ops/sum_of_parts.h). The values and the batch's part are
// nodes of a specialised graph, with the part's rows. These nodes are followed from the part on,
// each by its rule (part_rules.h): where rows stay rows, one node computes those of all parts at
// once; where rows are summed, one node does so part by part and adds the sums as a tree. What has
// no rule, and what depends on a sum in other ways, is computed anew for each part, and a log line
// says so. Which way a node goes follows from the part's graph alone, so it is the same for any
// number of parts, and so are the bits of each part.
#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "keel/core/base/log.h"
#include "keel/graph/autodiff/control_gradient.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/ir/label.h"
#include "keel/graph/ir/scopes.h"
#include "keel/ops/parts/draws_of_rows.h"
#include "keel/ops/parts/part_rules.h"
#include "keel/ops/slice.h"
#include "keel/ops/sum_of_parts.h"
#include "keel/ops/sums/part_sums.h"

namespace keel {
namespace {

using Kind = Spread::Kind;

// Which nodes there are between a batch's part and what is summed.
struct Between {
  std::vector<uint32_t> nodes;  // rising; they depend on a part, and a sum depends on them
  std::vector<bool> summed;     // by node id: nothing but sums of its results is asked for

  Between(const Graph& graph, const Values& values, const std::vector<BatchPart>& batch)
      : summed(graph.size(), true) {
    std::vector<bool> needed(graph.size(), false), depends(graph.size(), false);
    for (const BatchPart& pair : batch) depends[pair.part.node_id()] = true;
    const std::vector<bool> is_part = depends;
    for (const Value& v : values) needed[v.node_id()] = true;
    for (auto id = static_cast<uint32_t>(graph.size()); id-- > 0;) {
      if (!needed[id] || is_part[id]) continue;
      for (const Value& v : graph.node(id).data_inputs()) needed[v.node_id()] = true;
    }
    for (uint32_t id = 0; id < graph.size(); ++id) {
      if (!needed[id] || is_part[id]) continue;
      for (const Value& v : graph.node(id).data_inputs())
        depends[id] = depends[id] || depends[v.node_id()];
      if (depends[id]) nodes.push_back(id);
    }
    for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
      const Node& node = graph.node(*it);
      if (summed[*it] && is_exactly_linear(node)) continue;
      for (const Value& v : node.data_inputs()) summed[v.node_id()] = false;
    }
  }
};

class Expansion {
 public:
  Expansion(Graph& graph, const SumOfPartsOptions& options, CallSite site)
      : graph_(graph), parts_(options.parts), first_part_(options.first_part), site_(site) {}

  void begin_with(const BatchPart& pair) {
    spreads_[pair.part] = {.kind = Kind::kRows, .axis = 0, .whole = pair.whole, .each = {}};
  }

  void follow(const Node& node, bool summed) {
    const LabelScope label(graph_, node);
    std::vector<Spread> inputs;
    bool whole = node.bodies().empty() && !node.ordered();
    for (const Value& v : node.data_inputs()) {
      inputs.push_back(spread_of(v));
      whole = whole && inputs.back().kind != Kind::kEach;
    }
    const PartNode part_node{node, inputs, parts_, first_part_, summed};
    if (whole && computed_at_once(part_node)) return;
    compute_each(part_node);
  }

  Value sum_of(const Value& value) {
    const Spread spread = spread_of(value);
    if (spread.kind == Kind::kSum) return spread.whole;
    Values each;
    for (int64_t part = 0; part < parts_; ++part) each.push_back(of_part(value, part));
    return tree_sum(each, site_);
  }

  void report(size_t nodes) const {
    if (parts_ == 1 || apart_ == 0) return;
    log_info("micro-shards: " + std::to_string(apart_) + " of " + std::to_string(nodes) +
             " nodes are computed for each of " + std::to_string(parts_) +
             " parts by itself, the first is " + first_apart_);
  }

 private:
  Spread spread_of(const Value& value) const {
    const auto it = spreads_.find(value);
    return it == spreads_.end() ? Spread{.kind = Kind::kSame, .whole = value} : it->second;
  }

  bool computed_at_once(const PartNode& node) {
    if (const auto rule = part_rule(node); rule && add(node, *rule)) return true;
    const Values others = node.summed ? summed_form_of(node) : Values();
    if (others.empty()) return false;
    follow_to(others, node.summed);
    for (uint32_t i = 0; i < others.size(); ++i)
      spreads_[node.node.output(i)] = spread_of(others[i]);
    return true;
  }

  // Follows nodes that were added in the place of one.
  void follow_to(const Values& values, bool summed) {
    for (const Value& value : values) {
      if (spreads_.contains(value)) continue;
      const Values inputs = value.node().data_inputs().to_vector();
      bool depends = false;
      for (const Value& v : inputs) {
        if (v.node_id() >= begin_of_others_)
          follow_to({v}, summed && is_exactly_linear(value.node()));
        depends = depends || spread_of(v).kind != Kind::kSame;
      }
      if (depends) follow(value.node(), summed);
    }
  }

  // Adds the node of a rule; false where an input cannot be had as the rule wants it.
  bool add(const PartNode& part_node, const PartRule& rule) {
    Values inputs;
    for (size_t i = 0; i < part_node.inputs.size(); ++i) {
      const Spread& spread = part_node.inputs[i];
      if (spread.kind != Kind::kSame) {
        const bool fits = spread.kind == Kind::kSum || spread.axis == rule.axes[i];
        if (!fits) return false;
        inputs.push_back(spread.whole);
        continue;
      }
      const Value same = part_node.node.input(i);
      const auto repeated = rule.axes[i] ? repeated_along(same, *rule.axes[i], parts_) : same;
      if (!repeated) return false;
      inputs.push_back(*repeated);
    }
    const Node& node = part_node.node;
    const Node& made = graph_.add(rule.op, inputs, rule.attributes, node.site());
    for (uint32_t i = 0; i < node.types().size(); ++i) {
      const auto axis = rule.results[i];
      Type expected = node.type(i);
      if (axis) expected.shape = expected.shape.with_dim(*axis, expected.shape[*axis] * parts_);
      if (made.type(i) != expected) {
        throw Error({.op = "sum_of_parts",
                     .argument = node.op_name(),
                     .expected = to_string(expected),
                     .got = to_string(made.type(i)),
                     .site = node.site()});
      }
      spreads_[node.output(i)] = {.kind = axis ? Kind::kRows : Kind::kSum,
                                  .axis = axis.value_or(0),
                                  .whole = made.output(i),
                                  .each = {}};
    }
    return true;
  }

  void compute_each(const PartNode& part_node) {
    const Node& node = part_node.node;
    if (node.ordered()) {
      throw Error({.op = node.op_name(),
                   .message = "depends on a part of a batch, and its effect would happen for each",
                   .fix = "take what it gives out of what is computed from parts",
                   .site = node.site()});
    }
    if (apart_++ == 0) first_apart_ = display_name(node) + " (" + to_string(node.site()) + ")";
    std::vector<Values> results(node.types().size());
    for (int64_t part = 0; part < parts_; ++part) {
      Values inputs;
      for (const Value& v : node.data_inputs()) inputs.push_back(of_part(v, part));
      const Node& made = graph_.add(node.op(), inputs, attributes_of(part_node, part), node.site(),
                                    bodies_of_part(node, first_part_ + part));
      for (uint32_t i = 0; i < results.size(); ++i) results[i].push_back(made.output(i));
    }
    for (uint32_t i = 0; i < results.size(); ++i) {
      spreads_[node.output(i)] = {
          .kind = Kind::kEach, .axis = 0, .whole = {}, .each = std::move(results[i])};
    }
  }

  // A checkpointed forward stands for the loop of its part. Where no sum depends on that loop, the
  // parts have none of their own: then it stands for no loop (-1), as the one that is there is that
  // of the part given.
  Attributes attributes_of(const PartNode& part_node, int64_t part) const {
    const Node& node = part_node.node;
    if (!is_checkpointed_forward(node)) return attributes_of_part(part_node, part);
    WhileAttributes own = node.as<WhileAttributes>();
    const Node& loop = graph_.node(static_cast<uint32_t>(own.forward_of));
    const auto it = spreads_.find(loop.output());
    const bool of_parts = it != spreads_.end() && it->second.kind == Kind::kEach;
    own.forward_of =
        of_parts ? int64_t{it->second.each[static_cast<size_t>(part)].node_id()} : int64_t{-1};
    return Attributes::of(own);
  }

  // Returns the value as it is for one part.
  Value of_part(const Value& value, int64_t part) {
    const auto it = spreads_.find(value);
    if (it == spreads_.end()) return value;
    Spread& spread = it->second;
    if (spread.each.empty()) spread.each.resize(static_cast<size_t>(parts_));
    Value& one = spread.each[static_cast<size_t>(part)];
    if (!one.valid()) one = rows_of(spread, value.shape(), part);
    return one;
  }

  Value rows_of(const Spread& spread, const Shape& shape, int64_t part) const {
    if (parts_ == 1) return spread.whole;
    std::vector<int64_t> begin(spread.axis + 1, 0), end(spread.axis + 1, kToEnd);
    begin[spread.axis] = shape[spread.axis] * part;
    end[spread.axis] = shape[spread.axis] * (part + 1);
    return slice(spread.whole, begin, end, {}, site_);
  }

  Graph& graph_;
  const int64_t parts_, first_part_;
  const CallSite site_;
  std::unordered_map<Value, Spread, ValueHash> spreads_;  // of values that depend on a part
  const uint32_t begin_of_others_ = static_cast<uint32_t>(graph_.size());
  size_t apart_ = 0;
  std::string first_apart_;
};

// An input of other rows would be cut like the batch, and each part computed from a piece of it.
void require_equal_rows(const std::vector<BatchPart>& batch, int64_t parts, CallSite site) {
  if (parts == 1) return;
  const auto described_as = [](const Value& input) {
    return full_name(input.node()) + " " + to_string(input.type());
  };
  for (const BatchPart& pair : batch) {
    const Value &first = batch[0].whole, &other = pair.whole;
    if (other.shape()[0] == first.shape()[0]) continue;
    throw Error({.op = "micro-shards",
                 .expected =
                     "inputs with one first axis, the rows of the batch, of which each part "
                     "has its own",
                 .got = described_as(first) + " and " + described_as(other),
                 .fix = "give rows that belong together in one first axis, and reshape in the "
                        "graph; make what is the same for all rows a state or a constant",
                 .site = site});
  }
}

void require_whole_parts(const std::vector<BatchPart>& batch, int64_t parts, CallSite site) {
  for (const BatchPart& pair : batch) {
    const int64_t rows = pair.whole.shape()[0];
    if (rows % parts != 0) {
      throw Error({.op = "micro-shards",
                   .argument = full_name(pair.whole.node()),
                   .expected = "rows that " + std::to_string(parts) + " parts divide",
                   .got = std::to_string(rows),
                   .fix = "give another batch, or another number of micro-shards",
                   .site = site});
    }
    if (rows == pair.part.shape()[0] * parts) continue;
    throw Error({.op = "sum_of_parts",
                 .argument = "part",
                 .expected = "one of " + std::to_string(parts) + " parts of " +
                             to_string(pair.whole.type()),
                 .got = to_string(pair.part.type()),
                 .site = site});
  }
}

// Returns the sum of each value over the parts. REQUIRES known dimensions.
Values expand_parts(Graph& graph, const Values& values, const std::vector<BatchPart>& batch,
                    const SumOfPartsOptions& options, CallSite site) {
  require_equal_rows(batch, options.parts, site);
  require_whole_parts(batch, options.parts, site);
  const Between between(graph, values, batch);
  Expansion expansion(graph, options, site);
  for (const BatchPart& pair : batch) expansion.begin_with(pair);
  for (const uint32_t id : between.nodes) expansion.follow(graph.node(id), between.summed[id]);
  Values sums;
  for (const Value& value : values) sums.push_back(expansion.sum_of(value));
  expansion.report(between.nodes.size());
  return sums;
}

}  // namespace

Values expand_sum_of_parts(const BuildContext& c) {
  const auto& a = c.as<SumOfPartsAttributes>();
  const Values values(c.inputs.begin(), c.inputs.begin() + a.values);
  std::vector<BatchPart> batch;
  for (size_t i = values.size(); i < c.inputs.size(); i += 2)
    batch.push_back({c.inputs[i], c.inputs[i + 1]});
  return expand_parts(c.graph, values, batch, {a.parts, a.first_part}, c.site);
}

}  // namespace keel
