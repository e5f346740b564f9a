// Stage: one step of a Dataset's chain; immutable, shared, any thread. Reader: walks one pass over
// a stage's items and writes them where they are wanted; used by one thread. There is one way
// through a pipeline: the last stage is asked to write items into the memory that the consumer
// gave, and asks the stage before it in turn.
#ifndef KEEL_DATA_PIPELINE_STAGE_H
#define KEEL_DATA_PIPELINE_STAGE_H

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "keel/data/pipeline/item.h"

namespace keel {

// Where items go: an address for each field. Item k of field f belongs at addresses[f] + k *
// bytes(f); a null address is a field that nobody wants.
class FieldAddresses {
 public:
  FieldAddresses() = default;
  explicit FieldAddresses(std::span<void* const> addresses) : count_(addresses.size()) {
    for (size_t f = 0; f < count_; ++f) at_[f] = addresses[f];
  }
  size_t size() const noexcept { return count_; }
  void* operator[](size_t field) const noexcept { return at_[field]; }
  std::span<void* const> all() const& noexcept { return {at_.data(), count_}; }
  std::span<void* const> all() const&& = delete;
  void push_back(void* address) noexcept { at_[count_++] = address; }
  // Returns the addresses for the item that is `item` behind these, for items of this layout.
  FieldAddresses advanced(const ItemLayout& layout, int64_t item) const noexcept {
    FieldAddresses moved;
    for (size_t f = 0; f < count_; ++f) {
      std::byte* base = static_cast<std::byte*>(at_[f]);
      moved.push_back(base == nullptr ? nullptr
                                      : base + static_cast<size_t>(item) * layout.bytes[f]);
    }
    return moved;
  }

 private:
  std::array<void*, ItemLayout::kMaxFields> at_;  // the first count_ of them
  size_t count_ = 0;
};

// How often a reader that waits looks at the stop flags of its pass, which nobody announces.
inline constexpr std::chrono::milliseconds kStopCheck{50};

// Which pass is opened, and the flags that end it early.
struct DataPass {
  uint64_t round = 0;  // number of the pass: what shuffles are keyed by beside their seed
  const std::atomic<bool>* stop = nullptr;
  // Where a reader on another thread reads this pass ahead: the pass that it does so for. Where
  // that one is stopped, so is this one. It must outlive this one.
  const DataPass* outer = nullptr;
  bool stopped() const noexcept {
    if (stop != nullptr && stop->load(std::memory_order_relaxed)) return true;
    return outer != nullptr && outer->stopped();
  }
};

class Reader {
 public:
  virtual ~Reader() = default;
  // Writes the next `count` items and returns how many: fewer only at the end of the pass or when
  // stopped. What is written when stopped may be anything.
  virtual int64_t read(int64_t count, const FieldAddresses& out) = 0;
  // Passes over the next `count` items, likewise.
  virtual int64_t skip(int64_t count) = 0;
};

// A reader whose items can be reached in any order.
class IndexedReader : public Reader {
 public:
  int64_t read(int64_t count, const FieldAddresses& out) final;
  int64_t skip(int64_t count) final;

  virtual int64_t size() const = 0;
  // Writes the items of these numbers, in this order; not all of them where the pass is stopped
  // meanwhile. May be called by several threads at once.
  virtual void gather(std::span<const int64_t> items, const FieldAddresses& out) const = 0;
  // Where these items (kIndexBlock at most) lie in memory, one entry of `where` each: so that they
  // can be read there. False, and nothing written, where they have to be made. May be called by
  // several threads at once.
  virtual bool locate(std::span<const int64_t> items, FieldAddresses* where) const;

 private:
  int64_t next_ = 0;
};

class Stage {
 public:
  explicit Stage(ElementSpec item) : layout_(std::move(item)) {}
  virtual ~Stage() = default;

