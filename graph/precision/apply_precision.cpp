#include "keel/graph/precision/apply_precision.h"

#include <algorithm>
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
    for (const auto& [name, rule] : precision_.dtypes.by_name)
      tell_unused(rule, "no node is called '" + name + "'");
    for (const auto& [op, rule] : precision_.dtypes.by_op)
      tell_unused(rule, "no node of " + op + " is left for it");
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

  void tell_unused(const DtypeRule& rule, const std::string& without_node) const {
    if (used_.contains(&rule)) return;
    const auto kept = kept_.find(&rule);
    report_->unused.push_back(rule.where + ": " +
                              (kept == kept_.end() ? without_node : kept->second));
  }

  // Remembers a node that a rule of customised dtypes would have changed, and why it does not.
  void keep(const Node& node, const std::string& why) {
    const DtypeRule* rule = mode_.low ? precision_.dtypes.find(node) : nullptr;
    if (rule == nullptr) return;
    const std::string line = node.site().known() ? ", " + to_string(node.site()) : "";
    kept_.try_emplace(rule, "'" + full_name(node) + "' keeps its dtypes: " + why + line);
  }

  void visit(const Node& node, Copy& copy) {
    const LabelScope label(copy.to, node);
    if (is_outside_precision(node) || !has_scaled_float(node)) {
      keep(node, is_outside_precision(node)
                     ? "no precision changes those of " + node.op_name()
                     : "none of its operands and results is f32, f16 or bf16");
      copy.rewriter.clone(node, all_full(node, copy), node.attributes(), copied_bodies(node));
      return;
    }
    const FormChoice choice = choose_form(node, precision_, supports_, reads_low(node, copy));
    if (choice.dtypes != nullptr) used_.insert(choice.dtypes);
    if (keeps_dtype(node)) keep(node, "it is built in a KeepDtypeScope");
    const Node& made = add(node, choice.form, copy);
    if (report_ == nullptr) return;
    report_->decisions.push_back({node.op_name(), full_name(node), node.site(),
                                  reported_dtype(made), choice.rule, copy.inside});
  }

  // Says whether a number of an f32 constant is infinite in the dtype only, as the count of many
  // elements in f16. A constant is walked over once, however many nodes read it.
  bool is_beyond(DType dtype, const Node& constant) {
    const auto [known, is_new] = beyond_.try_emplace(&constant, false);
    if (!is_new) return known->second;
    float largest = 0;
    for (const float number : constant.as<ConstantAttributes>().value.data<float>()) {
      if (std::isfinite(number)) largest = std::max(largest, std::fabs(number));
    }
    known->second = !std::isfinite(Tensor::full(dtype, Shape{}, largest).at(0));
    return known->second;
  }

  // Says whether a node that follows its operands computes low: one of them is, and the other f32
  // ones are, too, or are constants that the dtype has. A constant that freeze made of a state is
  // taken for the state: a frozen graph has the bits of the one with states.
  bool reads_low(const Node& node, const Copy& copy) {
    if (!mode_.low) return false;
    bool low = false;
    const auto is_number = [](const Value& v) {
      return v.node().is(OpRole::kConstant) && !is_marked(v.node(), kFoldAttribute, kExactFold);
    };
    for (const Value& v : node.inputs()) {
      if (v.dtype() != f32 || is_number(v)) continue;
      if (copy.rewriter(v).dtype() != *mode_.low) return false;
      low = true;
    }
    // Last, as a constant may be long.
    return low && std::none_of(node.inputs().begin(), node.inputs().end(), [&](const Value& v) {
             return v.dtype() == f32 && is_number(v) && is_beyond(*mode_.low, v.node());
           });
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
  std::unordered_map<const DtypeRule*, std::string> kept_;  // what is told where no node used it
  std::unordered_map<const Node*, bool> beyond_;            // by constant
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
