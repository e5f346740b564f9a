#include "keel/graph/ir/attributes.h"

#include <bit>
#include <cstdlib>
#include <cxxabi.h>
#include <functional>
#include <string_view>
#include <type_traits>
#include <utility>

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

template <class T>
bool equal_one(const T& x, const T& y) {
  if constexpr (std::is_same_v<T, Tensor>)
    return bit_equal(x, y);
  else if constexpr (std::is_same_v<T, double>)
    return hash_one(x) == hash_one(y);  // by bits: NaN, -0
  else
    return x == y;
}

// Calls `visit` with a tag of the type that is alternative `kind` of AttributeValue. Members are
// then read where they lie in their struct: passes hash and compare attributes of every node, and
// a list of them would be copied each time.
template <class Visit, size_t... kKinds>
auto with_kind(size_t kind, std::index_sequence<kKinds...>, const Visit& visit) {
  decltype(visit(std::type_identity<bool>())) result{};
  static_cast<void>(
      ((kind == kKinds &&
        (result = visit(std::type_identity<std::variant_alternative_t<kKinds, AttributeValue>>()),
         true)) ||
       ...));
  return result;
}

constexpr std::make_index_sequence<std::variant_size_v<AttributeValue>> kAllKinds;

template <class T>
const T& member_at(const void* attributes, size_t offset) {
  return *reinterpret_cast<const T*>(static_cast<const char*>(attributes) + offset);
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
      [&](const auto& x) { return equal_one(x, std::get<std::decay_t<decltype(x)>>(b)); }, a);
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
  for (const auto& place : schema_->places) {
    const bool equal = with_kind(place.kind, kAllKinds, [&](auto tag) {
      using T = typename decltype(tag)::type;
      return equal_one(member_at<T>(data_.get(), place.offset),
                       member_at<T>(other.data_.get(), place.offset));
    });
    if (!equal) return false;
  }
  return true;
}

size_t Attributes::hash() const {
  size_t h = 17;
  if (empty()) return h;
  for (const auto& place : schema_->places) {
    h = mix(h, with_kind(place.kind, kAllKinds, [&](auto tag) {
              return hash_one(member_at<typename decltype(tag)::type>(data_.get(), place.offset));
            }));
  }
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
