#include "keel/data/pipeline/stage.h"

#include <algorithm>
#include <numeric>

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

std::unique_ptr<IndexedReader> Stage::open_indexed(const PassContext&) const {
  throw Error({.op = "dataset", .message = "the items of this stage come in order only"});
}

}  // namespace keel
