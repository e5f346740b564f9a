#include <string>

#include "keel/core/base/printable.h"
#include "keel/graph/ir/fused_body.h"
#include "keel/graph/ir/text.h"

namespace keel {
namespace {

// Between the quotes of a label.
std::string escaped(const std::string& text) {
  constexpr size_t kMostOfLabel = 1000;
  std::string out;
  for (const char c : printable(text, kMostOfLabel)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

class DotWriter {
 public:
  std::string run(const Graph& graph) {
    out_ = "digraph keel {\n  node [shape=box, fontname=\"monospace\"];\n";
    write(graph, "n");
    return out_ + "}\n";
  }

 private:
  // `prefix` keeps the names of nodes of different bodies apart.
  void write(const Graph& graph, const std::string& prefix) {
    for (const Node& node : graph.nodes()) write_node(node, prefix);
    size_t index = 0;
    for (const Value& v : graph.outputs()) {
      const std::string name = prefix + "out" + std::to_string(index++);
      line(name + " [label=\"output\", shape=plaintext];");
      edge(v, prefix, name, "");
    }
    for (const Assignment& a : graph.updates()) {
      edge(a.next, prefix, node_name(prefix, a.state), " [style=bold, constraint=false]");
    }
  }

  void write_node(const Node& node, const std::string& prefix) {
    const std::string name = prefix + std::to_string(node.id());
    line(name + " [label=\"" + escaped(label(node)) + "\"" +
         (node.has(kSource) ? ", style=rounded" : "") + "];");
    for (const Value& v : node.inputs()) edge(v, prefix, name, "");
    for (size_t b = 0; b < node.bodies().size(); ++b) {
      write_body(node, prefix, name + "b" + std::to_string(b) + "n", b);
    }
  }

  void write_body(const Node& node, const std::string& prefix, const std::string& inner,
                  size_t index) {
    const Graph& body = *node.bodies()[index];
    line("subgraph cluster_" + inner + " {");
    line("label=\"" + escaped(node.op_name()) + " body " + std::to_string(index) + "\";");
    write(body, inner);
    line("}");
    // A node's last inputs are those of its bodies (a condition's predicate comes before them).
    const Values& inputs = body.inputs();
    const size_t given = node.data_inputs().size();
    if (inputs.size() > given) return;
    const size_t first = given - inputs.size();
    for (size_t i = 0; i < inputs.size(); ++i) {
      edge(node.input(first + i), prefix, node_name(inner, inputs[i]), " [style=dashed]");
    }
  }

  static std::string label(const Node& node) {
    std::string text = "%" + std::to_string(node.id()) + " " + node.op_name();
    if (node.is(OpRole::kInput) || node.is(OpRole::kState)) text += " " + name_of(node);
    for (const Type& t : node.types()) text += " " + to_string(t);
    if (!node.label().scope.empty() || !node.label().name.empty() || is_fused_node(node))
      text += " " + display_name(node);
    return text;
  }

  static std::string node_name(const std::string& prefix, const Value& v) {
    return prefix + std::to_string(v.node_id());
  }

  void edge(const Value& from, const std::string& prefix, const std::string& to,
            const std::string& style) {
    line(node_name(prefix, from) + " -> " + to + style + ";");
  }

  void line(const std::string& text) { out_ += "  " + text + "\n"; }

  std::string out_;
};

}  // namespace

std::string to_dot(const Graph& graph) { return DotWriter().run(graph); }

}  // namespace keel
