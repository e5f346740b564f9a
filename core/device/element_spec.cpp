#include "keel/core/device/element_spec.h"

#include "keel/core/base/checked.h"

namespace keel {
namespace {

constexpr size_t kFieldAlignment = 64;

// Returns where each field begins, and behind the last one.
std::vector<size_t> layout(const ElementSpec& spec) {
  std::vector<size_t> places;
  places.reserve(spec.fields.size() + 1);
  int64_t end = 0;
  for (const FieldSpec& field : spec.fields) {
    places.push_back(static_cast<size_t>(end));
    if (!field.type.shape.known()) {
      throw Error({.op = "element spec",
                   .argument = "field '" + field.name + "'",
                   .expected = "known dimensions",
                   .got = to_string(field.type),
                   .fix = "give every dimension of what a queue carries"});
    }
    end = checked_add(end, static_cast<int64_t>(field.type.shape.num_bytes(field.type.dtype)),
                      "element size");
    end = checked_add(end, (-end) & static_cast<int64_t>(kFieldAlignment - 1), "element size");
  }
  places.push_back(static_cast<size_t>(end));
  return places;
}

}  // namespace

std::vector<size_t> ElementSpec::offsets() const {
  std::vector<size_t> places = layout(*this);
  places.pop_back();
  return places;
}

size_t ElementSpec::slot_bytes() const { return layout(*this).back(); }

std::string to_string(const ElementSpec& spec) {
  std::string text = "(";
  for (const FieldSpec& field : spec.fields) {
    if (text.size() > 1) text += ", ";
    text += field.name + ": " + to_string(field.type);
  }
  return text + ")";
}

}  // namespace keel
