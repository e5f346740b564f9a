#include "keel/graph/precision/form_choice.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "keel/core/base/error.h"
#include "keel/graph/ir/label.h"
#include "keel/graph/precision/apply_precision.h"
#include "keel/graph/precision/keep_dtype.h"

namespace keel {
namespace {

FormChoice customised(const Node& node, const DtypeRule& rule, const SupportsFunction& supports) {
  NodeForm form = node_by(node, rule);
  const Support support = supports_form(node, form, supports);
  if (support.supported) return {std::move(form), "customised dtypes, " + rule.where, &rule};
  throw Error({.op = full_name(node),
               .argument = "dtypes of " + rule.where,
               .message = "the backend declines it in them: " + support.reason,
               .fix = "give it other dtypes there, or none",
               .site = node.site()});
}

FormChoice first_of(const Node& node, const std::vector<PrecisionForm>& forms,
                    const std::string& what, const std::string& why,
                    const ResolvedPrecision& precision, const SupportsFunction& supports) {
  std::string declined;
  const bool raises = std::find(forms.begin(), forms.end(), PrecisionForm::kF32) != forms.end();
  for (const PrecisionForm form : forms) {
    std::optional<NodeForm> made = node_in(node, form, precision.mode->low);
    // Where the form behind it would raise low operands, f32 sums of them come first.
    if (!made && form == PrecisionForm::kWide && raises)
      made = widened(node, precision.mode->low.value());
    if (!made) continue;
    const Support support =
        form == PrecisionForm::kGraph ? supports(node) : supports_form(node, *made, supports);
    const std::string name = name_of(form);
    if (support.supported) {
      std::string reasons = why;
      if (!declined.empty()) reasons += (reasons.empty() ? "" : "; ") + declined;
      return {std::move(*made), what + ": " + name + (reasons.empty() ? "" : " (" + reasons + ")")};
    }
    declined += (declined.empty() ? "not " : ", not ") + name + ": " + support.reason;
  }
  throw Error({.op = full_name(node),
               .message = "precision " + precision.mode->name +
                          " has no form of it that the backend takes: " +
                          (declined.empty() ? "none is for its dtypes" : declined),
               .fix = "choose another precision mode, or another device",
               .site = node.site()});
}

bool may_have_inputs(const OpDef& op, size_t count) {
  const size_t named = op.input_names.size();
  return count + op.optional_inputs >= named && (op.variadic || count <= named);
}

}  // namespace

bool is_outside_precision(const Node& node) {
  return node.has(kSource | kControl | kEffect) || node.is(OpRole::kFloatStatus) ||
         !node.bodies().empty();
}

const PrecisionEntry* entry_of(const Node& node, const ResolvedPrecision& precision) {
  for (const PrecisionEntry& entry : precision.mode->entries) {
    if (!entry.op.empty() && entry.op != node.op_name()) continue;
    if (entry.traits != 0 && !node.has(entry.traits)) continue;
    if (!entry.mix || *entry.mix == precision.mix_list.class_of(node.op())) return &entry;
  }
  return nullptr;
}

bool keeps_as_composite(const Node& node, const ResolvedPrecision& precision) {
  if (!precision.mode->low) return false;
  const PrecisionEntry* entry = entry_of(node, precision);
  if (entry == nullptr || !entry->mix) return false;
  return *entry->mix == MixClass::kBlack || (entry->follows && node.has(kReduction));
}

const DtypeRule* rule_for(const Node& node, const ResolvedPrecision& precision) {
  if (!precision.mode->low) return nullptr;
  const DtypeRule* rule = precision.dtypes.find(node);
  const auto by_op = precision.dtypes.by_op.find(node.op_name());
  if (by_op == precision.dtypes.by_op.end() || rule != &by_op->second) return rule;
  const bool other_inputs = rule->inputs.size() != node.inputs().size() &&
                            may_have_inputs(node.op(), rule->inputs.size());
  const bool other_outputs = rule->outputs.size() != node.types().size() && node.types().size() > 1;
  return other_inputs || other_outputs ? nullptr : rule;
}

const OpDef* kept_composite_of(const Node& node) {
  const std::string* op = scoped_attribute(node, kKeptCompositeAttribute);
  return op == nullptr ? nullptr : node.op().table->find(*op);
}

FormChoice choose_form(const Node& node, const ResolvedPrecision& precision,
                       const SupportsFunction& supports, bool operands_are_low) {
  const auto kept = [&](const std::string& rule) {
    return FormChoice{*node_in(node, PrecisionForm::kGraph, precision.mode->low), rule};
  };
  if (keeps_dtype(node)) return kept(std::string("attribute ") + kPrecisionAttribute + ": keep");
  const DtypeRule* rule = rule_for(node, precision);
  if (rule != nullptr) return customised(node, *rule, supports);
  if (const OpDef* composite = kept_composite_of(node)) {
    return kept("part of " + composite->name + ", " +
                name_of(precision.mix_list.class_of(*composite)) + ": keep");
  }
  const PrecisionEntry* entry = entry_of(node, precision);
  if (entry == nullptr) return kept("no rule: keep");
  if (!entry->follows || operands_are_low)
    return first_of(node, entry->forms, entry->what, "", precision, supports);
  static const std::vector<PrecisionForm> as_it_is = {PrecisionForm::kGraph, PrecisionForm::kF32,
                                                      PrecisionForm::kHost};
  return first_of(node, as_it_is, entry->what, "its operands are not low", precision, supports);
}

}  // namespace keel
