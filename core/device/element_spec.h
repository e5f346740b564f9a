// ElementSpec: what one element of a queue holds: named fields with concrete types. Cursor: where
// an element came from, so that a checkpoint can name the last one consumed and a feeder can reopen
// right behind it. Plain values.
#ifndef KEEL_CORE_DEVICE_ELEMENT_SPEC_H
#define KEEL_CORE_DEVICE_ELEMENT_SPEC_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "keel/core/base/export.h"
#include "keel/core/base/shape.h"

namespace keel {

struct FieldSpec {
  std::string name;
  Type type;  // all dimensions known
  bool operator==(const FieldSpec&) const = default;
};

struct ElementSpec {
  std::vector<FieldSpec> fields;

  // Byte offset of each field inside a slot, each aligned to 64. Throws Error for a dimension that
  // is not known and for sizes that overflow; so does slot_bytes, the size of a slot (a multiple of
  // 64).
  KEEL_API std::vector<size_t> offsets() const;
  KEEL_API size_t slot_bytes() const;
  bool operator==(const ElementSpec&) const = default;
};

// "(image: u8[100, 784], y: u8[100])".
KEEL_API std::string to_string(const ElementSpec& spec);

// The position right behind the element that carries it: reopening there yields the next element.
struct Cursor {
  int64_t epoch = 0;     // full passes over the source completed before this element's successor
  int64_t position = 0;  // source items of that epoch already consumed
  uint64_t key = 0;      // the shuffle's random key
  bool operator==(const Cursor&) const = default;
};

}  // namespace keel

#endif  // KEEL_CORE_DEVICE_ELEMENT_SPEC_H
