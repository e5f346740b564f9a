// Device cache: the items of one pass, kept on a device.
#include <algorithm>
#include <limits>
#include <mutex>

#include "keel/core/base/checked.h"
#include "keel/data/pipeline/block.h"
#include "keel/data/pipeline/device_cache.h"
#include "keel/data/pipeline/stages.h"

namespace keel {
namespace {

// Uploading takes this much of the host's memory, or that of one item where it is larger.
constexpr int64_t kUploadedAtOnce = int64_t{16} << 20;
constexpr int64_t kMostItemsAtOnce = 1024;

// The rows of `items`, behind a row of zeros.
std::vector<ResidentField> upload(const ItemLayout& layout, const IndexedReader& items,
                                  const Device& device) {
  const int64_t rows = checked_add(items.size(), 1, "cache");
  if (rows > std::numeric_limits<int32_t>::max()) {
    throw Error({.op = "cache",
                 .argument = device.name(),
                 .expected = "fewer than 2^31 items",
                 .got = std::to_string(items.size())});
  }
  Backend& backend = device.backend();
  const auto stream = backend.make_stream(device.index(), StreamKind::kTransfer);
  std::vector<ResidentField> resident;
  for (size_t f = 0; f < layout.fields(); ++f) {
    const FieldSpec& field = layout.spec.fields[f];
    const Type all{field.type.dtype, field.type.shape.with_inserted(0, rows)};
    const int64_t bytes = checked_mul(rows, static_cast<int64_t>(layout.bytes[f]), "cache");
    resident.push_back(
        {{field.name, all},
         backend.allocate(device.index(), static_cast<size_t>(bytes), "cache of " + field.name)});
  }
  const int64_t at_once =
      std::clamp(kUploadedAtOnce / item_bytes(layout), int64_t{1}, kMostItemsAtOnce);
  const ItemBlock block(layout, std::min(at_once, rows));
  std::vector<int64_t> numbers;
  for (int64_t begin = 0; begin < items.size(); begin += at_once) {
    numbers.clear();
    for (int64_t i = begin; i < std::min(begin + at_once, items.size()); ++i) numbers.push_back(i);
    items.gather(numbers, block.item(0));
    for (size_t f = 0; f < layout.fields(); ++f) {
      const size_t row = layout.bytes[f];
      if (row == 0) continue;
      stream->copy_to_device(*resident[f].buffer, static_cast<size_t>(begin + 1) * row,
                             block.item(0)[f], numbers.size() * row);
    }
    stream->synchronize();
  }
  return resident;
}

// On the host it is the cache that it stands behind.
class DeviceCacheStage final : public DerivedStage {
 public:
  DeviceCacheStage(StagePtr from, const Device& device)
      : DerivedStage(std::move(from)), device_(device) {}

  bool indexed() const override { return true; }
  std::unique_ptr<IndexedReader> open_indexed(const DataPass& pass) const override {
    return from()->open_indexed(pass);
  }
  StagePtr on(StagePtr from) const override { return from; }

  const Device& device() const noexcept { return device_; }
  // Uploaded by the first call.
  const std::vector<ResidentField>& resident() const {
    const std::lock_guard<std::mutex> guard(lock_);
    if (resident_.empty()) resident_ = upload(layout(), *from()->open_indexed({}), device_);
    return resident_;
  }

 private:
  Device device_;
  mutable std::mutex lock_;
  mutable std::vector<ResidentField> resident_;
};

// Instead of the items their rows on the device.
class RowReader final : public IndexedReader {
 public:
  explicit RowReader(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  void gather(std::span<const int64_t> items, const FieldAddresses& out) const override {
    auto* rows = static_cast<int32_t*>(out[0]);
    if (rows == nullptr) return;
    for (size_t i = 0; i < items.size(); ++i) rows[i] = static_cast<int32_t>(items[i] + 1);
  }

 private:
  int64_t size_;
};

class RowStage final : public Stage {
 public:
  // `cache`: whose items the rows are; cursors are those behind it.
  RowStage(int64_t size, const Stage& cache)
      : Stage({{{kRowField, {i32, {}}}}}),
        size_(size),
        key_(cache.order_key(0)),
        items_per_element_(cache.items_per_element()),
        pads_(cache.pads()),
        dropped_(cache.dropped_items()) {}
  std::optional<int64_t> size() const override { return size_; }
  bool indexed() const override { return true; }
  std::unique_ptr<IndexedReader> open_indexed(const DataPass&) const override {
    return std::make_unique<RowReader>(size_);
  }
  uint64_t order_key(uint64_t) const override { return key_; }
  int64_t items_per_element() const override { return items_per_element_; }
  bool pads() const override { return pads_; }
  std::optional<int64_t> dropped_items() const override { return dropped_; }

 private:
  int64_t size_;
  uint64_t key_;
  int64_t items_per_element_;
  bool pads_;
  std::optional<int64_t> dropped_;
};

}  // namespace

StagePtr make_device_cache_stage(StagePtr from, const Device& device, CallSite site) {
  device.backend();  // there must be one
  // Tensors lie in memory already, so they need no second copy there.
  if (!from->in_memory()) from = make_cache_stage(std::move(from), site);
  return std::make_shared<DeviceCacheStage>(std::move(from), device);
}

std::optional<DeviceCached> find_device_cache(const StagePtr& stage) {
  std::vector<const DerivedStage*> behind;  // from the last stage to the first one behind the cache
  const Stage* at = stage.get();
  const DeviceCacheStage* cache = nullptr;
  while (cache == nullptr) {
    const auto* derived = dynamic_cast<const DerivedStage*>(at);
    if (derived == nullptr) return std::nullopt;
    cache = dynamic_cast<const DeviceCacheStage*>(at);
    if (cache != nullptr) break;
    behind.push_back(derived);
    at = derived->from().get();
  }
  std::vector<ResidentField> resident = cache->resident();
  const int64_t items = resident[0].field.type.shape[0] - 1;
  StagePtr rows = std::make_shared<RowStage>(items, *cache);
  for (auto it = behind.rbegin(); it != behind.rend(); ++it) {
    rows = (*it)->on(rows);
    if (rows != nullptr) continue;
    throw Error({.op = "cache",
                 .argument = cache->device().name(),
                 .message = "a stage behind it looks at the items or changes them, and they are on "
                            "the device",
                 .fix = "put map, filter and select before the cache; behind it: shuffle, take, "
                        "skip, shard, batch, repeat, prefetch"});
  }
  return DeviceCached{cache->device(), std::move(resident), Dataset(std::move(rows))};
}

}  // namespace keel
