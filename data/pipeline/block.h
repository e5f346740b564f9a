// ItemBlock: memory for a number of items, a run for each field as FieldAddresses wants it. Owned
// by one reader.
#ifndef KEEL_DATA_PIPELINE_BLOCK_H
#define KEEL_DATA_PIPELINE_BLOCK_H

#include <memory>

#include "keel/data/pipeline/stage.h"

namespace keel {

class ItemBlock {
 public:
  ItemBlock() = default;
  // Not zeroed. Throws Error where the size overflows or memory is short. Refers to `layout`.
  ItemBlock(const ItemLayout& layout, int64_t items);

  int64_t items() const noexcept { return items_; }
  // Returns the address of an item.
  FieldAddresses item(int64_t item) const noexcept { return addresses_.advanced(*layout_, item); }

 private:
  struct Free {
    void operator()(void* memory) const noexcept;
  };
  const ItemLayout* layout_ = nullptr;
  int64_t items_ = 0;
  std::unique_ptr<void, Free> memory_;
  FieldAddresses addresses_;
};

// Copies `count` items; fields that are not wanted are left out.
void copy_items(const ItemLayout& layout, const FieldAddresses& from, const FieldAddresses& to,
                int64_t count);

// `out` with memory of its own for the fields that are not wanted; for stages whose function needs
// all of them.
class CompleteFields {
 public:
  CompleteFields(const ItemLayout& layout, const FieldAddresses& out, int64_t items);
  const FieldAddresses& all() const noexcept { return all_; }

 private:
  ItemBlock spare_;
  FieldAddresses all_;
};

}  // namespace keel

#endif  // KEEL_DATA_PIPELINE_BLOCK_H
