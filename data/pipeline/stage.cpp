#include "keel/data/pipeline/stage.h"

#include <algorithm>
#include <numeric>

#include "keel/core/base/random.h"

namespace keel {

int64_t IndexedReader::read(int64_t count, const FieldAddresses& out) {
  count = std::min(count, size() - next_);
  std::array<int64_t, kIndexBlock> few;
  std::vector<int64_t> many;
  std::span<int64_t> items;
  if (count <= static_cast<int64_t>(few.size())) {
    items = {few.data(), static_cast<size_t>(count)};
  } else {
    many.resize(static_cast<size_t>(count));
    items = many;
  }
  std::iota(items.begin(), items.end(), next_);
  gather(items, out);
  next_ += count;
  return count;
}

int64_t IndexedReader::skip(int64_t count) {
  count = std::min(count, size() - next_);
  next_ += count;
  return count;
}

bool IndexedReader::locate(std::span<const int64_t>, FieldAddresses*) const { return false; }

std::unique_ptr<IndexedReader> Stage::open_indexed(const DataPass&) const {
  throw Error({.op = "dataset", .message = "the items of this stage come in order only"});
}

bool passes_alike(const Stage& stage) {
  return stage.same_items() && stage.order_key(0) == stage.order_key(1);
}

uint64_t joint_order_key(const std::vector<StagePtr>& parts, uint64_t round) {
  uint64_t key = 0;
  for (const StagePtr& part : parts) {
    const uint64_t own = part->order_key(round);
    if (key != 0 || own != 0) key = fold_key(key, own);
  }
  return key;
}

bool have_equal_batches(const std::vector<StagePtr>& parts) {
  return std::all_of(parts.begin(), parts.end(), [&](const StagePtr& part) {
    return part->items_per_element() == parts[0]->items_per_element();
  });
}

uint64_t fold_batches(uint64_t key, const std::vector<StagePtr>& parts) {
  for (const StagePtr& part : parts) {
    key = fold_key(key, static_cast<uint64_t>(part->items_per_element()));
    key = fold_key(key, static_cast<uint64_t>(part->dropped_items().value_or(-1)));
  }
  return key;
}

}  // namespace keel
