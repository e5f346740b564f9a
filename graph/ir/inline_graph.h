// inline_graph: a graph as a part of another one: what makes a model that was read from a file, or
// imported, a function that is called where a model is built.
//
//   auto model = keel::onnx::load("model.onnx");
//   keel::Graph graph;
//   auto image = graph.input("image", keel::u8, {-1, 3, 224, 224});
//   auto logits = keel::inline_graph(graph, *model.graph, {model.output("logits")},
//                                    {{model.input("x"), cast(image, keel::f32) / 255.0f}})[0];
//
// Building: one thread per graph.
#ifndef KEEL_GRAPH_IR_INLINE_GRAPH_H
#define KEEL_GRAPH_IR_INLINE_GRAPH_H

#include <utility>
#include <vector>

#include "keel/core/base/call_site.h"
#include "keel/core/base/export.h"
#include "keel/graph/ir/graph.h"

namespace keel {

// Copies what `outputs` of the root graph `from` need into another root graph `to`, with values of
// `to` in the place of inputs; returns the outputs there. A state that `to` has by its name is that
// state, so that a graph which is inlined twice shares its parameters; random ops draw numbers of
// their own each time. Updates that layers attached to what is copied come along. Scopes that are
// open on `to` hold for the copies; of names that named() gave, those that `to` has already are
// left out. `from` may end before `to`. Throws Error for an input that is needed and not given, for
// a value that does not fit its input's type, for a state that `to` has with another type, initial
// value or use, and where the two graphs are one or a body.
KEEL_API Values inline_graph(Graph& to, const Graph& from, const Values& outputs,
                             const std::vector<std::pair<Value, Value>>& inputs,
                             CallSite site = CallSite::here());

}  // namespace keel

#endif  // KEEL_GRAPH_IR_INLINE_GRAPH_H
