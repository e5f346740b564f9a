// Counts of skipped steps: in how many of the steps in keel/step an optimizer's update, or an
// average, was not applied, because apply_if said so or because the step ran another update. Its
// updates applied are keel/step less that, so one that every step applies costs nothing to count.
// They are i64 scalar states "keel/skipped/..." of the root graph. Building: one thread per graph.
#ifndef KEEL_GRAPH_IR_SKIPPED_STEPS_H
#define KEEL_GRAPH_IR_SKIPPED_STEPS_H

#include <string>
#include <string_view>

#include "keel/core/base/export.h"
#include "keel/graph/ir/graph.h"

namespace keel {

inline constexpr std::string_view kSkippedStates = "keel/skipped/";

// Tells a count of skipped steps from other states by its name. An update that assigns one to
// itself says that it is applied in each of its steps; one that assigns none of a count's is
// another one, and moves that count by 1 (graph/passes/specialise.cpp).
KEEL_API bool counts_skipped_steps(std::string_view state);
KEEL_API bool counts_skipped_steps(const Value& state);

// Makes the state "keel/skipped/<of>", or "keel/skipped/<of>_2" and so on where that is taken.
KEEL_API Value count_skipped_steps(Graph& graph, const std::string& of, CallSite site);

}  // namespace keel

#endif  // KEEL_GRAPH_IR_SKIPPED_STEPS_H
