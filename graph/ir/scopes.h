// Scopes: how nodes get their labels while a graph is built. Each of these objects holds until it
// is destroyed, nests, and concerns what is added to the graph and to bodies inside it. Local
// variables on the thread that builds; the graph must outlive them.
//
//   const NameScope encoder(g, "encoder");
//   auto h = relu(dense(x, 512, {.name = "hidden"}));  // "encoder/hidden/matmul", "encoder/relu"
//
//   auto loss = named(mean(...), "loss");              // "encoder/loss"
//
//   {
//     const AttributeScope exact(g, "precision", "keep");  // what KeepDtypeScope does
//     loss = ...;                                        // computed in f32 under every precision
//   }
//   g.find("encoder/loss");
#ifndef KEEL_GRAPH_IR_SCOPES_H
#define KEEL_GRAPH_IR_SCOPES_H

#include <string>
#include <string_view>

#include "keel/core/base/export.h"
#include "keel/graph/ir/graph.h"

namespace keel {

// Labels the nodes that are added meanwhile. For passes and layers; users take the two below.
class KEEL_API LabelScope {
 public:
  LabelScope(Graph& graph, NodeLabelPtr label);
  // Labels nodes that are made in place of `node` in another graph, or because of it: they have its
  // scope and attributes, and its own name becomes a scope.
  LabelScope(Graph& graph, const Node& node) : LabelScope(graph, label_inside(node)) {}
  ~LabelScope();
  LabelScope(const LabelScope&) = delete;
  LabelScope& operator=(const LabelScope&) = delete;

  static NodeLabelPtr label_inside(const Node& node);

 private:
  Graph& graph_;
  NodeLabelPtr outer_;
};

// A scope inside the one that is open: a name, or several joined by '/'. Throws Error for empty
// names and for what is not UTF-8 text without control characters.
class KEEL_API NameScope {
 public:
  NameScope(Graph& graph, std::string_view path, CallSite site = CallSite::here());

 private:
  LabelScope scope_;
};

// A scoped attribute; inside, the same key replaces it. Throws Error for an empty key and for text
// as above.
class KEEL_API AttributeScope {
 public:
  AttributeScope(Graph& graph, std::string_view key, std::string_view value,
                 CallSite site = CallSite::here());

 private:
  LabelScope scope_;
};

// Gives nodes a line that is not the call's: for importers, whose own lines mean nothing to users.
class KEEL_API SiteScope {
 public:
  SiteScope(Graph& graph, CallSite site) : graph_(graph), outer_(graph.exchange_site(site)) {}
  ~SiteScope() { graph_.exchange_site(outer_); }
  SiteScope(const SiteScope&) = delete;
  SiteScope& operator=(const SiteScope&) = delete;

 private:
  Graph& graph_;
  CallSite outer_;
};

// Names the node that computes `value`, inside the scope it was made in, and returns the value.
// Throws Error for inputs and states, which have names, for a second name, for one that the graph
// has already, for text as above or with ':' in it, and for a frozen graph.
KEEL_API Value named(Value value, std::string_view name, CallSite site = CallSite::here());

// Returns the label with a scope put in front of its own ("gradient" and "hidden1" make
// "gradient/hidden1"), or behind it. Any text is taken as it is, and nothing where it is empty.
KEEL_API NodeLabelPtr with_outer_scope(const NodeLabelPtr& label, std::string_view scope);
KEEL_API NodeLabelPtr with_inner_scope(const NodeLabelPtr& label, std::string_view scope);
// Returns the label of a node that is copied to where `outer` labels: its scope lies inside that
// one, and it has the attributes of both, its own where both have a key.
NodeLabelPtr label_within(const NodeLabelPtr& outer, const NodeLabelPtr& label);

// Throws Error in the name of `op` unless `text` is UTF-8 text without control characters.
KEEL_API void require_label_text(std::string_view text, const char* op, const char* argument,
                                 CallSite site);

}  // namespace keel

#endif  // KEEL_GRAPH_IR_SCOPES_H
