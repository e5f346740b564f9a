#include <algorithm>
#include <bit>
#include <charconv>
#include <limits>
#include <optional>
#include <span>
#include <system_error>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "keel/core/base/checked.h"
#include "keel/core/tensor/convert.h"
#include "keel/graph/ir/lexer.h"
#include "keel/graph/ir/scopes.h"
#include "keel/graph/ir/text.h"
#include "keel/graph/ir/verify.h"

namespace keel {
namespace {

constexpr const char* kPrintWhole = "print the graph without a limit on elements";

// Values of attributes and types. Which kind of value is expected is known from the op.
class ValueParser {
 public:
  explicit ValueParser(Lexer& lexer) : lexer_(lexer) {}

  // Returns a value of the kind that `like` has.
  AttributeValue parse(const AttributeValue& like);

  Type type() {
    const Token name = lexer_.expect(TokenKind::kName, "a type such as f32[2, ?]");
    const DType d = dtype(name);
    return {d, shape()};
  }

  int64_t positive(const char* what) {
    const Token at = lexer_.peek();
    const auto v = number<int32_t>(what);
    if (v < 1) lexer_.fail(at, what);
    return v;
  }

 private:
  template <class T>
  struct Tag {};

  template <class T>
  T value() {
    if constexpr (std::is_same_v<T, std::string>) {
      return lexer_.expect(TokenKind::kString, "a string in quotes").string;
    } else if constexpr (std::is_same_v<T, DType>) {
      return dtype(lexer_.expect(TokenKind::kName, "a dtype"));
    } else if constexpr (std::is_same_v<T, Shape>) {
      return shape();
    } else if constexpr (std::is_same_v<T, Type>) {
      return type();
    } else if constexpr (std::is_same_v<T, Tensor>) {
      return tensor_or_none();
    } else if constexpr (std::is_arithmetic_v<T>) {
      return element(Tag<T>());
    } else {
      return list<typename T::value_type>();
    }
  }

  template <class T>
  std::vector<T> list() {
    std::vector<T> items;
    lexer_.expect("[");
    if (lexer_.accept("]")) return items;
    do items.push_back(value<T>());
    while (lexer_.accept(","));
    lexer_.expect("]");
    return items;
  }

  Tensor tensor_or_none() {
    if (lexer_.accept("none")) return {};
    const Token at = lexer_.peek();
    return tensor(at, type());
  }

  DType dtype(const Token& name) {
    try {
      return parse_dtype(name.text);
    } catch (const Error& error) {
      lexer_.fail_because(name, error);
    }
  }

  Shape shape() {
    Shape shape;
    lexer_.expect("[");
    if (lexer_.accept("]")) return shape;
    do {
      const Token at = lexer_.peek();
      const int64_t dim = lexer_.accept("?") ? kUnknownDim : number<int64_t>("a dimension or ?");
      if (at.text != "?" && dim < 0) lexer_.fail(at, "a dimension of at least 0, or ?");
      if (shape.rank() == Shape::kMaxRank) {
        lexer_.fail(at, "at most " + std::to_string(Shape::kMaxRank) + " dimensions");
      }
      shape.push_back(dim);
    } while (lexer_.accept(","));
    lexer_.expect("]");
    return shape;
  }

  Tensor tensor(const Token& at, const Type& type) {
    if (size_of(type.dtype) == 0 || !type.shape.known()) {
      lexer_.fail(at, "a dtype of tensors and known dimensions");
    }
    int64_t count = 0;
    try {
      count = type.shape.num_elements();
    } catch (const Error& error) {
      lexer_.fail_because(at, error);
    }
    lexer_.expect("(");
    // Each element takes a character at least: no text makes us allocate more than it holds.
    if (static_cast<uint64_t>(count) > lexer_.rest()) {
      lexer_.fail(at, "a constant whose elements the text can hold", kPrintWhole);
    }
    Tensor t(type.dtype, type.shape);
    visit_dtype(type.dtype, [&]<class T>() {
      bool first = true;
      for (T& e : t.data<T>()) {
        if (!first) lexer_.expect(",");
        first = false;
        if (lexer_.next_is("...")) abbreviated();
        e = element(Tag<T>());
      }
    });
    if (lexer_.next_is("...")) abbreviated();
    lexer_.expect(")");
    return t;
  }

  [[noreturn]] void abbreviated() {
    lexer_.fail(lexer_.peek(), "all elements of the constant", kPrintWhole);
  }

