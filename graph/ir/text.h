// The text form of graphs: print_graph and parse_graph round-trip every graph (structure,
// attributes to the last bit, bodies, outputs, updates, call sites). to_dot draws one for Graphviz.
// Parsing treats its input as untrusted. Any thread that may read the graph.
//
//   graph {
//     %0 = input() {name="image", type=[u8[?, 784]]} : u8[?, 784] @ "model.cpp":12
//     %1 = constant() {value=i64[](3)} : i64[]
//     %2 = while_loop(%1, %1) {trip_count=3} [
//       graph { ... }
//       graph { ... }
//     ] : i64[], i64[]
//     %3 = add(%2.1, %1) : i64[] @ "model.cpp":14 in "encoder/0" as "loss" with {"device"="host"}
//     outputs (%0, %2.1)
//     updates (%4 <- %5)
//   }
//
// One line a node: its number, op, inputs, the attributes that differ from their defaults, bodies,
// types ("none" for no output), call site, and label: the scope it was built in, the name that it
// was given, its scoped attributes, and of a fused node its members, "members [none, in
// "hidden1"]", one for each node of its body. %2 is output 0 of node 2, %2.1 output 1; numbers are
// node ids, and a graph sees its own nodes only. Sections that are empty are left out: inputs (only
// where their order is not that of their nodes), outputs, updates, and attached ("%9: %4 <- %5",
// or "%9: %4 <- %5 observing %6", see Graph::attach_update). Numbers are the shortest that give the
// same bits back; a NaN other than the default one is nan(0x7fc00001).
//
// Bodies of a parsed graph have no parent (captures are inputs like others, paired with the
// node's), so nothing can be added to them. Random ops that are added to the graph itself draw
// numbers of their own, though not those that they would have drawn in the original.
#ifndef KEEL_GRAPH_IR_TEXT_H
#define KEEL_GRAPH_IR_TEXT_H

#include <memory>
#include <string>
#include <string_view>

#include "keel/graph/ir/graph.h"

namespace keel {

struct PrintOptions {
  bool sites = true;                 // "@ "model.cpp":12" behind each node
  bool labels = true;                // scopes, names and scoped attributes
  int64_t max_tensor_elements = -1;  // abbreviates larger constants for people
                                     // (then it does not parse); -1: never
};
KEEL_API std::string print_graph(const Graph& graph, PrintOptions options = {});
struct ParseOptions {
  // Limits the bytes of all states together, which a Session will allocate; 0: 256 MiB, or the
  // text's size where that is more.
  int64_t max_state_bytes = 0;
};
// Throws Error with line and column ("graph text: 3:5: ...") for bad syntax, unknown ops or
// attributes, types that inference does not confirm, bodies nested deeper than kMaxNesting, or more
// states than the options allow.
KEEL_API std::unique_ptr<Graph> parse_graph(std::string_view text,
                                            const OpTable& ops = builtin_ops(),
                                            const ParseOptions& options = {});
// Draws one box a node, one cluster a body; dashed lines pair the inputs of a node with those of
// its bodies.
KEEL_API std::string to_dot(const Graph& graph);

}  // namespace keel

#endif  // KEEL_GRAPH_IR_TEXT_H
