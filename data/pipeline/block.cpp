#include "keel/data/pipeline/block.h"

#include <cstdlib>
#include <cstring>

#include "keel/core/base/checked.h"

namespace keel {
namespace {

constexpr size_t kAlignment = 64;

}  // namespace

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