  bool element(Tag<bool>) {
    if (lexer_.accept("true")) return true;
    if (!lexer_.next_is("false")) lexer_.fail(lexer_.peek(), "true or false");
    lexer_.take();
    return false;
  }
  template <class T>
  requires(std::is_integral_v<T>) T element(Tag<T>) {
    return number<T>(dtype_of<T> == u8 ? "an integer from 0 to 255" : "an integer that fits");
  }
  double element(Tag<double>) { return real<double, uint64_t>(); }
  float element(Tag<float>) { return real<float, uint32_t>(); }
  Half element(Tag<Half>) { return half<Half>(); }
  BFloat16 element(Tag<BFloat16>) { return half<BFloat16>(); }

  template <class H>
  H half() {
    if (!lexer_.next_is("nan")) return H(finite_or_infinite<float>());
    const std::optional<uint16_t> bits = nan_bits<uint16_t>();
    return bits ? H::from_bits(*bits) : H(std::numeric_limits<float>::quiet_NaN());
  }

  template <class F, class Bits>
  F real() {
    if (!lexer_.next_is("nan")) return finite_or_infinite<F>();
    const std::optional<Bits> bits = nan_bits<Bits>();
    return bits ? std::bit_cast<F>(*bits) : std::numeric_limits<F>::quiet_NaN();
  }

  // Takes nan, the default NaN, or nan(0x7fc00001), another one.
  template <class Bits>
  std::optional<Bits> nan_bits() {
    lexer_.expect("nan");
    if (!lexer_.accept("(")) return std::nullopt;
    static constexpr const char* kExpected = "the bits of a NaN, 0x...";
    const Token hex = lexer_.expect(TokenKind::kNumber, kExpected);
    const std::string_view digits = hex.text.substr(hex.text.substr(0, 2) == "0x" ? 2 : 0);
    const char* const end = digits.data() + digits.size();
    Bits bits = 0;
    const auto result = std::from_chars(digits.data(), end, bits, 16);
    if (result.ec != std::errc() || result.ptr != end) lexer_.fail(hex, kExpected);
    lexer_.expect(")");
    return bits;
  }

  template <class F>
  F finite_or_infinite() {
    if (lexer_.accept("inf")) return std::numeric_limits<F>::infinity();
    if (lexer_.peek().text == "-inf") {
      lexer_.take();
      return -std::numeric_limits<F>::infinity();
    }
    return number<F>("a number");
  }

  template <class T>
  T number(const char* what) {
    const Token token = lexer_.expect(TokenKind::kNumber, what);
    T value{};
    const char* const end = token.text.data() + token.text.size();
    const auto result = std::from_chars(token.text.data(), end, value);
    if (result.ec != std::errc() || result.ptr != end) lexer_.fail(token, what);
    return value;
  }

  Lexer& lexer_;
};

// It stands behind the class because clang 14 does not instantiate its templates from a lambda
// inside it.
AttributeValue ValueParser::parse(const AttributeValue& like) {
  return std::visit([&]<class T>(const T&) -> AttributeValue { return value<T>(); }, like);
}

class Parser {
 public:
  Parser(std::string_view text, const OpTable& ops, const ParseOptions& options)
      : lexer_(text), values_(lexer_), ops_(ops), most_state_bytes_(options.max_state_bytes) {
    constexpr int64_t kAlways = int64_t{256} << 20;
    if (most_state_bytes_ == 0)
      most_state_bytes_ = std::max(kAlways, static_cast<int64_t>(text.size()));
  }

  std::unique_ptr<Graph> run() {
    auto graph = std::make_unique<Graph>(ops_);
    parse_into(*graph, 0);
    graph->skip_salts(last_salt_);
    if (lexer_.peek().kind != TokenKind::kEnd) lexer_.fail(lexer_.peek(), "the end of the text");
    return graph;
  }

 private:
  // The outputs of a graph's nodes by the number they were written with.
  using Scope = std::unordered_map<uint32_t, Values>;

