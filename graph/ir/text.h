// The text form of graphs: print_graph and parse_graph round-trip every graph
// (structure, attributes to the last bit, bodies, outputs, updates, call
// sites). to_dot draws one for Graphviz. Parsing treats its input as untrusted.
#ifndef KEEL_GRAPH_IR_TEXT_H
#define KEEL_GRAPH_IR_TEXT_H

#include <memory>
#include <string>
#include <string_view>

#include "keel/graph/ir/graph.h"

namespace keel {

struct PrintOptions {
  bool sites = true;                // "@ "model.cpp":12" behind each node
  int64_t max_tensor_elements = -1; // abbreviates larger constants for people
                                    // (then it does not parse); -1: never
};
KEEL_API std::string print_graph(const Graph &graph, PrintOptions options = {});
// Throws Error with line and column for bad syntax, unknown ops or attributes,
// or types that inference does not confirm.
KEEL_API std::unique_ptr<Graph> parse_graph(std::string_view text,
                                            const OpTable &ops = builtin_ops());
KEEL_API std::string to_dot(const Graph &graph);

} // namespace keel

#endif // KEEL_GRAPH_IR_TEXT_H
