#include "keel/graph/precision/apply_precision.h"

#include <algorithm>
#include <cmath>
#include <limits>
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
      tell_unused(rule, "no node is called '" + name + "'" + parts_of(name));
    for (const auto& [op, rule] : precision_.dtypes.by_op)
      tell_unused(rule, "no node of " + op + " is left for it" + parts_of_op(op));
  }

 private:
  // Lists nodes in the scope of a name that rules may decide about: of a composite that was
  // decomposed before, these are left.
  std::string parts_of(const std::string& name) const {
    constexpr size_t kMostNamed = 3;
    std::vector<std::string> parts;
    for (const std::string& other : ruled_names_) {
      const bool inside = other.starts_with(name + "/");
      if (inside && std::find(parts.begin(), parts.end(), other) == parts.end())
        parts.push_back(other);
    }
    std::string list;
    for (size_t i = 0; i < std::min(parts.size(), kMostNamed); ++i)
      list += (i == 0 ? "'" : ", '") + parts[i] + "'";
    if (parts.size() > kMostNamed)
      list += " and " + std::to_string(parts.size() - kMostNamed) + " more";
    return list.empty() ? "" : "; rules may name its parts: " + list;
  }

  static std::string parts_of_op(const std::string& op) {
    const OpDef* known = builtin_ops().find(op);
    const bool composed = known != nullptr && known->decompose != nullptr;
    return composed ? "; where it is computed in parts, rules name those" : "";
  }

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
    const auto passed = passed_over_.find(&rule);
    report_->unused.push_back(rule.where + ": " +
                              (passed == passed_over_.end() ? without_node : passed->second));
  }

  // Remembers a node that a rule of customised dtypes names, and why it does not decide about it.
  void pass_over(const Node& node) {
    const DtypeRule* rule = mode_.low ? precision_.dtypes.find(node) : nullptr;
    if (rule == nullptr) return;
    const std::string line = node.site().known() ? ", " + to_string(node.site()) : "";
    passed_over_.try_emplace(rule,
                             "'" + full_name(node) + "' " + why_passed_over(node, *rule) + line);
  }

  static std::string why_passed_over(const Node& node, const DtypeRule& rule) {
    const std::string keeps = "keeps its dtypes: ";
    if (is_outside_precision(node))
      return keeps + "no precision changes those of " + node.op_name();
    if (!has_scaled_float(node))
      return keeps + "none of its operands and results is f32, f16 or bf16";
    if (keeps_dtype(node)) return keeps + "it is built in a KeepDtypeScope";
    const auto counts = [](size_t inputs, size_t outputs) {
      return std::to_string(inputs) + (inputs == 1 ? " input" : " inputs") + " and " +
             std::to_string(outputs) + (outputs == 1 ? " output" : " outputs");
    };
    return "is passed over: it has " + counts(node.inputs().size(), node.types().size()) +
           ", and the rule dtypes for " + counts(rule.inputs.size(), rule.outputs.size());
  }

  // Returns a part's label as of a node in a KeepDtypeScope, which it is like behind this pass:
  // with the composite's op in their marks, equal parts of different composites would not be
  // merged.
  static NodeLabelPtr as_kept(const NodeLabelPtr& label) {
    const auto is_mark = [](const auto& entry) { return entry.first == kKeptCompositeAttribute; };
    if (label == nullptr ||
        std::none_of(label->attributes.begin(), label->attributes.end(), is_mark)) {
      return label;
    }
    NodeLabel kept = *label;
    std::erase_if(kept.attributes, [&](const auto& entry) {
      return is_mark(entry) || entry.first == kPrecisionAttribute;
    });
    kept.attributes.emplace_back(kPrecisionAttribute, kKeepPrecision);
    std::sort(kept.attributes.begin(), kept.attributes.end());
    return std::make_shared<const NodeLabel>(std::move(kept));
  }

  static void relabel(const Node& node, const Node& made, const NodeLabelPtr& label, Copy& copy) {
    if (label != node.shared_label()) copy.to.relabel(made, label);
  }

  void visit(const Node& node, Copy& copy) {
    const LabelScope label(copy.to, as_kept(LabelScope::label_inside(node)));
    if (is_outside_precision(node) || !has_scaled_float(node)) {
      pass_over(node);
      const Node& made =
          copy.rewriter.clone(node, all_full(node, copy), node.attributes(), copied_bodies(node));
      relabel(node, made, as_kept(node.shared_label()), copy);
      return;
    }
    const FormChoice choice = choose_form(node, precision_, supports_, reads_low(node, copy));
    if (choice.dtypes != nullptr)
      used_.insert(choice.dtypes);
    else
      pass_over(node);
    const Node& made = add(node, choice.form, copy);
    if (report_ == nullptr) return;
    report_->decisions.push_back({node.op_name(), full_name(node), node.site(),
                                  reported_dtype(made), choice.rule, copy.inside});
    if (!keeps_dtype(node)) ruled_names_.push_back(report_->decisions.back().name);
  }

  // Returns true if the dtype has no form of a number of an f32 constant: it becomes infinite, as
  // the count of many elements in f16, or 0, as a small number that keeps a divisor from 0. A
  // constant is walked over once, however many nodes read it.
  bool is_lost_in(DType dtype, const Node& constant) {
    const auto [known, is_new] = lost_.try_emplace(&constant, false);
    if (!is_new) return known->second;
    float largest = 0, smallest = std::numeric_limits<float>::infinity();
    for (const float number : constant.as<ConstantAttributes>().value.data<float>()) {
      const float size = std::fabs(number);
      if (!std::isfinite(size) || size == 0) continue;
      largest = std::max(largest, size);
      smallest = std::min(smallest, size);
    }
    const auto rounded = [&](float number) { return Tensor::full(dtype, Shape{}, number).at(0); };
    known->second = largest > 0 && (!std::isfinite(rounded(largest)) || rounded(smallest) == 0);
    return known->second;
  }

  // Says whether a node that follows its operands computes low: one of them is, and the other f32
  // ones are, too, or are constants whose numbers the dtype has. A constant that freeze made of a
  // state is taken for the state: a frozen graph has the bits of the one with states.
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
             return v.dtype() == f32 && is_number(v) && is_lost_in(*mode_.low, v.node());
           });
  }

  const Node& add(const Node& node, const NodeForm& form, Copy& copy) {
    Values inputs;
    for (size_t i = 0; i < form.inputs.size(); ++i)
      inputs.push_back(converted(node.input(i), form.inputs[i], node.site(), copy));
    const Node& made = copy.rewriter.clone(node, std::move(inputs), form.attributes, {});
    relabel(node, made, as_kept(form.label), copy);
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
  std::vector<std::string> ruled_names_;                           // of nodes that take rules
  std::unordered_map<const DtypeRule*, std::string> passed_over_;  // told where no node used it
  std::unordered_map<const Node*, bool> lost_;                     // by constant
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
  if (own.supported || is_outside_precision(node) || !has_scaled_float(node) || keeps_dtype(node) ||
      kept_composite_of(node) != nullptr)
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