  void parse_into(Graph& graph, int nesting) {
    const Token start = lexer_.peek();
    if (nesting > kMaxNesting) {
      lexer_.fail(start, "bodies nested at most " + std::to_string(kMaxNesting) + " deep");
    }
    lexer_.expect("graph");
    lexer_.expect("{");
    Scope scope;
    while (lexer_.peek().kind == TokenKind::kReference) node(graph, scope, nesting);
    if (lexer_.next_is("inputs")) {
      const Token at = lexer_.take();
      checked(at, [&] { graph.order_inputs(references(scope)); });
    }
    if (lexer_.next_is("outputs")) {
      const Token at = lexer_.take();
      checked(at, [&] { graph.set_outputs(references(scope), CallSite()); });
    }
    if (lexer_.accept("updates")) {
      list([&] {
        const Token at = lexer_.peek();
        const Value state = reference(scope);
        lexer_.expect("<-");
        const Value next = reference(scope);
        checked(at, [&] { graph.add_update(state, next, CallSite()); });
      });
    }
    if (lexer_.accept("attached")) {
      list([&] {
        const Value output = reference(scope);
        lexer_.expect(":");
        const Value state = reference(scope);
        lexer_.expect("<-");
        const Value next = reference(scope);
        if (lexer_.accept("observing"))
          graph.attach_update(output, state, next, reference(scope));
        else
          graph.attach_update(output, state, next);
      });
    }
    if (!lexer_.next_is("}")) {
      lexer_.fail(lexer_.peek(),
                  "a node, inputs, outputs, updates, attached (in this order) or '}'");
    }
    lexer_.take();
    checked(start, [&] { verify_signature(graph); });
  }

  void node(Graph& graph, Scope& scope, int nesting) {
    const Token start = lexer_.take();
    if (start.text.find('.') != std::string_view::npos || scope.contains(start.node)) {
      lexer_.fail(start, "a new node such as %3");
    }
    lexer_.expect("=");
    const Token name = lexer_.expect(TokenKind::kName, "the name of an op");
    const OpDef* op = nullptr;
    checked(name, [&] { op = &ops_.at(name.text); });
    Values inputs = references(scope);
    Attributes attributes = this->attributes(*op);
    std::vector<std::shared_ptr<Graph>> bodies;
    if (lexer_.accept("[")) {
      while (!lexer_.accept("]")) {
        bodies.push_back(std::make_shared<Graph>(ops_));
        parse_into(*bodies.back(), nesting + 1);
      }
    }
    const std::vector<Type> types = this->types();
    const CallSite site = this->site();
    const Token at = lexer_.peek();
    NodeLabel label = this->label();
    if (lexer_.accept("members")) label.members = members();
    const Node* added = nullptr;
    checked(start, [&] {
      added = &graph.add(*op, std::move(inputs), std::move(attributes), site, std::move(bodies));
    });
    if (!label.members.empty()) require_members(at, *added, label.members.size());
    if (!label.empty()) graph.relabel(*added, std::make_shared<const NodeLabel>(std::move(label)));
    if (added->types() != types) {
      lexer_.fail_because(start, Error({.op = op->name,
                                        .argument = "types",
                                        .expected = joined(added->types()),
                                        .got = joined(types),
                                        .fix = "write the types that inference gives"}));
    }
    if (added->is(OpRole::kState)) checked(start, [&] { count_state(*added); });
    note_salts(*added);
    Values& outputs = scope[start.node];
    for (size_t i = 0; i < types.size(); ++i) outputs.push_back(added->output(i));
  }

  // A few characters ask for any number of elements.
  void count_state(const Node& state) {
    const Type& type = state.type();
    state_bytes_ =
        checked_add(state_bytes_, static_cast<int64_t>(type.shape.num_bytes(type.dtype)), "states");
    if (state_bytes_ <= most_state_bytes_) return;
    throw Error(
        {.op = "state",
         .argument = name_of(state),
         .expected = "states of at most " + std::to_string(most_state_bytes_) + " bytes together",
         .got = std::to_string(state_bytes_),
         .fix = "where the text can be trusted, raise ParseOptions::max_state_bytes"});
  }

  Attributes attributes(const OpDef& op) {
    if (!lexer_.next_is("{")) return {};
    const Token start = lexer_.take();
    if (op.attributes == nullptr) lexer_.fail(start, "no attributes, " + op.name + " has none");
    const AttributeList defaults = op.attributes->parse({}).list();
    AttributeList given;
    do {
      const Token name = lexer_.expect(TokenKind::kName, "the name of an attribute");
      const auto same = [&](const auto& entry) { return entry.first == name.text; };
      const auto known = std::find_if(defaults.begin(), defaults.end(), same);
      if (known == defaults.end()) {
        checked(name, [&] { unknown_attribute(std::string(name.text), op.attributes->names); });
      }
      if (std::any_of(given.begin(), given.end(), same)) {
        lexer_.fail(name, "each attribute once");
      }
      lexer_.expect("=");
      given.emplace_back(known->first, values_.parse(known->second));
    } while (lexer_.accept(","));
    lexer_.expect("}");
    Attributes parsed;
    checked(start, [&] { parsed = op.attributes->parse(given); });
    return parsed;
  }

