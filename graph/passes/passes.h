// Passes: each takes a graph and gives a new one, or null where it says so and the graph would be
// the same again; none changes its argument.
// graph/runtime/pass_table.h has them in the order in which compile() runs them; fold,
// drop_unread_variables and cse drop dead nodes, but that compile() has fold leave them to the
// others. verify() runs after each in builds with KEEL_VERIFY_PASSES.
#ifndef KEEL_GRAPH_PASSES_PASSES_H
#define KEEL_GRAPH_PASSES_PASSES_H

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "keel/core/device/backend.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/placement.h"

namespace keel {

using SupportsFunction = std::function<Support(const Node&)>;

// Says what to compute: the fetches become the new graph's outputs, the update its
// updates (with keel/step + 1 added when it is not empty). `input_types` gives
// the concrete type of each input that is reached.
struct SpecialiseRequest {
  const Graph* graph = nullptr;
  Values fetches;
  Update update;
  std::map<std::string, Type> input_types;
  // A step boundary at the end of the new graph, with this stop value where it is valid.
  struct Boundary {
    Value stop;
    CallSite site;
  };
  std::optional<Boundary> boundary = {};
};
// Clones what the request reaches with concrete dimensions, then expands
// `gradient` nodes. Throws Error naming the input for a missing or non-matching
// type, and for a state assigned twice or with another type.
KEEL_API std::unique_ptr<Graph> specialise(const SpecialiseRequest& request);
// Returns the inputs that the request needs, in the graph's order. Throws Error as specialise does
// for fetches and updates.
Values reached_inputs(const SpecialiseRequest& request);

using KeepsFunction = std::function<bool(const Node&)>;

// Replaces nodes that the backend does not run by their decomposition,
// repeatedly. The parts of those for which `keeps` holds keep the dtypes of the graph under every
// precision (graph/precision/keep_dtype.h). Under the policy `mixed` what is left then is placed on
// the host, as far as the backend runs it there, and with a node in a body the whole loop or branch
// around it. What is left unsupported is listed, all at once, with reasons and user lines, in one
// Error.
KEEL_API std::unique_ptr<Graph> decompose(const Graph& graph, const SupportsFunction& supports,
                                          PlacementPolicy policy = PlacementPolicy::kFull,
                                          const KeepsFunction& keeps = {});

// Inserts the copies (graph/ir/transfer.h) between the memory of the device and that of the host's
// processor, where the policy `mixed` has placed nodes. Each value is copied once each way; the
// host has constants. Null where nothing is placed by the policy.
KEEL_API std::unique_ptr<Graph> insert_transfers(const Graph& graph);

// Says what a pass does with nodes that it leaves without a reader: it copies the graph once more
// for those to go, or leaves them to cse.
enum class DeadNodes { kDrop, kKeep };

// Evaluates nodes whose inputs are all constants with the op's reference, up to
// 1 MiB a result (transpositions 256 MiB), applies identities that change no bit, and drops dead
// nodes, where it is to. REQUIRES a specialised graph: stop_gradient is dropped, too.
KEEL_API std::unique_ptr<Graph> fold(const Graph& graph, DeadNodes dead = DeadNodes::kDrop);

// Moves transpositions behind element-wise work where others follow that turn them back, and drops
// both, as between convolutions whose channels come first; and those of products behind the work
// that fuse then computes with the product. No bit changes. Null where none is dropped or better
// placed.
KEEL_API std::unique_ptr<Graph> cancel_transposes(const Graph& graph);

// Drops variables of loops that neither a reader of the loop's results nor its condition nor
// another variable needs, such as the outputs of an lstm whose last state alone is used. Loops with
// effects keep all. Drops nodes that were dead before, too. Null where there is no loop.
KEEL_API std::unique_ptr<Graph> drop_unread_variables(const Graph& graph);

// Merges equal pure nodes and drops dead ones.
KEEL_API std::unique_ptr<Graph> cse(const Graph& graph);

// Computes values of a few cheap instructions (kCheap) anew for each cluster and reduction that
// reads them, where the backend takes all of these with such instructions: the values are then not
// stored. No bit changes. Of use where fuse follows; nothing merges the copies again.
KEEL_API std::unique_ptr<Graph> recompute_cheap(const Graph& graph,
                                                const SupportsFunction& supports);

// Reports what fuse left apart and why, one line for each edge between an element-wise node, a
// product or a reduction and its neighbour: "loss/sum -> loss/add: sum is not element-wise
// (model.cpp:7)". Nodes outside of every scope are "%12 (sum)", numbered as in the graph given.
struct FuseReport {
  std::vector<std::string> lines;

  void add(const std::string& what, const std::string& user_line) {
    lines.push_back(user_line.empty() ? what : what + " (" + user_line + ")");
  }
};

// Makes `fused` nodes of element-wise clusters, and of products and reductions with the work around
// them, as far as the backend accepts those. Appends to `report` if there is one.
KEEL_API std::unique_ptr<Graph> fuse(const Graph& graph, const SupportsFunction& supports,
                                     FuseReport* report = nullptr);

}  // namespace keel

#endif  // KEEL_GRAPH_PASSES_PASSES_H
