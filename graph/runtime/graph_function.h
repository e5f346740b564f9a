// graph_function: a Keel graph as the function that Dataset::map calls on each item (or, behind
// batch(), on each batch): compiled once for a host-side device (cpu or ref), run by as many
// threads as the map has.
//
//   auto scaled = keel::graph_function(items.spec(), keel::device("cpu"), [](const Values& in) {
//     return NamedValues{{"image", cast(in[0], keel::f32) / 255.0f}, {"label", in[1]}};
//   });
//   auto dataset = items.map(scaled, {.name = "scale", .threads = 2}).batch(100);
//
// The function that `build` describes may use its inputs and constants but no states, so that the
// same item always gives the same result. The ElementFunction returned is immutable and shared; any
// thread may call it.
#ifndef KEEL_GRAPH_RUNTIME_GRAPH_FUNCTION_H
#define KEEL_GRAPH_RUNTIME_GRAPH_FUNCTION_H

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "keel/core/device/device.h"
#include "keel/core/queue/element_function.h"
#include "keel/graph/ir/graph.h"

namespace keel {

using NamedValues = std::vector<std::pair<std::string, Value>>;

// `build` gets a Value for each field of `input` and names the fields of the result. Throws Error
// for dimensions that are not known, for what the device cannot run, and, naming it and what to do
// instead, for a state or another value of a model's graph that the function uses
// (DATASET_CAPTURES_VARIABLE).
KEEL_API std::shared_ptr<const ElementFunction> graph_function(
    const ElementSpec& input, Device device, const std::function<NamedValues(const Values&)>& build,
    CallSite site = CallSite::here());

// Does the same from inputs to outputs of a graph that is there. The graph must outlive the call
// only.
KEEL_API std::shared_ptr<const ElementFunction> graph_function(const Graph& graph,
                                                               const Values& inputs,
                                                               const NamedValues& outputs,
                                                               Device device,
                                                               CallSite site = CallSite::here());

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_GRAPH_FUNCTION_H