  std::vector<Type> types() {
    lexer_.expect(":");
    std::vector<Type> types;
    if (lexer_.accept("none")) return types;
    do types.push_back(values_.type());
    while (lexer_.accept(","));
    return types;
  }

  CallSite site() {
    if (!lexer_.accept("@")) return {};
    const std::string file = lexer_.expect(TokenKind::kString, "a file name in quotes").string;
    lexer_.expect(":");
    const auto line = static_cast<int>(values_.positive("a line number"));
    return {intern_file(file), line};
  }

  // Names for people: the label of a node, but for its members.
  NodeLabel label() {
    NodeLabel label;
    if (lexer_.accept("in")) label.scope = label_text("a scope in quotes");
    if (lexer_.accept("as")) label.name = label_text("a name in quotes");
    if (!lexer_.accept("with")) return label;
    lexer_.expect("{");
    do {
      const Token at = lexer_.peek();
      std::string key = label_text("a key in quotes");
      if (!label.attributes.empty() && !(label.attributes.back().first < key))
        lexer_.fail(at, "keys in their order, each once");
      lexer_.expect("=");
      label.attributes.emplace_back(std::move(key), label_text("a value in quotes"));
    } while (lexer_.accept(","));
    lexer_.expect("}");
    return label;
  }

  std::vector<NodeLabelPtr> members() {
    std::vector<NodeLabelPtr> members;
    lexer_.expect("[");
    do {
      if (lexer_.accept("none"))
        members.emplace_back();
      else
        members.push_back(std::make_shared<const NodeLabel>(label()));
    } while (lexer_.accept(","));
    lexer_.expect("]");
    return members;
  }

  // Keys of random ops are folded from others and a number that was fixed when they were built:
  // what is built behind the text takes numbers of its own.
  void note_salts(const Node& node) {
    if (!node.has(kRandom)) return;
    for (const Value& input : node.inputs()) {
      if (!input.node().is(OpRole::kConstant) || input.type() != Type{i64, {}}) continue;
      const auto salt = input.node().as<ConstantAttributes>().value.item<int64_t>();
      if (salt < kMostSalt) last_salt_ = std::max(last_salt_, salt);
    }
  }

  void require_members(const Token& at, const Node& node, size_t count) const {
    const size_t nodes = node.bodies().size() == 1 ? node.bodies()[0]->size() : 0;
    if (nodes != count) {
      lexer_.fail(at, std::to_string(nodes) + " members, one for each node of the body");
    }
  }

  std::string label_text(const char* what) {
    const Token token = lexer_.expect(TokenKind::kString, what);
    checked(token, [&] { require_label_text(token.string, "label", what, {}); });
    return token.string;
  }

  Value reference(const Scope& scope) {
    const Token token = lexer_.expect(TokenKind::kReference, "a value such as %3 or %3.1");
    const auto it = scope.find(token.node);
    if (it == scope.end()) lexer_.fail(token, "a value of a node written before, in this graph");
    if (token.output >= it->second.size()) {
      lexer_.fail(token, "one of the node's " + std::to_string(it->second.size()) + " outputs");
    }
    return it->second[token.output];
  }

  Values references(const Scope& scope) {
    Values values;
    list([&] { values.push_back(reference(scope)); });
    return values;
  }

  // "(" items separated by commas ")".
  template <class F>
  void list(F item) {
    lexer_.expect("(");
    if (lexer_.accept(")")) return;
    do item();
    while (lexer_.accept(","));
    lexer_.expect(")");
  }

  // Runs what knows nothing of the text; its errors get the place of `at`.
  template <class F>
  void checked(const Token& at, F run) {
    try {
      run();
    } catch (const Error& error) {
      if (error.info().op == "graph text") throw;
      lexer_.fail_because(at, error);
    }
  }

  static std::string joined(std::span<const Type> types) {
    std::string text;
    for (const Type& t : types) text += (text.empty() ? "" : ", ") + to_string(t);
    return text.empty() ? "none" : text;
  }

  Lexer lexer_;
  ValueParser values_;
  const OpTable& ops_;
  // A larger number was no count of random ops.
  static constexpr int64_t kMostSalt = int64_t{1} << 62;

  int64_t most_state_bytes_;
  int64_t state_bytes_ = 0;
  int64_t last_salt_ = -1;
};

}  // namespace

std::unique_ptr<Graph> parse_graph(std::string_view text, const OpTable& ops,
                                   const ParseOptions& options) {
  return Parser(text, ops, options).run();
}

}  // namespace keel
