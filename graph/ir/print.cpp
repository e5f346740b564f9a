#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <variant>

#include "keel/core/tensor/convert.h"
#include "keel/graph/ir/text.h"

namespace keel {
namespace {

std::string quoted(const std::string& text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

template <class T>
std::string shortest(T value) {
  std::array<char, 40> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return std::string(text.data(), end);
}

// Only the default NaN is "nan"; others carry their bits.
template <class Bits>
std::string nan_text(Bits bits, Bits quiet) {
  if (bits == quiet) return "nan";
  std::array<char, 20> text{};
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), static_cast<uint64_t>(bits), 16).ptr;
  return "nan(0x" + std::string(text.data(), end) + ")";
}

std::string element_text(bool value) { return value ? "true" : "false"; }
std::string element_text(int64_t value) { return shortest(value); }
std::string element_text(int32_t value) { return shortest(value); }
std::string element_text(uint8_t value) { return shortest(static_cast<int32_t>(value)); }
std::string element_text(double value) {
  if (!std::isnan(value)) return shortest(value);
  return nan_text(std::bit_cast<uint64_t>(value), uint64_t{0x7ff8000000000000});
}
std::string element_text(float value) {
  if (!std::isnan(value)) return shortest(value);
  return nan_text(std::bit_cast<uint32_t>(value), uint32_t{0x7fc00000});
}
std::string element_text(Half value) {
  if (!std::isnan(static_cast<float>(value))) return shortest(static_cast<float>(value));
  return nan_text(value.bits, uint16_t{0x7e00});
}
std::string element_text(BFloat16 value) {
  if (!std::isnan(static_cast<float>(value))) return shortest(static_cast<float>(value));
  return nan_text(value.bits, uint16_t{0x7fc0});
}

class Printer {
 public:
  explicit Printer(PrintOptions options) : options_(options) {}

  std::string take() { return std::move(out_); }

  void graph(const Graph& graph) {
    out_ += "graph {\n";
    ++depth_;
    for (const Node& node : graph.nodes()) this->node(node);
    const auto print_section = [&](const char* name, const std::string& text) {
      if (text.empty()) return;
      indent();
      out_ += std::string(name) + " (" + text + ")\n";
    };
    print_section("inputs", input_order(graph));
    print_section("outputs", references(graph.outputs()));
    print_section("updates", updates(graph));
    print_section("attached", attached(graph));
    --depth_;
    indent();
    out_ += "}\n";
  }

 private:
  void indent() { out_.append(2 * static_cast<size_t>(depth_), ' '); }

  static std::string reference(const Value& value) {
    std::string text = "%" + std::to_string(value.node_id());
    if (value.output() != 0) text += "." + std::to_string(value.output());
    return text;
  }

  static std::string references(std::span<const Value> values) {
    std::string text;
    for (const Value& v : values) text += (text.empty() ? "" : ", ") + reference(v);
    return text;
  }

  // Empty where the inputs are in the order of their nodes.
  static std::string input_order(const Graph& graph) {
    for (size_t i = 1; i < graph.inputs().size(); ++i) {
      if (graph.inputs()[i].node_id() < graph.inputs()[i - 1].node_id()) {
        return references(graph.inputs());
      }
    }
    return "";
  }

  static std::string updates(const Graph& graph) {
    std::string text;
    for (const Assignment& a : graph.updates()) {
      text += (text.empty() ? "" : ", ") + reference(a.state) + " <- " + reference(a.next);
    }
    return text;
  }

  static std::string attached(const Graph& graph) {
    std::string text;
    for (const AttachedUpdate& a : graph.attached_updates()) {
      text += (text.empty() ? "" : ", ") + reference(a.output) + ": " + reference(a.state) +
              " <- " + reference(a.next);
      if (a.observed.valid()) text += " observing " + reference(a.observed);
    }
    return text;
  }

