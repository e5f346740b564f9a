#include "keel/graph/precision/precision_table.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "keel/core/base/error.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/op_table.h"
#include "keel/graph/ir/sample.h"
#include "keel/graph/precision/apply_precision.h"
#include "keel/graph/precision/form_choice.h"

namespace keel {
namespace {

// A graph with a node of the op, computed in a dtype.
struct Example {
  Graph graph;
  const Node* node = nullptr;  // null: the op does not take the dtype
};

// How well a drawn node shows what a mode makes of its op.
enum class Fit : uint8_t {
  kNotRun,    // the backend runs it in no form
  kMisruled,  // the rule of customised dtypes for it is one for other nodes of the op
  kUnruled,   // there is no rule for it
  kRuled,
};

// Takes the first of the drawn ones that fit best.
std::unique_ptr<Example> example_of(const OpDef& op, DType dtype, Fit best,
                                    const std::function<Fit(const Node&)>& fit_of) {
  constexpr uint64_t kSeeds = 8;
  constexpr int kSize = 20;
  auto taken = std::make_unique<Example>();
  Fit fit = Fit::kNotRun;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SampleSource source(seed, dtype, kSize);
    const Sample sample = op.sample(source);
    if (!sample.build) break;
    auto example = std::make_unique<Example>();
    Values inputs;
    for (const Tensor& t : sample.inputs) {
      inputs.push_back(
          example->graph.input("x" + std::to_string(inputs.size()), t.dtype(), t.shape()));
    }
    example->graph.set_outputs(sample.build(example->graph, inputs));
    for (const Node& node : example->graph.nodes()) {
      if (node.op_name() == op.name) example->node = &node;
    }
    if (example->node == nullptr) continue;
    const Fit own = fit_of(*example->node);
    if (taken->node == nullptr || own > fit) {
      taken = std::move(example);
      fit = own;
    }
    if (fit >= best) break;
  }
  return taken;
}

bool takes(const Node& node, DType dtype) {
  for (const Value& v : node.inputs()) {
    if (v.dtype() == dtype) return true;
  }
  return false;
}

// Returns the dtype in which a node of that form computes.
DType dtype_of(const FormChoice& choice) {
  for (const DType dtype : choice.form.inputs) {
    if (is_scaled_float(dtype)) return dtype;
  }
  return f32;
}

// Returns why the rule of customised dtypes for a node is none that it can follow; nothing where it
// is, or where there is none. A training may have other nodes of the op, so that this is told in
// the table and is no error of it.
std::optional<std::string> misfit_of(const Node& node, const ResolvedPrecision& precision,
                                     const SupportsFunction& supports) {
  const DtypeRule* rule = rule_for(node, precision);
  if (rule == nullptr) return std::nullopt;
  try {
    choose_form(node, precision, supports, false);
    return std::nullopt;
  } catch (const Error& error) {
    ErrorInfo info = error.info();
    info.op = "customised dtypes, " + rule->where;
    info.argument.clear();
    info.site = {};  // the sample's
    return Error(std::move(info)).what();
  }
}

std::string choice_of(const Node& node, const ResolvedPrecision& precision,
                      const SupportsFunction& supports) {
  const Support support = supports_in_some_form(node, precision, supports);
  if (!support.supported)
    return node.op().decompose ? "composed of other ops" : "none: " + support.reason;
  if (precision.mode->entries.empty())
    return std::string(name_of(node.input(0).dtype())) + " (keep)";
  if (const auto misfit = misfit_of(node, precision, supports)) return *misfit;
  const FormChoice usual = choose_form(node, precision, supports, false);
  const std::string dtype = name_of(dtype_of(usual));
  const PrecisionEntry* entry = entry_of(node, precision);
  if (entry == nullptr || !entry->follows) return dtype + " (" + usual.rule + ")";
  const FormChoice low = choose_form(node, precision, supports, true);
  if (dtype_of(low) == dtype_of(usual)) return dtype + " (" + low.rule + ")";
  return std::string(name_of(dtype_of(low))) + " after operands that are, else " + dtype + " (" +
         low.rule + ")";
}

}  // namespace

std::vector<PrecisionRow> precision_table(const ResolvedPrecision& precision,
                                          const SupportsFunction& supports) {
  std::vector<PrecisionRow> rows;
  const auto fit_of = [&](const Node& node) {
    if (!supports_in_some_form(node, precision, supports).supported) return Fit::kNotRun;
    if (misfit_of(node, precision, supports)) return Fit::kMisruled;
    return rule_for(node, precision) == nullptr ? Fit::kUnruled : Fit::kRuled;
  };
  const Fit best = precision.dtypes.empty() ? Fit::kUnruled : Fit::kRuled;
  for (const OpDef* op : builtin_ops().all()) {
    if (!op->sample) continue;
    for (const DType dtype : {f32, f16, bf16}) {
      const auto example = example_of(*op, dtype, best, fit_of);
      if (example->node == nullptr || !takes(*example->node, dtype)) continue;
      if (is_outside_precision(*example->node)) continue;
      rows.push_back({op->name, dtype, choice_of(*example->node, precision, supports)});
    }
  }
  return rows;
}

}  // namespace keel
