#include "keel/graph/precision/apply_precision.h"

#include <cmath>
#include <set>
#include <unordered_map>
#include <utility>

#include "keel/graph/ir/fused_body.h"
#include "keel/graph/ir/label.h"
#include "keel/graph/ir/rewriter.h"
#include "keel/graph/ir/scopes.h"
#include "keel/graph/passes/freeze.h"
#include "keel/graph/precision/form_choice.h"
#include "keel/graph/precision/keep_dtype.h"

namespace keel {
namespace {

DType reported_dtype(const Node& node) {
  for (const Value& v : node.inputs()) {
    if (is_scaled_float(v.dtype())) return v.dtype();
  }
  for (const Type& type : node.types()) {
    if (is_scaled_float(type.dtype)) return type.dtype;
  }
  return f32;
}

class PrecisionPass {
 public:
  PrecisionPass(const ResolvedPrecision& precision, const SupportsFunction& supports,
                PrecisionReport* report)
      : precision_(precision), mode_(*precision.mode), supports_(supports), report_(report) {}

  void rewrite(const Graph& from, Graph& to, const std::string& inside) {
    Copy copy{Rewriter(from, to), to, {}, inside};
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

  void report_unused() const {
    if (report_ == nullptr || !mode_.low) return;
    for (const auto& [name, rule] : precision_.dtypes.by_name) {
      if (!used_.contains(&rule))
        report_->unused.push_back(rule.where + ": no node is called '" + name + "'");
    }
    for (const auto& [op, rule] : precision_.dtypes.by_op) {
      if (!used_.contains(&rule))
        report_->unused.push_back(rule.where + ": no node of " + op + " is left for it");
    }
  }

 private:
  struct Cast {
    Value of;
    DType to;
    bool operator==(const Cast&) const = default;
  };
  struct CastHash {
    size_t operator()(const Cast& cast) const noexcept {
      return ValueHash()(cast.of) * 31 + static_cast<size_t>(cast.to);
    }
  };

  // A graph being copied: the rewriter maps each old value to the new one in the dtype it was
  // computed in; `casts` are those of new values.
  struct Copy {
    Rewriter rewriter;
    Graph& to;
    std::unordered_map<Cast, Value, CastHash> casts;
    std::string inside;
  };

  void visit(const Node& node, Copy& copy) {
    const LabelScope label(copy.to, node);
    if (is_outside_precision(node) || !has_scaled_float(node)) {
      copy.rewriter.clone(node, all_full(node, copy), node.attributes(), copied_bodies(node));
      return;
    }
    const FormChoice choice = choose_form(node, precision_, supports_, reads_low(node, copy));
    if (choice.dtypes != nullptr) used_.insert(choice.dtypes);
    const Node& made = add(node, choice.form, copy);
    if (report_ == nullptr) return;
    report_->decisions.push_back({node.op_name(), full_name(node), node.site(),
                                  reported_dtype(made), choice.rule, copy.inside});
  }

  // Says whether a constant is one number that is infinite in the dtype only, as the count of many
  // elements in f16.
  static bool is_beyond(DType dtype, const Value& constant) {
    const Tensor& t = constant.node().as<ConstantAttributes>().value;
    if (t.num_elements() != 1 || !std::isfinite(t.at(0))) return false;
    return !std::isfinite(Tensor::full(dtype, Shape{}, t.at(0)).at(0));
  }

  // Says whether a node that follows its operands computes low: one of them is, and the other f32
  // ones are, too, or are constants that the dtype has. A constant that freeze made of a state is
  // taken for the state: a frozen graph has the bits of the one with states.
  bool reads_low(const Node& node, const Copy& copy) const {
    if (!mode_.low) return false;
    bool low = false;
    for (const Value& v : node.inputs()) {
      if (v.dtype() != f32) continue;
      if (v.node().is(OpRole::kConstant) && !is_marked(v.node(), kFoldAttribute, kExactFold)) {
        if (is_beyond(*mode_.low, v)) return false;
        continue;
      }
      if (copy.rewriter(v).dtype() != *mode_.low) return false;
      low = true;
    }
    return low;
  }

  const Node& add(const Node& node, const NodeForm& form, Copy& copy) {
    Values inputs;
    for (size_t i = 0; i < form.inputs.size(); ++i)
      inputs.push_back(converted(node.input(i), form.inputs[i], node.site(), copy));
    const Node& made = copy.rewriter.clone(node, std::move(inputs), form.attributes, {});
    if (form.label != node.shared_label()) copy.to.relabel(made, form.label);
    for (size_t i = 0; i < form.outputs.size(); ++i) {
      const Value old = node.output(i);
      copy.rewriter.map(old, converted(old, form.outputs[i], node.site(), copy));
    }
    return made;
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

  // Returns what became of an old value, in that dtype.
  static Value converted(const Value& old, DType dtype, CallSite site, Copy& copy) {
    const Value now = copy.rewriter(old);
    if (now.dtype() == dtype) return now;
    Value& made = copy.casts[{now, dtype}];
    if (!made.valid()) made = cast_to(copy.to, now, dtype, site);
    return made;
  }

  // Returns the value in the dtype that it has in the old graph.
  static Value full(const Value& old, CallSite site, Copy& copy) {
    return converted(old, old.dtype(), site, copy);
  }

  static Values all_full(const Node& node, Copy& copy) {
    Values values;
    for (const Value& v : node.inputs()) values.push_back(full(v, node.site(), copy));
    return values;
  }

  const ResolvedPrecision& precision_;
  const PrecisionMode& mode_;
  const SupportsFunction& supports_;
  PrecisionReport* report_;
  std::set<const DtypeRule*> used_;
};

void report_kept(const Graph& graph, const std::string& inside, const ResolvedPrecision& precision,
                 PrecisionReport& report) {
  for (const Node& node : graph.nodes()) {
    for (size_t i = 0; i < node.bodies().size(); ++i) {
      report_kept(*node.bodies()[i], node.op_name() + " body " + std::to_string(i), precision,
                  report);
    }
    if (is_outside_precision(node) || !has_scaled_float(node)) continue;
    const PrecisionEntry* entry = entry_of(node, precision);
    report.decisions.push_back({node.op_name(), full_name(node), node.site(), reported_dtype(node),
                                entry == nullptr ? "no rule: keep" : entry->what + ": keep",
                                inside});
  }
}

PrecisionReport begin_report(const ResolvedPrecision& precision) {
  PrecisionReport report{precision.mode->name, precision.is_default, {}, {}};
  if (!precision.mode->low && !precision.dtypes.empty()) {
    report.unused.push_back("customised dtypes are not looked at by " + report.mode +
                            (report.is_default ? ", the device's default" : ""));
  }
  return report;
}

}  // namespace

std::string to_string(const PrecisionDecision& decision) {
  std::string text = decision.inside.empty() ? "" : decision.inside + ": ";
  text += decision.name + ": " + name_of(decision.dtype) + " by " + decision.rule;
  return decision.site.known() ? text + ", " + to_string(decision.site) : text;
}

void check_precision_attributes(const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    static_cast<void>(keeps_dtype(node));
    for (const auto& body : node.bodies()) check_precision_attributes(*body);
  }
}

Support supports_in_some_form(const Node& node, const ResolvedPrecision& precision,
                              const SupportsFunction& supports) {
  Support own = supports(node);
  if (own.supported || is_outside_precision(node) || !has_scaled_float(node) || keeps_dtype(node))
    return own;
  const PrecisionEntry* entry = entry_of(node, precision);
  if (entry == nullptr) return own;
  for (const PrecisionForm form : entry->forms) {
    const bool lowers = form == PrecisionForm::kLow || form == PrecisionForm::kWide;
    if (form == PrecisionForm::kGraph || (lowers && entry->follows)) continue;
    // A decomposition keeps the dtypes of the graph, so it comes before f32 and the host.
    if (!lowers && node.op().decompose) continue;
    const auto made = node_in(node, form, precision.mode->low);
    if (made && supports_form(node, *made, supports).supported) return {true, ""};
  }
  return own;
}

PrecisionReport report_kept_precision(const Graph& graph, const ResolvedPrecision& precision) {
  PrecisionReport report = begin_report(precision);
  if (!precision.mode->entries.empty()) report_kept(graph, "", precision, report);
  return report;
}

std::unique_ptr<Graph> apply_precision(const Graph& graph, const ResolvedPrecision& precision,
                                       const SupportsFunction& supports, PrecisionReport* report) {
  if (report != nullptr) *report = begin_report(precision);
  auto result = std::make_unique<Graph>(graph.ops());
  PrecisionPass pass(precision, supports, report);
  pass.rewrite(graph, *result, "");
  pass.report_unused();
  return result;
}

}  // namespace keel