  void node(const Node& node) {
    indent();
    out_ += "%" + std::to_string(node.id()) + " = " + node.op_name() + "(" +
            references(node.inputs()) + ")";
    attributes(node);
    bodies(node);
    out_ += " : ";
    if (node.types().empty()) out_ += "none";
    list(node.types());
    if (options_.sites && node.site().known()) {
      out_ += " @ " + quoted(node.site().file) + ":" + std::to_string(node.site().line);
    }
    if (options_.labels && !node.label().empty()) out_ += " " + label_text(node.label());
    out_ += "\n";
  }

  static std::string label_text(const NodeLabel& label) {
    std::string text;
    const auto add = [&](const std::string& part) { text += (text.empty() ? "" : " ") + part; };
    if (!label.scope.empty()) add("in " + quoted(label.scope));
    if (!label.name.empty()) add("as " + quoted(label.name));
    std::string list;
    for (const auto& [key, value] : label.attributes)
      list += (list.empty() ? "" : ", ") + quoted(key) + "=" + quoted(value);
    if (!list.empty()) add("with {" + list + "}");
    list.clear();
    for (const NodeLabelPtr& member : label.members) {
      const bool none = member == nullptr || member->empty();
      list += (list.empty() ? "" : ", ") + (none ? "none" : label_text(*member));
    }
    if (!list.empty()) add("members [" + list + "]");
    return text;
  }

  void attributes(const Node& node) {
    if (node.attributes().empty()) return;
    const AttributeList all = node.attributes().list();
    const AttributeList defaults = node.attributes().schema()->parse({}).list();
    const char* separator = " {";
    for (size_t i = 0; i < all.size(); ++i) {
      if (attribute_equal(all[i].second, defaults[i].second)) continue;
      out_ += separator + all[i].first + "=";
      std::visit([&](const auto& v) { value(v); }, all[i].second);
      separator = ", ";
    }
    if (separator[0] == ',') out_ += "}";
  }

  void bodies(const Node& node) {
    if (node.bodies().empty()) return;
    out_ += " [\n";
    ++depth_;
    for (const auto& body : node.bodies()) {
      indent();
      graph(*body);
    }
    --depth_;
    indent();
    out_ += "]";
  }

  void value(bool v) { out_ += element_text(v); }
  void value(int64_t v) { out_ += element_text(v); }
  void value(double v) { out_ += element_text(v); }
  void value(const std::string& v) { out_ += quoted(v); }
  void value(DType v) { out_ += name_of(v); }
  void value(const Shape& v) { out_ += to_string(v); }
  void value(const Type& v) { out_ += to_string(v); }
  void value(const Tensor& v) {
    if (v.empty()) {
      out_ += "none";
      return;
    }
    out_ += to_string(v.type()) + "(";
    const bool all =
        options_.max_tensor_elements < 0 || v.num_elements() <= options_.max_tensor_elements;
    const auto count = static_cast<size_t>(all ? v.num_elements() : options_.max_tensor_elements);
    visit_dtype(v.dtype(), [&]<class T>() {
      const auto data = v.data<T>();
      for (size_t i = 0; i < count; ++i) {
        if (i != 0) out_ += ", ";
        out_ += element_text(data[i]);
      }
    });
    if (!all) out_ += count == 0 ? "..." : ", ...";
    out_ += ")";
  }
  template <class T>
  void value(const std::vector<T>& v) {
    out_ += "[";
    list(v);
    out_ += "]";
  }
  template <class List>
  void list(const List& v) {
    for (size_t i = 0; i < v.size(); ++i) {
      if (i != 0) out_ += ", ";
      value(v[i]);
    }
  }

  PrintOptions options_;
  std::string out_;
  int depth_ = 0;
};

}  // namespace

std::string print_graph(const Graph& graph, PrintOptions options) {
  Printer printer(options);
  printer.graph(graph);
  return printer.take();
}

}  // namespace keel