  const ItemLayout& layout() const noexcept { return layout_; }
  // Items of one pass, where known.
  virtual std::optional<int64_t> size() const = 0;
  // Says whether open_indexed may be called.
  virtual bool indexed() const { return false; }
  virtual std::unique_ptr<IndexedReader> open_indexed(const DataPass& pass) const;
  virtual std::unique_ptr<Reader> open(const DataPass& pass) const { return open_indexed(pass); }
  // A number that differs where the order of the items does: that of pass `round`, by its shuffles
  // and interleavings; 0 without any.
  virtual uint64_t order_key(uint64_t round) const = 0;
  // Says whether every pass has the same items, in whatever order.
  virtual bool same_items() const { return true; }
  // Says whether a pass is known to have no end.
  virtual bool endless() const { return false; }
  // How many items of the stage before the outermost batch make one of this.
  virtual int64_t items_per_element() const { return 1; }
  // Says whether an element may be made of fewer items than that, and be filled up. The end of a
  // pass may then lie beyond its items, and how far depends on the batch size of whoever made the
  // cursor: all that is beyond them is the end.
  virtual bool pads() const { return false; }
  virtual std::optional<int64_t> dropped_items() const { return 0; }
  // Returns the number that item `item` has among those of all shards and all shares of a batch.
  virtual int64_t number_of_all(int64_t item) const { return item; }
  // Says whether all items are in memory, as tensors.
  virtual bool in_memory() const { return false; }

 private:
  ItemLayout layout_;
};

using StagePtr = std::shared_ptr<const Stage>;

// Says whether every pass has the same items in the same order: what chooses or joins items by
// their place makes the same ones of them.
bool passes_alike(const Stage& stage);

// For stages made of several others: the order_key of all of them together.
uint64_t joint_order_key(const std::vector<StagePtr>& parts, uint64_t round);
// Says whether an element of each part is made of the same number of items.
bool have_equal_batches(const std::vector<StagePtr>& parts);
// Returns a key that differs where the parts' batches do: in their sizes, or in how many items they
// leave out.
uint64_t fold_batches(uint64_t key, const std::vector<StagePtr>& parts);

// A stage behind another one: what it does not say itself is as in the stage before.
class DerivedStage : public Stage {
 public:
  DerivedStage(ElementSpec item, StagePtr from) : Stage(std::move(item)), from_(std::move(from)) {}
  explicit DerivedStage(StagePtr from) : Stage(from->layout().spec), from_(std::move(from)) {}

  const StagePtr& from() const noexcept { return from_; }
  // The same stage behind another one, whose items may be of other types; nullptr where it looks at
  // the items or changes them.
  // NOLINTNEXTLINE(performance-unnecessary-value-param): stages that have one take it over.
  virtual StagePtr on(StagePtr) const { return nullptr; }
  std::optional<int64_t> size() const override { return from_->size(); }
  uint64_t order_key(uint64_t round) const override { return from_->order_key(round); }
  bool same_items() const override { return from_->same_items(); }
  bool endless() const override { return from_->endless(); }
  int64_t items_per_element() const override { return from_->items_per_element(); }
  bool pads() const override { return from_->pads(); }
  std::optional<int64_t> dropped_items() const override { return from_->dropped_items(); }
  int64_t number_of_all(int64_t item) const override { return from_->number_of_all(item); }

 private:
  StagePtr from_;
};

// Numbers of items that are handled at a time where a list of them has to be made.
inline constexpr size_t kIndexBlock = 256;

// Calls gather with `items` mapped one by one, a block at a time.
template <class Map>
void gather_mapped(const IndexedReader& from, const ItemLayout& layout,
                   std::span<const int64_t> items, const FieldAddresses& out, Map map) {
  std::array<int64_t, kIndexBlock> mapped;
  for (size_t begin = 0; begin < items.size(); begin += kIndexBlock) {
    const size_t count = std::min(kIndexBlock, items.size() - begin);
    for (size_t i = 0; i < count; ++i) mapped[i] = map(items[begin + i]);
    from.gather({mapped.data(), count}, out.advanced(layout, static_cast<int64_t>(begin)));
  }
}

// The same for locate. REQUIRES at most kIndexBlock items.
template <class Map>
bool locate_mapped(const IndexedReader& from, std::span<const int64_t> items, FieldAddresses* where,
                   Map map) {
  std::array<int64_t, kIndexBlock> mapped;
  for (size_t i = 0; i < items.size(); ++i) mapped[i] = map(items[i]);
  return from.locate({mapped.data(), items.size()}, where);
}

}  // namespace keel

#endif  // KEEL_DATA_PIPELINE_STAGE_H
