// Cache: the items of one pass, kept in memory.
#include <condition_variable>
#include <exception>
#include <mutex>

#include "keel/data/pipeline/block.h"
#include "keel/data/pipeline/stages.h"

namespace keel {
namespace {

constexpr int64_t kReadAtOnce = 1024;

// Blocks of kReadAtOnce items each, the last one not full.
struct StoredItems {
  std::vector<ItemBlock> blocks;
  int64_t count = 0;
};

class CachedReader final : public IndexedReader {
 public:
  CachedReader(const ItemLayout& layout, std::shared_ptr<const StoredItems> items)
      : layout_(layout), items_(std::move(items)) {}
  int64_t size() const override { return items_->count; }
  void gather(std::span<const int64_t> items, const FieldAddresses& out) const override {
    for (size_t i = 0; i < items.size(); ++i) {
      const ItemBlock& block = items_->blocks[static_cast<size_t>(items[i] / kReadAtOnce)];
      copy_items(layout_, block.item(items[i] % kReadAtOnce),
                 out.advanced(layout_, static_cast<int64_t>(i)), 1);
    }
  }

 private:
  const ItemLayout& layout_;
  std::shared_ptr<const StoredItems> items_;
};

class CacheStage final : public DerivedStage {
 public:
  explicit CacheStage(StagePtr from) : DerivedStage(std::move(from)) {}

  StagePtr on(StagePtr from) const override { return make_cache_stage(std::move(from)); }
  bool same_items() const override { return true; }
  bool indexed() const override { return true; }
  std::unique_ptr<IndexedReader> open_indexed(const PassContext& pass) const override {
    return std::make_unique<CachedReader>(layout(), stored(pass));
  }
  uint64_t order_key(uint64_t) const override { return from()->order_key(0); }

 private:
  // Returns the items, which one reader at a time fills the cache with; where the pass is stopped
  // meanwhile, only some of them.
  std::shared_ptr<const StoredItems> stored(const PassContext& pass) const {
    std::unique_lock<std::mutex> lock(mutex_);
    while (filling_) {
      if (pass.stopped()) return std::make_shared<StoredItems>();
      filled_.wait_for(lock, kStopCheck);
    }
    if (stored_) return stored_;
    filling_ = true;
    lock.unlock();
    std::shared_ptr<const StoredItems> items;
    std::exception_ptr failure;
    try {
      // Always the first pass, so that what is kept does not depend on where an iterator was
      // resumed.
      items = read_pass({.round = 0, .stop = pass.stop, .outer = pass.outer});
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    filling_ = false;
    if (!failure && !pass.stopped()) stored_ = items;
    filled_.notify_all();
    if (failure) std::rethrow_exception(failure);
    return items;
  }

  std::shared_ptr<const StoredItems> read_pass(const PassContext& pass) const {
    auto items = std::make_shared<StoredItems>();
    const auto reader = from()->open(pass);
    while (!pass.stopped()) {
      ItemBlock block = next_block(items->count);
      const int64_t got = reader->read(kReadAtOnce, block.item(0));
      items->count += got;
      if (got > 0) items->blocks.push_back(std::move(block));
      if (got < kReadAtOnce) break;
    }
    return items;
  }

  ItemBlock next_block(int64_t held) const {
    try {
      return {layout(), kReadAtOnce};
    } catch (const Error& error) {
      throw Error({.op = "cache",
                   .message = "there is no memory for more than the " + std::to_string(held) +
                              " items of " + to_string(layout().spec) + " that it holds",
                   .fix = "cache fewer items (take, before it), or leave it out",
                   .kind = error.info().kind});
    }
  }

  mutable std::mutex mutex_;
  mutable std::condition_variable filled_;
  mutable bool filling_ = false;
  mutable std::shared_ptr<const StoredItems> stored_;
};

}  // namespace

StagePtr make_cache_stage(StagePtr from) {
  if (from->endless()) {
    throw Error({.op = "cache",
                 .expected = "items that end",
                 .got = "those of a repeat without end",
                 .fix = "cache() before repeat(), or give repeat() a number",
                 .kind = ErrorKind::kInvalidArgument});
  }
  return std::make_shared<CacheStage>(std::move(from));
}

}  // namespace keel
