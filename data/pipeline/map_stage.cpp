// Map: a function on each item, written straight to where the result is wanted.
#include <algorithm>
#include <optional>

#include "keel/core/base/gather_rows.h"
#include "keel/core/base/random.h"
#include "keel/data/pipeline/block.h"
#include "keel/data/pipeline/stages.h"
#include "keel/data/pipeline/thread_pool.h"
#include "keel/data/pipeline/user_call.h"

namespace keel {
namespace {

constexpr int kMaxThreads = 256;
// Items that one thread takes at a time; small enough that a batch of 100 keeps two threads busy to
// its end.
constexpr int64_t kShare = 8;
// Items read at a time by a reader that has to read them in order.
constexpr int64_t kReadAhead = 256;

class MapStage final : public DerivedStage {
 public:
  MapStage(StagePtr from, std::shared_ptr<const ElementFunction> function, uint64_t seed,
           const MapOptions& options, CallSite site)
      : DerivedStage(function->output(), std::move(from)),
        function_(std::move(function)),
        draws_(function_->draws()),
        seed_(seed),
        name_("map '" + options.name + "'"),
        threads_(options.threads),
        site_(site) {}

  bool indexed() const override { return from()->indexed(); }
  bool same_items() const override { return !draws_ && from()->same_items(); }
  std::unique_ptr<IndexedReader> open_indexed(const DataPass& pass) const override;
  std::unique_ptr<Reader> open(const DataPass& pass) const override;

  const ItemLayout& input() const { return from()->layout(); }
  std::unique_ptr<ThreadPool> make_pool() const {
    return threads_ > 1 ? std::make_unique<ThreadPool>(threads_) : nullptr;
  }
  uint64_t pass_key(const DataPass& pass) const { return fold_key(seed_, pass.round); }
  // item_at(i) is where item i of these `count` lies, item_number(i) its number in the pass. Ends
  // early where the pass is stopped.
  template <class At, class Number>
  void apply(int64_t count, At item_at, const FieldAddresses& out, Number item_number,
             const DataPass& pass, uint64_t pass_key) const {
    std::array<const void*, ItemLayout::kMaxFields> addresses;
    for (int64_t i = 0; i < count && !pass.stopped(); ++i) {
      const FieldAddresses& from_item = item_at(i);
      const FieldAddresses to_item = out.advanced(layout(), i);
      for (size_t f = 0; f < from_item.size(); ++f) addresses[f] = from_item[f];
      const int64_t number = item_number(i);
      call_user(name_, number, site_, [&] {
        const auto draw = static_cast<uint64_t>(draws_ ? from()->number_of_all(number) : 0);
        const uint64_t key = draws_ ? fold_key(pass_key, draw) : 0;
        function_->apply({addresses.data(), from_item.size()}, to_item.all(), key);
      });
    }
  }

 private:
  std::shared_ptr<const ElementFunction> function_;
  bool draws_;
  uint64_t seed_;
  std::string name_;
  int threads_;
  CallSite site_;
};

// Calls share(begin, count) for the parts of [0, count), by the pool's threads where there is one.
template <class Share>
void share_out(ThreadPool* pool, int64_t count, Share share) {
  const int64_t parts = (count + kShare - 1) / kShare;
  if (pool == nullptr || parts < 2) {
    for (int64_t begin = 0; begin < count; begin += kShare)
      share(begin, std::min(kShare, count - begin));
    return;
  }
  pool->run(static_cast<uint32_t>(parts), [&](uint32_t part) {
    const int64_t begin = part * kShare;
    share(begin, std::min(kShare, count - begin));
  });
}

class MappedReader final : public Reader {
 public:
  MappedReader(const MapStage& stage, const DataPass& pass)
      : stage_(stage),
        pass_(pass),
        key_(stage.pass_key(pass)),
        from_(stage.from()->open(pass)),
        pool_(stage.make_pool()) {}

  int64_t read(int64_t count, const FieldAddresses& out) override {
    const CompleteFields fields(stage_.layout(), out, count);
    int64_t done = 0;
    while (done < count) {
      const int64_t asked = std::min(kReadAhead, count - done);
      if (block_.items() < asked) block_ = ItemBlock(stage_.input(), asked);
      const int64_t got = from_->read(asked, block_.item(0));
      const FieldAddresses to = fields.all().advanced(stage_.layout(), done);
      share_out(pool_.get(), got, [&](int64_t begin, int64_t part) {
        stage_.apply(
            part, [&](int64_t i) { return block_.item(begin + i); },
            to.advanced(stage_.layout(), begin), [&](int64_t i) { return seen_ + begin + i; },
            pass_, key_);
      });
      if (pass_.stopped()) break;
      done += got;
      seen_ += got;
      if (got < asked) break;
    }
    return done;
  }
  int64_t skip(int64_t count) override {
    const int64_t skipped = from_->skip(count);
    seen_ += skipped;
    return skipped;
  }

