// Cache: the items of one pass, kept in memory.
#include <condition_variable>
#include <exception>
#include <limits>
#include <mutex>

#include "keel/data/pipeline/block.h"
#include "keel/data/pipeline/stages.h"

namespace keel {
namespace {

struct StoredItems {
  ItemStore store;
  int64_t count = 0;
};

class CachedReader final : public IndexedReader {
 public:
  CachedReader(const ItemLayout& layout, std::shared_ptr<const StoredItems> items)
      : layout_(layout), items_(std::move(items)) {}
  int64_t size() const override { return items_->count; }
  void gather(std::span<const int64_t> items, const FieldAddresses& out) const override {
    for (size_t i = 0; i < items.size(); ++i) {
      copy_items(layout_, items_->store.item(items[i]),
                 out.advanced(layout_, static_cast<int64_t>(i)), 1);
    }
  }

 private:
  const ItemLayout& layout_;
  std::shared_ptr<const StoredItems> items_;
};

class CacheStage final : public DerivedStage {
 public:
  CacheStage(StagePtr from, CallSite site) : DerivedStage(std::move(from)), site_(site) {}

  StagePtr on(StagePtr from) const override { return make_cache_stage(std::move(from), site_); }
  bool same_items() const override { return true; }
  bool indexed() const override { return true; }
  std::unique_ptr<IndexedReader> open_indexed(const DataPass& pass) const override {
    return std::make_unique<CachedReader>(layout(), stored(pass));
  }
  uint64_t order_key(uint64_t) const override { return from()->order_key(0); }

 private:
  // Returns the items, which one reader at a time fills the cache with; where the pass is stopped
  // meanwhile, only some of them.
  std::shared_ptr<const StoredItems> stored(const DataPass& pass) const {
    std::unique_lock<std::mutex> lock(mutex_);
    while (filling_) {
      if (pass.stopped()) return no_items();
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

  std::shared_ptr<const StoredItems> read_pass(const DataPass& pass) const {
    auto items = no_items();
    ItemStore& store = items->store;
    const auto reader = from()->open(pass);
    while (!pass.stopped() && items->count < store.most()) {
      const int64_t part = store.make_room(items->count);
      const int64_t got = reader->read(part, store.item(items->count));
      items->count += got;
      if (got < part) break;
    }
    return items;
  }

  std::shared_ptr<StoredItems> no_items() const {
    const StoreOwner owner{"cache", "cache fewer items (take, before it), or leave it out", site_};
    const int64_t most = from()->size().value_or(std::numeric_limits<int64_t>::max());
    return std::make_shared<StoredItems>(StoredItems{ItemStore(layout(), most, owner)});
  }

  CallSite site_;
  mutable std::mutex mutex_;
  mutable std::condition_variable filled_;
  mutable bool filling_ = false;
  mutable std::shared_ptr<const StoredItems> stored_;
};

}  // namespace

StagePtr make_cache_stage(StagePtr from, CallSite site) {
  if (from->endless()) {
    throw Error({.op = "cache",
                 .expected = "items that end",
                 .got = "those of a repeat without end",
                 .fix = "cache() before repeat(), or give repeat() a number",
                 .kind = ErrorKind::kInvalidArgument});
  }
  return std::make_shared<CacheStage>(std::move(from), site);
}

}  // namespace keel
