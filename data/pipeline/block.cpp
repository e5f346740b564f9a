#include "keel/data/pipeline/block.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "keel/core/base/checked.h"

namespace keel {
namespace {

constexpr size_t kAlignment = 64;
// A block of a store has so many bytes, or a few items that are larger. Threads of a map before it
// share the items of one block, so that it is to have many; pages that nothing is written to take
// no memory.
constexpr int64_t kBlockBytes = int64_t{1} << 30;
constexpr int64_t kFewestInBlock = 4;
constexpr int64_t kMostInBlock = 1024;

int items_in_block_log2(const ItemLayout& layout) {
  const int64_t items = std::clamp(kBlockBytes / item_bytes(layout), kFewestInBlock, kMostInBlock);
  return static_cast<int>(std::bit_width(static_cast<uint64_t>(items))) - 1;
}

}  // namespace

int64_t item_bytes(const ItemLayout& layout) {
  int64_t bytes = 0;
  for (const size_t field : layout.bytes)
    bytes = checked_add(bytes, static_cast<int64_t>(field), "item size");
  return std::max(bytes, int64_t{1});
}

void ItemBlock::Free::operator()(void* memory) const noexcept { std::free(memory); }

ItemBlock::ItemBlock(const ItemLayout& layout, int64_t items) : layout_(&layout), items_(items) {
  std::vector<size_t> offsets;
  int64_t end = 0;
  for (const size_t bytes : layout.bytes) {
    offsets.push_back(static_cast<size_t>(end));
    end = checked_add(end, checked_mul(items, static_cast<int64_t>(bytes), "buffer size"),
                      "buffer size");
    end = checked_add(end, (-end) & static_cast<int64_t>(kAlignment - 1), "buffer size");
  }
  memory_.reset(
      std::aligned_alloc(kAlignment, std::max<size_t>(static_cast<size_t>(end), kAlignment)));
  if (memory_ == nullptr) {
    throw Error({.op = "dataset",
                 .message = "no memory for " + std::to_string(items) + " items (" +
                            std::to_string(end) + " bytes)"});
  }
  for (const size_t offset : offsets)
    addresses_.push_back(static_cast<std::byte*>(memory_.get()) + offset);
}

ItemStore::ItemStore(const ItemLayout& layout, int64_t most, StoreOwner owner)
    : layout_(&layout), most_(most), owner_(owner), shift_(items_in_block_log2(layout)) {}

int64_t ItemStore::make_room(int64_t place) {
  const int64_t begin = place - in_block(place);
  const int64_t items = std::min(most_ - begin, int64_t{1} << shift_);
  const auto fail = [&](ErrorKind kind) {
    throw Error({.op = owner_.op,
                 .message = "there is no memory for more than the " + std::to_string(begin) +
                            " items of " + to_string(layout_->spec) + " that it holds",
                 .fix = owner_.fix,
                 .site = owner_.site,
                 .kind = kind});
  };
  try {
    if (static_cast<size_t>(place >> shift_) == blocks_.size())
      blocks_.emplace_back(*layout_, items);
  } catch (const Error& error) {
    fail(error.info().kind);
  } catch (const std::bad_alloc&) {
    fail(ErrorKind::kFailed);
  }
  return items - in_block(place);
}

void copy_items(const ItemLayout& layout, const FieldAddresses& from, const FieldAddresses& to,
                int64_t count) {
  for (size_t f = 0; f < layout.fields(); ++f) {
    const size_t bytes = static_cast<size_t>(count) * layout.bytes[f];
    if (to[f] != nullptr && bytes > 0) std::memcpy(to[f], from[f], bytes);
  }
}

CompleteFields::CompleteFields(const ItemLayout& layout, const FieldAddresses& out, int64_t items) {
  bool complete = true;
  for (size_t f = 0; f < out.size(); ++f) complete = complete && out[f] != nullptr;
  if (complete) {
    all_ = out;
    return;
  }
  spare_ = ItemBlock(layout, items);
  const FieldAddresses spare = spare_.item(0);
  for (size_t f = 0; f < out.size(); ++f) all_.push_back(out[f] != nullptr ? out[f] : spare[f]);
}

}  // namespace keel
