// Attributes: an op's compile-time parameters: one plain struct per op with a
// static fields() list, from which equality, hash, printing and parsing derive.
// Immutable and shared; any thread.
//
//   struct SumAttributes {
//     std::vector<int64_t> axes;
//     bool keepdims = false;
//     static constexpr auto fields() {
//       return std::tuple(field("axes", &SumAttributes::axes),
//       field("keepdims", &SumAttributes::keepdims));
//     }
//   };
#ifndef KEEL_GRAPH_IR_ATTRIBUTES_H
#define KEEL_GRAPH_IR_ATTRIBUTES_H

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "keel/core/base/dtype.h"
#include "keel/core/base/error.h"
#include "keel/core/base/export.h"
#include "keel/core/base/shape.h"
#include "keel/core/tensor/tensor.h"

namespace keel {

// Every member of an attribute struct has one of these types (ints as int64_t,
// reals as double).
using AttributeValue =
    std::variant<bool, int64_t, double, std::string, DType, Shape, std::vector<int64_t>,
                 std::vector<double>, std::vector<std::string>, std::vector<Type>, Tensor>;

KEEL_API bool attribute_equal(const AttributeValue& a, const AttributeValue& b);
KEEL_API size_t attribute_hash(const AttributeValue& value);
// "bool", "integer", ... for messages.
KEEL_API const char* attribute_kind(const AttributeValue& value);

using AttributeList = std::vector<std::pair<std::string, AttributeValue>>;

template <class S, class M>
struct AttributeField {
  const char* name;
  M S::*member;
};
template <class S, class M>
constexpr AttributeField<S, M> field(const char* name, M S::*member) {
  return {name, member};
}

class Attributes;

// What is known of an attribute struct at run time; one object for each struct.
struct AttributesSchema {
  std::vector<std::string> names;
  AttributeList (*list)(const void* attributes);
  // Throws Error for an unknown or repeated name or a value of the wrong kind;
  // names left out keep their defaults.
  Attributes (*parse)(const AttributeList& list);
};

template <class S>
const AttributesSchema& attributes_schema();

class KEEL_API Attributes {
 public:
  Attributes() = default;  // none

  template <class S>
  static Attributes of(S attributes) {
    return Attributes(&attributes_schema<S>(), std::make_shared<const S>(std::move(attributes)));
  }
  // REQUIRES that these are S; throws Error otherwise.
  template <class S>
  const S& as() const {
    if (schema_ != &attributes_schema<S>()) throw Error("attributes of another op were asked for");
    return *static_cast<const S*>(data_.get());
  }
  bool empty() const noexcept { return schema_ == nullptr; }
  const AttributesSchema* schema() const noexcept { return schema_; }
  AttributeList list() const { return empty() ? AttributeList{} : schema_->list(data_.get()); }
  bool operator==(const Attributes& other) const;
  size_t hash() const;

 private:
  Attributes(const AttributesSchema* schema, std::shared_ptr<const void> data)
      : schema_(schema), data_(std::move(data)) {}
  const AttributesSchema* schema_ = nullptr;
  std::shared_ptr<const void> data_;
};

KEEL_API void assign_attribute_failed(const std::string& name, const AttributeValue& got);
KEEL_API void unknown_attribute(const std::string& name, const std::vector<std::string>& known);

template <class S>
const AttributesSchema& attributes_schema() {
  static const AttributesSchema schema = [] {
    AttributesSchema s;
    std::apply([&](auto... f) { (s.names.emplace_back(f.name), ...); }, S::fields());
    s.list = [](const void* p) {
      const S& attributes = *static_cast<const S*>(p);
      AttributeList out;
      std::apply([&](auto... f) { (out.emplace_back(f.name, attributes.*(f.member)), ...); },
                 S::fields());
      return out;
    };
    s.parse = [](const AttributeList& list) {
      S attributes{};
      for (const auto& entry : list) {
        const auto& name = entry.first;  // no structured binding: clang 14 cannot capture one
        const auto& value = entry.second;
        bool known = false;
        auto assign = [&](auto f) {
          if (name != f.name) return;
          known = true;
          using M = std::remove_reference_t<decltype(attributes.*(f.member))>;
          if (const M* v = std::get_if<M>(&value))
            attributes.*(f.member) = *v;
          else
            assign_attribute_failed(name, value);
        };
        std::apply([&](auto... f) { (assign(f), ...); }, S::fields());
        if (!known) unknown_attribute(name, attributes_schema<S>().names);
      }
      return Attributes::of(std::move(attributes));
    };
    return s;
  }();
  return schema;
}

}  // namespace keel

#endif  // KEEL_GRAPH_IR_ATTRIBUTES_H