 private:
  const MapStage& stage_;
  DataPass pass_;
  uint64_t key_;
  std::unique_ptr<Reader> from_;
  std::unique_ptr<ThreadPool> pool_;
  ItemBlock block_;
  int64_t seen_ = 0;
};

class MappedIndexedReader final : public IndexedReader {
 public:
  MappedIndexedReader(const MapStage& stage, const DataPass& pass)
      : stage_(stage),
        pass_(pass),
        key_(stage.pass_key(pass)),
        from_(stage.from()->open_indexed(pass)),
        pool_(stage.make_pool()) {}
  int64_t size() const override { return from_->size(); }
  void gather(std::span<const int64_t> items, const FieldAddresses& out) const override {
    const auto count = static_cast<int64_t>(items.size());
    const CompleteFields fields(stage_.layout(), out, count);
    share_out(pool_.get(), count, [&](int64_t begin, int64_t part) {
      const FieldAddresses to = fields.all().advanced(stage_.layout(), begin);
      const auto mine = items.subspan(static_cast<size_t>(begin), static_cast<size_t>(part));
      const auto number = [&](int64_t i) { return mine[static_cast<size_t>(i)]; };
      // With those of the next part: memory that is far away is asked for that much ahead.
      std::array<FieldAddresses, 2 * kShare> where;
      const auto ahead = items.subspan(static_cast<size_t>(begin));
      const size_t located = std::min(ahead.size(), where.size());
      if (from_->locate(ahead.first(located), where.data())) {
        for (size_t i = 0; begin == 0 && i < mine.size(); ++i) ask_for(where[i]);
        const auto at = [&](int64_t i) -> const FieldAddresses& {
          const auto item = static_cast<size_t>(i);
          if (item + kShare < located) ask_for(where[item + kShare]);
          return where[item];
        };
        stage_.apply(part, at, to, number, pass_, key_);
        return;
      }
      const ItemBlock block(stage_.input(), part);
      from_->gather(mine, block.item(0));
      stage_.apply(
          part, [&](int64_t i) { return block.item(i); }, to, number, pass_, key_);
    });
  }

 private:
  [[gnu::always_inline]] void ask_for(const FieldAddresses& item) const {
    const ItemLayout& layout = stage_.input();
    for (size_t f = 0; f < layout.fields(); ++f)
      prefetch_row(static_cast<const std::byte*>(item[f]), layout.bytes[f]);
  }

  const MapStage& stage_;
  DataPass pass_;
  uint64_t key_;
  std::unique_ptr<IndexedReader> from_;
  std::unique_ptr<ThreadPool> pool_;
};

std::unique_ptr<IndexedReader> MapStage::open_indexed(const DataPass& pass) const {
  return std::make_unique<MappedIndexedReader>(*this, pass);
}

std::unique_ptr<Reader> MapStage::open(const DataPass& pass) const {
  if (indexed()) return open_indexed(pass);
  return std::make_unique<MappedReader>(*this, pass);
}

}  // namespace

StagePtr make_map_stage(StagePtr from, std::shared_ptr<const ElementFunction> function,
                        uint64_t seed, const MapOptions& options, CallSite site) {
  if (function == nullptr)
    throw Error({.op = "map", .argument = "function", .message = "is empty"});
  if (options.threads < 1 || options.threads > kMaxThreads) {
    throw Error({.op = "map",
                 .argument = "threads",
                 .expected = "1 to " + std::to_string(kMaxThreads),
                 .got = std::to_string(options.threads),
                 .kind = ErrorKind::kInvalidArgument});
  }
  const ElementSpec& items = from->layout().spec;
  bool fits = items.fields.size() == function->input().fields.size();
  for (size_t f = 0; fits && f < items.fields.size(); ++f) {
    fits = items.fields[f].type == function->input().fields[f].type;
  }
  if (!fits) {
    throw Error({.op = "map '" + options.name + "'",
                 .argument = "function",
                 .expected = "one that takes " + to_string(items),
                 .got = "one that takes " + to_string(function->input())});
  }
  return std::make_shared<MapStage>(std::move(from), std::move(function), seed, options, site);
}

}  // namespace keel
