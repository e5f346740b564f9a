#include "keel/graph/runtime/pass_table.h"

#include <algorithm>
#include <utility>

#include "keel/core/base/environment.h"
#include "keel/core/base/error.h"
#include "keel/graph/passes/cancel_transposes.h"
#include "keel/graph/precision/form_choice.h"
#include "keel/graph/runtime/table_places.h"

namespace keel {
namespace {

using GraphPtr = std::unique_ptr<Graph>;

GraphPtr run_decompose(const Graph& graph, PassContext& context) {
  const auto supports = [&](const Node& node) {
    // Under the policy `full` use_tables() refuses it, with both sites.
    if (context.placement == PlacementPolicy::kMixed) {
      Support with_table = supports_table(node, context.place);
      if (!with_table.supported) return with_table;
    }
    Support own = context.supports(node);
    if (own.supported) return own;
    // Under the policy `mixed` it is the policy that places nodes on the host.
    const SupportsFunction forms = [&](const Node& form) {
      const bool policys = context.placement == PlacementPolicy::kMixed && is_on_host(form);
      return policys ? Support{false, "the policy mixed places it"} : context.supports(form);
    };
    Support other = supports_in_some_form(node, context.precision, forms);
    context.some_other_form |= other.supported;
    return other.supported ? other : own;
  };
  const KeepsFunction keeps = [&](const Node& node) {
    return keeps_as_composite(node, context.precision);
  };
  return decompose(graph, supports, context.placement, keeps);
}

GraphPtr run_precision(const Graph& graph, PassContext& context) {
  check_precision_attributes(graph);
  if (!context.precision.mode->low && !context.some_other_form) {
    context.precision_report = report_kept_precision(graph, context.precision);
    return nullptr;
  }
  return apply_precision(graph, context.precision, context.supports, &context.precision_report);
}

GraphPtr run_fold(const Graph& graph, PassContext&) { return fold(graph, DeadNodes::kKeep); }
GraphPtr run_cancel_transposes(const Graph& graph, PassContext& context) {
  return cancel_transposes(graph, context.supports);
}
GraphPtr run_drop_unread_variables(const Graph& graph, PassContext&) {
  return drop_unread_variables(graph);
}
GraphPtr run_cse(const Graph& graph, PassContext&) { return cse(graph); }
GraphPtr run_insert_transfers(const Graph& graph, PassContext& context) {
  // A device that works in the host's memory needs none.
  return context.place == kHostPlace ? nullptr : insert_transfers(graph);
}
GraphPtr run_recompute_cheap(const Graph& graph, PassContext& context) {
  return recompute_cheap(graph, context.supports);
}
GraphPtr run_fuse(const Graph& graph, PassContext& context) {
  return fuse(graph, context.supports, &context.fuse_report);
}

constexpr Pass kPasses[] = {
    {.name = "specialise",
     .summary = "copies what is asked for with concrete dimensions, expands gradients",
     .required = "backends take concrete dimensions, and no gradients",
     .changes_bits = "",
     .run = nullptr},
    {.name = "dequeue",
     .summary = "takes the inputs of a fed step from its queue",
     .required = "a step that is fed gets its elements by it",
     .changes_bits = "",
     .run = nullptr},
    {.name = "decompose",
     .summary = "replaces what the backend does not run by simpler ops",
     .required = "the backend needs it: it has kernels for some ops only",
     .changes_bits = "",
     .run = run_decompose},
    {.name = "precision",
     .summary = "computes each node in the dtypes that the session's precision says",
     .required = "the precision says what it does; name another one instead",
     .changes_bits = "",
     .run = run_precision},
    {.name = "fold",
     .summary = "evaluates constants, applies identities that change no bit",
     .required = "",
     .changes_bits = "results of ops whose operands are all constants and that are not exact, such "
                     "as exp: it rounds them once, by the ops' references",
     .run = run_fold},
    {.name = "cancel_transposes",
     .summary = "drops transpositions that are turned back behind element-wise work",
     .required = "",
     .changes_bits = "",
     .run = run_cancel_transposes},
    {.name = "drop_unread_variables",
     .summary = "drops variables of loops that nothing needs",
     .required = "",
     .changes_bits = "",
     .run = run_drop_unread_variables},
    {.name = "cse",
     .summary = "merges equal pure nodes, drops dead ones",
     .required = "",
     .changes_bits = "",
     .run = run_cse},
    {.name = "insert_transfers",
     .summary =
         "copies between the memories of device and host around what the policy mixed places",
     .required = "what runs on the host reads the host's memory",
     .changes_bits = "",
     .run = run_insert_transfers},
    {.name = "recompute_cheap",
     .summary = "has clusters and reductions compute cheap values that they read",
     .required = "",
     .changes_bits = "",
     .run = run_recompute_cheap},
    {.name = "fuse",
     .summary =
         "makes one task of element-wise neighbours, and of products and reductions with the "
         "work around them",
     .required = "",
     .changes_bits = "",
     .run = run_fuse},
    {.name = "make_sunk_loop",
     .summary = "puts the loop on the device around a step that is sunk",
     .required = "without it nothing is sunk; a loop size of 1 launches each step",
     .changes_bits = "",
     .run = nullptr},
    {.name = "feed_fields",
     .summary = "takes the inputs from the host where the backend does not loop",
     .required = "a step that is fed gets its elements by it",
     .changes_bits = "",
     .run = nullptr},
};

const Pass& find_pass(const std::string& name, CallSite site) {
  std::vector<std::string> names;
  for (const Pass& pass : kPasses) {
    if (pass.name == name) return pass;
    names.emplace_back(pass.name);
  }
  std::string known;
  for (const Pass& pass : kPasses)
    if (pass.may_be_disabled()) known += (known.empty() ? "" : ", ") + std::string(pass.name);
  throw Error({.op = "disabled passes",
               .expected = "a pass that may be switched off: " + known,
               .got = "'" + name + "'",
               .fix = did_you_mean(name, names),
               .site = site,
               .kind = ErrorKind::kInvalidArgument});
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

std::span<const Pass> passes() { return kPasses; }

std::span<const PassConflict> pass_conflicts() {
  static const std::vector<PassConflict> conflicts = {
      {.off = {"fuse"},
       .also_off = "recompute_cheap",
       .why = "only fused nodes compute a cheap value again without storing it"}};
  return conflicts;
}

bool PassSelection::runs(const Pass& pass) const { return !has(disabled, pass.name); }

std::vector<std::string> in_one_order(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

PassSelection select_passes(const std::vector<std::string>& names, CallSite site) {
  std::vector<std::string> off;
  for (const std::string& name : names) {
    const Pass& pass = find_pass(name, site);
    if (!pass.may_be_disabled()) {
      throw Error({.op = "disabled passes",
                   .argument = name,
                   .message = std::string("cannot be switched off: ") + pass.required,
                   .site = site,
                   .kind = ErrorKind::kInvalidArgument});
    }
    off.push_back(name);
  }
  PassSelection selection;
  for (const PassConflict& conflict : pass_conflicts()) {
    const bool met = std::all_of(conflict.off.begin(), conflict.off.end(),
                                 [&](const std::string& name) { return has(off, name); });
    if (!met || has(off, conflict.also_off)) continue;
    off.push_back(conflict.also_off);
    selection.notices.push_back("without " + list_of(conflict.off) + " the pass " +
                                conflict.also_off + " is off, too: " + conflict.why);
  }
  for (const Pass& pass : kPasses)
    if (has(off, pass.name)) selection.disabled.emplace_back(pass.name);
  return selection;
}

}  // namespace keel
