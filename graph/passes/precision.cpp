#include "keel/graph/passes/precision.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "keel/core/base/error.h"
#include "keel/graph/ir/fused_body.h"
#include "keel/graph/ir/rewriter.h"
#include "keel/graph/ir/scopes.h"

namespace keel {
namespace {

const char* name_of(PrecisionRule rule) {
  static constexpr const char* kNames[] = {"low", "keep", "follow"};
  return kNames[static_cast<size_t>(rule)];
}

bool has_f32(const Node& node) {
  const auto is_f32 = [](const auto& of) { return of == f32; };
  return std::any_of(node.inputs().begin(), node.inputs().end(),
                     [&](const Value& v) { return is_f32(v.dtype()); }) ||
         std::any_of(node.types().begin(), node.types().end(),
                     [&](const Type& t) { return is_f32(t.dtype); });
}

// Returns whether the node is left as it is under every mode: it has bodies, or it is ordered.
bool is_fixed(const Node& node) {
  return node.has(kSource | kControl | kEffect) || !node.bodies().empty();
}

bool can_be_wide(const Node& node) {
  const AttributesSchema* schema = node.op().attributes;
  return schema != nullptr &&
         std::find(schema->names.begin(), schema->names.end(), "wide") != schema->names.end();
}

Attributes widened(const Node& node) {
  AttributeList list = node.attributes().list();
  for (auto& [name, value] : list) {
    if (name == "wide") value = true;
  }
  return node.op().attributes->parse(list);
}

// Returns true if the user asked for the dtypes of the graph, whatever the mode. Throws Error for
// a word that asks for nothing.
bool is_kept(const Node& node) {
  const std::string* asked = scoped_attribute(node, kPrecisionAttribute);
  if (asked == nullptr) return false;
  if (*asked == kKeepPrecision) return true;
  throw Error({.op = full_name(node),
               .argument = std::string("attribute ") + kPrecisionAttribute,
               .expected = std::string("'") + kKeepPrecision + "'",
               .got = "'" + *asked + "'",
               .site = node.site()});
}

class PrecisionPass {
 public:
  PrecisionPass(const PrecisionMode& mode, const SupportsFunction& supports,
                PrecisionReport* report)
      : mode_(mode), low_(*mode.low), supports_(supports), report_(report) {}

  void rewrite(const Graph& from, Graph& to, const std::string& inside) {
    Copy copy{Rewriter(from, to), to, {}, {}, inside};
    copy.rewriter.clone_inputs();
    const std::vector<bool> live = live_nodes(from);
    for (const Node& node : from.nodes()) {
      if (live[node.id()] && !node.is(OpRole::kInput)) visit(node, copy);
    }
    for (const Value& v : from.outputs()) copy.rewriter.map(v, full(v, v.node().site(), copy));
    for (const Assignment& a : from.updates())
      copy.rewriter.map(a.next, full(a.next, a.next.node().site(), copy));
    copy.rewriter.finish();
  }

 private:
  using Casts = std::unordered_map<Value, Value, ValueHash>;

  // A graph being copied: the rewriter maps each old value to the new one in the dtype it was
  // computed in; the others hold the casts of it, by new value.
  struct Copy {
    Rewriter rewriter;
    Graph& to;
    Casts lowered, raised;
    std::string inside;
  };

  struct Choice {
    bool low = false;
    std::string rule;
  };

  void visit(const Node& node, Copy& copy) {
    const LabelScope label(copy.to, node);
    if (is_fixed(node)) {
      add(node, all_full(node, copy), node.attributes(), copied_bodies(node), copy);
      return;
    }
    const Choice choice = choose(node, copy);
    if (choice.low) {
      lower(node, copy);
    } else {
      add(node, all_full(node, copy), node.attributes(), {}, copy);
    }
    if (report_ == nullptr || !has_f32(node)) return;
    report_->decisions.push_back({node.op_name(), full_name(node), node.site(),
                                  choice.low ? low_ : f32, choice.rule, copy.inside});
  }

  // ---- what the table says

  const PrecisionEntry* entry_of(const Node& node) const {
    for (const PrecisionEntry& entry : mode_.entries) {
      if (!entry.op.empty() && entry.op != node.op_name()) continue;
      if (entry.traits == 0 || node.has(entry.traits)) return &entry;
    }
    return nullptr;
  }

