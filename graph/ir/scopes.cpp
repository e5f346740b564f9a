#include "keel/graph/ir/scopes.h"

#include <algorithm>
#include <utility>

#include "keel/core/base/error.h"
#include "keel/core/base/printable.h"
#include "keel/graph/ir/frozen.h"

namespace keel {
namespace {

NodeLabel copy_of(const NodeLabelPtr& label) { return label == nullptr ? NodeLabel{} : *label; }

NodeLabelPtr shared(NodeLabel label) {
  return label.empty() ? nullptr : std::make_shared<const NodeLabel>(std::move(label));
}

std::string joined(const std::string& outer, std::string_view inner) {
  if (outer.empty() || inner.empty()) return outer + std::string(inner);
  return outer + "/" + std::string(inner);
}

void require_path(std::string_view path, CallSite site) {
  require_label_text(path, "name scope", "name", site);
  const bool gap = path.empty() || path.front() == '/' || path.back() == '/' ||
                   path.find("//") != std::string_view::npos;
  if (!gap) return;
  throw Error({.op = "name scope",
               .argument = "name",
               .expected = "a name, or several joined by '/'",
               .got = "'" + std::string(path) + "'",
               .site = site});
}

NodeLabelPtr inside_path(const Graph& graph, std::string_view path, CallSite site) {
  require_path(path, site);
  return with_inner_scope(graph.label(), path);
}

void set_attribute(NodeLabel& label, std::string_view key, std::string_view value, bool replace) {
  const auto at =
      std::lower_bound(label.attributes.begin(), label.attributes.end(), key,
                       [](const auto& entry, std::string_view k) { return entry.first < k; });
  if (at == label.attributes.end() || at->first != key)
    label.attributes.emplace(at, key, value);
  else if (replace)
    at->second = value;
}

NodeLabelPtr with_attribute(const Graph& graph, std::string_view key, std::string_view value,
                            CallSite site) {
  require_label_text(key, "attribute scope", "key", site);
  require_label_text(value, "attribute scope", "value", site);
  if (key.empty()) {
    throw Error({.op = "attribute scope",
                 .argument = "key",
                 .expected = "a key",
                 .got = "an empty one",
                 .site = site});
  }
  NodeLabel label = copy_of(graph.label());
  set_attribute(label, key, value, true);
  return shared(std::move(label));
}

[[noreturn]] void refuse_name(const std::string& expected, const std::string& got,
                              const std::string& fix, CallSite site) {
  throw Error({.op = "named",
               .argument = "name",
               .expected = expected,
               .got = got,
               .fix = fix,
               .site = site});
}

}  // namespace

void require_label_text(std::string_view text, const char* op, const char* argument,
                        CallSite site) {
  if (printable(text) == text) return;
  throw Error({.op = op,
               .argument = argument,
               .expected = "UTF-8 text without control characters",
               .got = "'" + printable(text) + "'",
               .site = site});
}

LabelScope::LabelScope(Graph& graph, NodeLabelPtr label)
    : graph_(graph), outer_(graph.exchange_label(std::move(label))) {}

LabelScope::~LabelScope() { graph_.exchange_label(std::move(outer_)); }

NodeLabelPtr LabelScope::label_inside(const Node& node) {
  const NodeLabel& own = node.label();
  if (own.name.empty() && own.members.empty()) return node.shared_label();
  NodeLabel label{own.scope, {}, own.attributes, {}};
  if (!own.name.empty()) label.scope = joined(own.scope, own.name);
  return shared(std::move(label));
}

NameScope::NameScope(Graph& graph, std::string_view path, CallSite site)
    : scope_(graph, inside_path(graph, path, site)) {}

AttributeScope::AttributeScope(Graph& graph, std::string_view key, std::string_view value,
                               CallSite site)
    : scope_(graph, with_attribute(graph, key, value, site)) {}

Value named(Value value, std::string_view name, CallSite site) {
  Graph& graph = value.graph(site);
  const Node& node = value.node(site);
  require_label_text(name, "named", "name", site);
  if (name.empty() || name.find(':') != std::string_view::npos) {
    refuse_name("a name without ':', which stands before the number of an output",
                "'" + std::string(name) + "'", "", site);
  }
  if (graph.frozen()) refuse_frozen("named", site, "name its values before freeze()");
  if (node.is(OpRole::kInput) || node.is(OpRole::kState)) {
    refuse_name("the result of an op", described(value) + ", which has its name",
                "look it up by that", site);
  }
  NodeLabel label = node.label();
  if (label.name == name) return value;
  if (!label.name.empty()) {
    refuse_name("a value without a name", "'" + full_name(node) + "'" + made_at(value),
                "name the result of another op", site);
  }
  label.name = name;
  const std::string full = joined(label.scope, label.name);
  if (const Value taken = graph.find_named(full); taken.valid()) {
    refuse_name("a name that nothing else in the graph has",
                "'" + full + "', the name of " + taken.node().op_name() + made_at(taken),
                "choose another one, or open a NameScope", site);
  }
  graph.relabel(node, shared(std::move(label)));
  return value;
}

NodeLabelPtr with_outer_scope(const NodeLabelPtr& label, std::string_view scope) {
  NodeLabel result = copy_of(label);
  result.scope = joined(std::string(scope), result.scope);
  return shared(std::move(result));
}

NodeLabelPtr with_inner_scope(const NodeLabelPtr& label, std::string_view scope) {
  NodeLabel result = copy_of(label);
  result.scope = joined(result.scope, scope);
  return shared(std::move(result));
}

NodeLabelPtr label_within(const NodeLabelPtr& outer, const NodeLabelPtr& label) {
  if (outer == nullptr) return label;
  NodeLabel result = copy_of(label);
  result.scope = joined(outer->scope, result.scope);
  for (const auto& [key, value] : outer->attributes) set_attribute(result, key, value, false);
  return shared(std::move(result));
}

}  // namespace keel
