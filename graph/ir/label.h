// NodeLabel: what a node is called and marked with, beside what it computes: the scope it was built
// in, the name a user gave it, and the scoped attributes. Labels never enter results: random keys
// and initialisers do not know them, and nodes that differ in names alone share one fused body.
// Immutable and shared by the nodes of many graphs; any thread. ir/scopes.h sets them.
#ifndef KEEL_GRAPH_IR_LABEL_H
#define KEEL_GRAPH_IR_LABEL_H

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "keel/core/base/export.h"

namespace keel {

class Node;
struct NodeLabel;
using NodeLabelPtr = std::shared_ptr<const NodeLabel>;  // null: an empty label

// Keys and values as text, like XLA's frontend attributes, in the order of the keys. Passes that
// consume a key define its values; all others carry it along.
using ScopedAttributes = std::vector<std::pair<std::string, std::string>>;

struct NodeLabel {
  std::string scope;            // "encoder/0/attention"; empty outside of every scope
  std::string name;             // inside the scope, where named() gave one
  ScopedAttributes attributes;  // sorted by key, each once
  // A fused node has here the labels of what it was made of, one for each node of its body, null
  // for the body's inputs and constants. Bodies themselves carry attributes and no names, so that
  // layers which compute the same can share one.
  std::vector<NodeLabelPtr> members;

  bool empty() const noexcept {
    return scope.empty() && name.empty() && attributes.empty() && members.empty();
  }
};

// Equal where all they say is, members included.
KEEL_API bool same_label(const NodeLabel& a, const NodeLabel& b);

// "encoder/0/matmul": the scope, and the name that was given or else the op's. An input's or a
// state's own name, which no scope changes.
KEEL_API std::string full_name(const Node& node);
// Returns what people read in profiles, reports and errors: the full name; of a fused node its
// members', "hidden1/matmul + add + relu", each scope once where it begins.
KEEL_API std::string display_name(const Node& node);
// Null where the node has no such attribute.
KEEL_API const std::string* scoped_attribute(const Node& node, std::string_view key);
// Returns whether the node has an attribute whose only value this is. Throws Error for another one.
KEEL_API bool is_marked(const Node& node, std::string_view key, std::string_view value);

}  // namespace keel

#endif  // KEEL_GRAPH_IR_LABEL_H
