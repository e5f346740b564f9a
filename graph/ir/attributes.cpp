#include "keel/graph/ir/attributes.h"

#include <bit>
#include <cstdlib>
#include <cxxabi.h>
#include <functional>
#include <string_view>

namespace keel {
namespace {

size_t mix(size_t h, size_t v) { return (h ^ v) * 0x9e3779b97f4a7c15ull + (h >> 29); }

size_t hash_one(bool v) { return v ? 1 : 2; }
size_t hash_one(int64_t v) { return static_cast<size_t>(v); }
size_t hash_one(double v) { return std::bit_cast<size_t>(v); }
size_t hash_one(DType v) { return static_cast<size_t>(v); }
size_t hash_one(const std::string& v) { return std::hash<std::string>()(v); }
size_t hash_one(const Shape& v) {
  size_t h = v.rank();
  for (const int64_t d : v) h = mix(h, static_cast<size_t>(d));
  return h;
}
size_t hash_one(const Type& v) { return mix(hash_one(v.dtype), hash_one(v.shape)); }
size_t hash_one(const Tensor& v) {
  if (v.empty()) return 0;
  const std::string_view bytes(static_cast<const char*>(v.raw()), v.num_bytes());
  return mix(hash_one(v.type()), std::hash<std::string_view>()(bytes));
}
template <class T>
size_t hash_one(const std::vector<T>& v) {
  size_t h = v.size();
  for (const T& e : v) h = mix(h, hash_one(e));
  return h;
}

// "keel::MatmulAttributes {transpose_a, transpose_b}".
std::string struct_in_words(const AttributesSchema& schema) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(schema.type.c_str(), nullptr, nullptr, &status), &std::free);
  std::string text = (status == 0 ? std::string(name.get()) : schema.type) + " {";
  for (const std::string& field : schema.names) text += (text.back() == '{' ? "" : ", ") + field;
  return text + "}";
}

}  // namespace

bool attribute_equal(const AttributeValue& a, const AttributeValue& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&](const auto& x) {
        using T = std::decay_t<decltype(x)>;
        const T& y = std::get<T>(b);
        if constexpr (std::is_same_v<T, Tensor>)
          return bit_equal(x, y);
        else if constexpr (std::is_same_v<T, double>)
          return hash_one(x) == hash_one(y);  // by bits: NaN, -0
        else
          return x == y;
      },
      a);
}

size_t attribute_hash(const AttributeValue& value) {
  return std::visit([](const auto& v) { return hash_one(v); }, value);
}

const char* attribute_kind(const AttributeValue& value) {
  static constexpr const char* kKinds[] = {
      "bool",         "integer",     "number",          "string",        "dtype", "shape",
      "integer list", "number list", "list of strings", "list of types", "tensor"};
  return kKinds[value.index()];
}

bool same_struct(const AttributesSchema* a, const AttributesSchema* b) noexcept {
  if (a == b) return true;
  if (a == nullptr || b == nullptr) return false;
  return a->size == b->size && a->type == b->type && a->names == b->names && a->places == b->places;
}

void Attributes::refuse(const AttributesSchema& wanted) const {
  throw Error({.op = "attributes",
               .expected = struct_in_words(wanted),
               .got = empty() ? "none" : struct_in_words(*schema_),
               .fix = "ask for the attributes that the op has (Node::op names it)"});
}

bool Attributes::operator==(const Attributes& other) const {
  if (!same_struct(schema_, other.schema_)) return false;
  if (data_ == other.data_) return true;
  const AttributeList a = list();
  const AttributeList b = other.list();
  for (size_t i = 0; i < a.size(); ++i) {
    if (!attribute_equal(a[i].second, b[i].second)) return false;
  }
  return true;
}

size_t Attributes::hash() const {
  size_t h = 17;
  for (const auto& [name, value] : list()) h = mix(h, attribute_hash(value));
  return h;
}

void assign_attribute_failed(const std::string& name, const AttributeValue& got) {
  throw Error({.op = "attributes",
               .argument = name,
               .got = attribute_kind(got),
               .message = "is of the wrong kind"});
}

void unknown_attribute(const std::string& name, const std::vector<std::string>& known) {
  std::string choices;
  for (const std::string& k : known) choices += (choices.empty() ? "" : " ") + k;
  throw Error({.op = "attributes", .argument = name, .expected = "one of " + choices, .got = name});
}

}  // namespace keel
