// ItemView, ItemSlot: an item of a pipeline, to be read or to be written by a user's function.
// Both refer to memory that the pipeline owns, are valid during the call only, and belong to the
// thread that makes it. ItemLayout: an element spec with its sizes worked out once.
#ifndef KEEL_DATA_PIPELINE_ITEM_H
#define KEEL_DATA_PIPELINE_ITEM_H

#include <cstddef>
#include <span>
#include <vector>

#include "keel/core/device/element_spec.h"
#include "keel/core/tensor/tensor.h"

namespace keel {

struct ItemLayout {
  ItemLayout() = default;
  // Throws Error for unknown dimensions, sizes that overflow, more than kMaxFields fields, and two
  // of one name.
  explicit ItemLayout(ElementSpec spec);

  static constexpr size_t kMaxFields = 32;

  size_t fields() const noexcept { return bytes.size(); }

  ElementSpec spec;
  std::vector<size_t> bytes;     // of each field
  std::vector<size_t> elements;  // of each field
};

namespace detail {
[[noreturn]] KEEL_API void throw_item_dtype(const ItemLayout& layout, size_t field, DType got);
[[noreturn]] KEEL_API void throw_item_field(const ItemLayout& layout, size_t field);
inline void check_item_field(const ItemLayout& layout, size_t field, DType dtype) {
  if (field >= layout.fields()) throw_item_field(layout, field);
  if (layout.spec.fields[field].type.dtype != dtype) throw_item_dtype(layout, field, dtype);
}
}  // namespace detail

class ItemView {
 public:
  ItemView(const ItemLayout& layout, std::span<const void* const> addresses)
      : layout_(&layout), addresses_(addresses) {}

  const ElementSpec& spec() const noexcept { return layout_->spec; }
  // The elements of field number `field`; throws Error where T is not its dtype.
  template <class T>
  std::span<const T> data(size_t field) const {
    detail::check_item_field(*layout_, field, dtype_of<T>);
    return {static_cast<const T*>(addresses_[field]), layout_->elements[field]};
  }
  // The same as bytes, of any dtype. REQUIRES that there is such a field.
  const void* raw(size_t field) const noexcept { return addresses_[field]; }

 private:
  const ItemLayout* layout_;
  std::span<const void* const> addresses_;
};

class ItemSlot {
 public:
  ItemSlot(const ItemLayout& layout, std::span<void* const> addresses)
      : layout_(&layout), addresses_(addresses) {}

  const ElementSpec& spec() const noexcept { return layout_->spec; }
  // As in ItemView, to be written; holds anything before.
  template <class T>
  std::span<T> data(size_t field) const {
    detail::check_item_field(*layout_, field, dtype_of<T>);
    return {static_cast<T*>(addresses_[field]), layout_->elements[field]};
  }
  void* raw(size_t field) const noexcept { return addresses_[field]; }

 private:
  const ItemLayout* layout_;
  std::span<void* const> addresses_;
};

}  // namespace keel

#endif  // KEEL_DATA_PIPELINE_ITEM_H