  Choice choose(const Node& node, const Copy& copy) const {
    if (is_kept(node)) return {false, std::string("attribute ") + kPrecisionAttribute + ": keep"};
    const PrecisionEntry* entry = entry_of(node);
    if (entry == nullptr) return {false, "no rule: keep"};
    const std::string rule = entry->what + ": " + name_of(entry->rule);
    if (entry->rule == PrecisionRule::kKeep) return {false, rule};
    const bool reads_f32 = std::any_of(node.inputs().begin(), node.inputs().end(),
                                       [](const Value& v) { return v.dtype() == f32; });
    if (!reads_f32) return {false, rule + " (no f32 operand)"};
    if (entry->rule == PrecisionRule::kFollow && !reads_low(node, copy))
      return {false, rule + " (an operand is f32)"};
    if (!node.has(kProduct)) return {true, rule};
    if (!can_be_wide(node)) return {false, rule + " (" + node.op_name() + " has no wide form)"};
    return {true, rule + " (f32 sums)"};
  }

  bool reads_low(const Node& node, const Copy& copy) const {
    return std::all_of(node.inputs().begin(), node.inputs().end(), [&](const Value& v) {
      return v.dtype() != f32 || copy.rewriter(v).dtype() == low_;
    });
  }

  // ---- rewriting

  void lower(const Node& node, Copy& copy) {
    Values inputs;
    for (const Value& v : node.inputs()) {
      inputs.push_back(v.dtype() == f32 ? lowered(v, node.site(), copy) : full(v, {}, copy));
    }
    const Node& made =
        add(node, inputs, node.has(kProduct) ? widened(node) : node.attributes(), {}, copy);
    require_supported(made, made);
    for (const Value& v : made.inputs()) require_supported(v.node(), made);
  }

  static const Node& add(const Node& node, Values inputs, Attributes attributes,
                         std::vector<std::shared_ptr<Graph>> bodies, Copy& copy) {
    return copy.rewriter.clone(node, std::move(inputs), std::move(attributes), std::move(bodies));
  }

  std::vector<std::shared_ptr<Graph>> copied_bodies(const Node& node) {
    if (is_fused_node(node)) return node.bodies();
    std::vector<std::shared_ptr<Graph>> bodies;
    for (const auto& body : node.bodies()) {
      const std::string name = node.op_name() + " body " + std::to_string(bodies.size());
      bodies.push_back(std::make_shared<Graph>(body->ops()));
      rewrite(*body, *bodies.back(), name);
    }
    return bodies;
  }

  // Returns the value in the low dtype.
  Value lowered(const Value& old, CallSite site, Copy& copy) {
    const Value now = copy.rewriter(old);
    return now.dtype() == low_ ? now : converted(now, low_, site, copy.lowered, copy.to);
  }

  // Returns the value in the dtype that it has in the old graph.
  Value full(const Value& old, CallSite site, Copy& copy) {
    const Value now = copy.rewriter(old);
    if (now.dtype() == old.dtype()) return now;
    return converted(now, old.dtype(), site, copy.raised, copy.to);
  }

  Values all_full(const Node& node, Copy& copy) {
    Values values;
    for (const Value& v : node.inputs()) values.push_back(full(v, node.site(), copy));
    return values;
  }

  static Value converted(const Value& value, DType dtype, CallSite site, Casts& casts, Graph& to) {
    Value& made = casts[value];
    if (made.valid()) return made;
    const OpDef& op = to.ops().at("cast");
    made = to.add(op, {value}, op.attributes->parse({{"dtype", dtype}}), site).output();
    return made;
  }

  void require_supported(const Node& node, const Node& asked) const {
    if (node.has(kSource)) return;
    const Support support = supports_(node);
    if (support.supported) return;
    throw Error({.op = full_name(asked),
                 .message = "precision " + mode_.name + " computes it in " +
                            std::string(keel::name_of(low_)) +
                            ", which the backend declines: " + support.reason,
                 .fix = "use precision " + std::string(kDefaultPrecision) +
                        ", or a device that has " + std::string(keel::name_of(low_)),
                 .site = asked.site()});
  }

  const PrecisionMode& mode_;
  const DType low_;
  const SupportsFunction& supports_;
  PrecisionReport* report_;
};

}  // namespace

std::string to_string(const PrecisionDecision& decision) {
  std::string text = decision.inside.empty() ? "" : decision.inside + ": ";
  text += decision.name + ": " + name_of(decision.dtype) + " by " + decision.rule;
  return decision.site.known() ? text + ", " + to_string(decision.site) : text;
}

void check_precision_attributes(const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    static_cast<void>(is_kept(node));
    for (const auto& body : node.bodies()) check_precision_attributes(*body);
  }
}

std::unique_ptr<Graph> apply_precision(const Graph& graph, const PrecisionMode& mode,
                                       const SupportsFunction& supports, PrecisionReport* report) {
  if (report != nullptr) report->mode = mode.name;
  auto result = std::make_unique<Graph>(graph.ops());
  PrecisionPass(mode, supports, report).rewrite(graph, *result, "");
  return result;
}

}  // namespace keel
