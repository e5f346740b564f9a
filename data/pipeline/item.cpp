#include "keel/data/pipeline/item.h"

namespace keel {

ItemLayout::ItemLayout(ElementSpec element) : spec(std::move(element)) {
  if (spec.fields.empty() || spec.fields.size() > kMaxFields) {
    throw Error({.op = "dataset",
                 .argument = "fields",
                 .expected = "1 to " + std::to_string(kMaxFields),
                 .got = std::to_string(spec.fields.size())});
  }
  spec.slot_bytes();  // throws for unknown dimensions and sizes that overflow
  for (size_t f = 0; f < spec.fields.size(); ++f) {
    const FieldSpec& field = spec.fields[f];
    for (size_t other = 0; other < f; ++other) {
      if (spec.fields[other].name != field.name) continue;
      throw Error({.op = "dataset",
                   .argument = "fields",
                   .expected = "names that differ",
                   .got = "two fields '" + field.name + "'"});
    }
    bytes.push_back(field.type.shape.num_bytes(field.type.dtype));
    elements.push_back(static_cast<size_t>(field.type.shape.num_elements()));
  }
}

namespace detail {

void throw_item_field(const ItemLayout& layout, size_t field) {
  throw Error({.op = "item",
               .argument = "field " + std::to_string(field),
               .expected = "one of " + to_string(layout.spec)});
}

void throw_item_dtype(const ItemLayout& layout, size_t field, DType got) {
  const FieldSpec& spec = layout.spec.fields[field];
  throw Error({.op = "item",
               .argument = "field '" + spec.name + "'",
               .expected = name_of(spec.type.dtype),
               .got = name_of(got)});
}

}  // namespace detail
}  // namespace keel
