// place_of_field: finds a field of an item by the name that a user gave. A pure function. Internal
// to data.
#ifndef KEEL_DATA_PIPELINE_NAMED_FIELD_H
#define KEEL_DATA_PIPELINE_NAMED_FIELD_H

#include <cstddef>
#include <string>
#include <vector>

#include "keel/core/base/environment.h"
#include "keel/core/device/element_spec.h"

namespace keel {

// Returns the number of the field. Throws Error of `op`, which lists the fields, where there is
// none of this name.
inline size_t place_of_field(const char* op, const ElementSpec& items, const std::string& name) {
  std::vector<std::string> names;
  for (const FieldSpec& field : items.fields) names.push_back(field.name);
  return place_among(
      name, names,
      {.op = op, .argument = "field '" + name + "'", .expected = "one of " + to_string(items)});
}

}  // namespace keel

#endif  // KEEL_DATA_PIPELINE_NAMED_FIELD_H
