// Attributes: an op's compile-time parameters: one plain struct per op, whose static function
// fields shows each member with its name to a visitor; equality, hash, printing and parsing derive
// from it. Immutable and shared; any thread.
//
//   struct SumAttributes {
//     std::vector<int64_t> axes;
//     bool keepdims = false;
//     static void fields(auto&& visit) {
//       visit("axes", &SumAttributes::axes);
//       visit("keepdims", &SumAttributes::keepdims);
//     }
//   };
#ifndef KEEL_GRAPH_IR_ATTRIBUTES_H
#define KEEL_GRAPH_IR_ATTRIBUTES_H

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <typeinfo>
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
// "bool", "integer", ... for messages.
KEEL_API const char* attribute_kind(const AttributeValue& value);

using AttributeList = std::vector<std::pair<std::string, AttributeValue>>;

class Attributes;

// Describes what is known of an attribute struct at run time. A program, the shared library and
// each plugin have an object of their own for the same struct, so schemas are compared by what they
// say of it (same_struct), never by their addresses.
struct AttributesSchema {
  // Says where a member lies in the struct, and which alternative of AttributeValue it is.
  struct Place {
    size_t offset;
    size_t kind;
    bool operator==(const Place&) const = default;
  };
  std::string type;  // the struct's name, as typeid gives it
  size_t size = 0;   // in bytes
  std::vector<std::string> names;
  std::vector<Place> places;  // by name
  AttributeList (*list)(const void* attributes);
  // Throws Error for an unknown or repeated name or a value of the wrong kind;
  // names left out keep their defaults.
  Attributes (*parse)(const AttributeList& list);
};

template <class S>
const AttributesSchema& attributes_schema();

// Returns whether both are of one struct with one layout, so that what one module made another may
// read. Two null pointers are.
KEEL_API bool same_struct(const AttributesSchema* a, const AttributesSchema* b) noexcept;

class KEEL_API Attributes {
 public:
  Attributes() = default;  // none

  template <class S>
  static Attributes of(S attributes) {
    return Attributes(&attributes_schema<S>(), std::make_shared<const S>(std::move(attributes)));
  }
  // Throws Error unless these are S; which module made them does not matter.
  template <class S>
  const S& as() const {
    const AttributesSchema* wanted = &attributes_schema<S>();
    if (schema_ != wanted && !same_struct(schema_, wanted)) refuse(*wanted);
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
  [[noreturn]] void refuse(const AttributesSchema& wanted) const;
  const AttributesSchema* schema_ = nullptr;
  std::shared_ptr<const void> data_;
};

KEEL_API void assign_attribute_failed(const std::string& name, const AttributeValue& got);
KEEL_API void unknown_attribute(const std::string& name, const std::vector<std::string>& known);

template <class S>
const AttributesSchema& attributes_schema() {
  static const AttributesSchema schema = [] {
    AttributesSchema s;
    s.type = typeid(S).name();
    s.size = sizeof(S);
    const S like{};
    S::fields([&](const char* name, auto member) {
      const auto& value = like.*member;
      const auto* start = reinterpret_cast<const char*>(&like);
      s.names.emplace_back(name);
      s.places.push_back({static_cast<size_t>(reinterpret_cast<const char*>(&value) - start),
                          AttributeValue(value).index()});
    });
    s.list = [](const void* p) {
      const S& attributes = *static_cast<const S*>(p);
      AttributeList out;
      S::fields([&](const char* name, auto member) { out.emplace_back(name, attributes.*member); });
      return out;
    };
    s.parse = [](const AttributeList& list) {
      S attributes{};
      for (const auto& entry : list) {
        const auto& name = entry.first;  // no structured binding: clang 14 cannot capture one
        const auto& value = entry.second;
        bool known = false;
        S::fields([&](const char* field, auto member) {
          if (name != field) return;
          known = true;
          using M = std::remove_reference_t<decltype(attributes.*member)>;
          if (const M* v = std::get_if<M>(&value))
            attributes.*member = *v;
          else
            assign_attribute_failed(name, value);
        });
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
