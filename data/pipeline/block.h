// ItemBlock: memory for a number of items, a run for each field as FieldAddresses wants it. Owned
// by one reader. ItemStore: blocks of items, made as they are needed.
#ifndef KEEL_DATA_PIPELINE_BLOCK_H
#define KEEL_DATA_PIPELINE_BLOCK_H

#include <memory>
#include <vector>

#include "keel/core/base/call_site.h"
#include "keel/data/pipeline/stage.h"

namespace keel {

// Returns how many bytes all fields of an item have together; at least 1.
int64_t item_bytes(const ItemLayout& layout);

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

// Who keeps items: for the error where memory is short.
struct StoreOwner {
  const char* op;
  const char* fix;
  CallSite site;
};

// Places for up to `most` items. A block of them gets its memory when its first item comes, so that
// a place that no item comes to takes none.
class ItemStore {
 public:
  // Refers to `layout`.
  ItemStore(const ItemLayout& layout, int64_t most, StoreOwner owner);

  int64_t most() const noexcept { return most_; }
  // Returns how many items from this place on lie side by side, in memory that is there when the
  // call returns. Throws Error of the owner where memory is short. REQUIRES room in the blocks
  // before it, and a place below most().
  int64_t make_room(int64_t place);
  // Returns the address of an item. REQUIRES room for it.
  FieldAddresses item(int64_t place) const noexcept {
    return blocks_[static_cast<size_t>(place >> shift_)].item(in_block(place));
  }

 private:
  int64_t in_block(int64_t place) const noexcept { return place & ((int64_t{1} << shift_) - 1); }

  const ItemLayout* layout_;
  int64_t most_;
  StoreOwner owner_;
  int shift_;  // a block has 2^shift_ items, the last one those that are left
  std::vector<ItemBlock> blocks_;
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
