// Shuffles: of a whole pass by a permutation, or out of a buffer.
#include <algorithm>

#include "keel/core/base/random.h"
#include "keel/data/pipeline/block.h"
#include "keel/data/pipeline/stages.h"

namespace keel {
namespace {

// Above this the permutation is evaluated item by item instead of being written out, which takes
// long and cannot be stopped.
constexpr int64_t kMaxTable = int64_t{1} << 22;
// Items that a buffered shuffle reads at a time, where that many are drawn.
constexpr int64_t kShuffledAtOnce = 256;
// Sets the keys of buffered shuffles apart from those of whole passes.
constexpr uint64_t kBufferedKey = 0x62756666;

uint64_t combined_key(uint64_t own, uint64_t before) {
  return before == 0 ? own : fold_key(own, before);
}

class ShuffledReader final : public IndexedReader {
 public:
  ShuffledReader(const ItemLayout& layout, std::unique_ptr<IndexedReader> from, uint64_t key)
      : layout_(layout),
        from_(std::move(from)),
        permutation_(static_cast<uint64_t>(from_->size()), key) {
    if (from_->size() <= kMaxTable)
      table_ = shuffled_indices(static_cast<uint32_t>(from_->size()), key);
  }

  int64_t size() const override { return from_->size(); }
  void gather(std::span<const int64_t> items, const FieldAddresses& out) const override {
    mapped([&](auto map) { gather_mapped(*from_, layout_, items, out, map); });
  }
  bool locate(std::span<const int64_t> items, FieldAddresses* where) const override {
    bool located = false;
    mapped([&](auto map) { located = locate_mapped(*from_, items, where, map); });
    return located;
  }

 private:
  // Calls use(map), where map(i) is the item at place i.
  template <class Use>
  void mapped(Use use) const {
    if (table_.empty()) {
      use([&](int64_t i) { return static_cast<int64_t>(permutation_[static_cast<uint64_t>(i)]); });
    } else {
      use([&](int64_t i) { return static_cast<int64_t>(table_[static_cast<size_t>(i)]); });
    }
  }

  const ItemLayout& layout_;
  std::unique_ptr<IndexedReader> from_;
  Permutation permutation_;
  std::vector<uint32_t> table_;
};

class ShuffleStage final : public DerivedStage {
 public:
  ShuffleStage(StagePtr from, uint64_t seed) : DerivedStage(std::move(from)), seed_(seed) {}

  StagePtr on(StagePtr from) const override { return make_shuffle_stage(std::move(from), seed_); }
  bool indexed() const override { return true; }
  std::unique_ptr<IndexedReader> open_indexed(const DataPass& pass) const override {
    return std::make_unique<ShuffledReader>(layout(), from()->open_indexed(pass),
                                            fold_key(seed_, pass.round));
  }
  uint64_t order_key(uint64_t round) const override {
    return combined_key(fold_key(seed_, round), from()->order_key(round));
  }

 private:
  uint64_t seed_;
};

// Keeps `buffer` items read ahead; each item is drawn from them and replaced by the next one. These
// are read a block at a time, but no more than are drawn and than the buffer holds: so a map before
// it has work for its threads. A pass that is stopped ends between two blocks.
class BufferedShuffleReader final : public Reader {
 public:
  BufferedShuffleReader(std::unique_ptr<Reader> from, const ItemLayout& layout, ItemStore buffer,
                        const DataPass& pass, uint64_t key)
      : layout_(layout),
        from_(std::move(from)),
        buffer_(std::move(buffer)),
        pass_(pass),
        key_(key) {}

  int64_t read(int64_t count, const FieldAddresses& out) override {
    return draw(count, [&](int64_t from, int64_t to) {
      copy_items(layout_, buffer_.item(from), out.advanced(layout_, to), 1);
    });
  }
  int64_t skip(int64_t count) override {
    return draw(count, [](int64_t, int64_t) {});
  }

 private:
  template <class Deliver>
  int64_t draw(int64_t count, Deliver deliver) {
    if (!filled_) fill();
    int64_t done = 0;
    while (done < count && held_ > 0 && !pass_.stopped()) {
      const int64_t part = std::min({count - done, kShuffledAtOnce, buffer_.most()});
      const int64_t fresh = read_fresh(part);
      for (int64_t i = 0; i < part && held_ > 0; ++i, ++done) {
        const uint64_t word = random_bits(key_, drawn_++);
        const auto chosen = static_cast<int64_t>((word * static_cast<uint64_t>(held_)) >> 32);
        deliver(chosen, done);
        if (i < fresh) {
          copy_items(layout_, fresh_.item(i), buffer_.item(chosen), 1);
        } else if (chosen != --held_) {
          copy_items(layout_, buffer_.item(held_), buffer_.item(chosen), 1);
        }
      }
    }
    return done;
  }

  void fill() {
    while (!ended_ && held_ < buffer_.most() && !pass_.stopped()) {
      const int64_t part = buffer_.make_room(held_);
      const int64_t got = from_->read(part, buffer_.item(held_));
      held_ += got;
      ended_ = got < part;
    }
    filled_ = true;
  }

  // Reads the items that replace the next `count` ones; fewer at the end of the pass.
  int64_t read_fresh(int64_t count) {
    if (ended_) return 0;
    if (fresh_.items() < count) fresh_ = ItemBlock(layout_, count);
    const int64_t got = from_->read(count, fresh_.item(0));
    ended_ = got < count;
    return got;
  }

  const ItemLayout& layout_;
  std::unique_ptr<Reader> from_;
  ItemStore buffer_;
  ItemBlock fresh_;
  DataPass pass_;
  uint64_t key_;
  uint64_t drawn_ = 0;
  int64_t held_ = 0;
  bool filled_ = false;
  bool ended_ = false;
};

class BufferedShuffleStage final : public DerivedStage {
 public:
  BufferedShuffleStage(StagePtr from, int64_t buffer, uint64_t seed, CallSite site)
      : DerivedStage(std::move(from)), buffer_(buffer), seed_(seed), site_(site) {}

  StagePtr on(StagePtr from) const override {
    return make_buffered_shuffle_stage(std::move(from), buffer_, seed_, site_);
  }
  std::unique_ptr<Reader> open(const DataPass& pass) const override {
    ItemStore buffer(layout(), std::min(buffer_, from()->size().value_or(buffer_)),
                     {"shuffle_buffered", "give it a smaller buffer", site_});
    return std::make_unique<BufferedShuffleReader>(from()->open(pass), layout(), std::move(buffer),
                                                   pass, fold_key(seed_, pass.round));
  }
  // The order depends on the buffer as it does on the seed. The buffer counts as it was given, also
  // where it is larger than the pass: an iterator may not know the size of one that a device cache
  // knows, and both have one key.
  uint64_t order_key(uint64_t round) const override {
    const uint64_t own = fold_key(fold_key(kBufferedKey, static_cast<uint64_t>(buffer_)), seed_);
    return combined_key(fold_key(own, round), from()->order_key(round));
  }

 private:
  int64_t buffer_;
  uint64_t seed_;
  CallSite site_;
};

}  // namespace

StagePtr make_shuffle_stage(StagePtr from, uint64_t seed) {
  if (!from->indexed()) {
    throw Error({.op = "shuffle",
                 .message = "the items before it come in order only",
                 .fix = "put prefetch() and repeat() behind the shuffle, or use "
                        "shuffle_buffered(buffer, seed), or cache() before it"});
  }
  return std::make_shared<ShuffleStage>(std::move(from), seed);
}

StagePtr make_buffered_shuffle_stage(StagePtr from, int64_t buffer, uint64_t seed, CallSite site) {
  if (buffer < 1) {
    throw Error({.op = "shuffle_buffered",
                 .argument = "buffer",
                 .expected = "at least 1",
                 .got = std::to_string(buffer),
                 .kind = ErrorKind::kInvalidArgument});
  }
  return std::make_shared<BufferedShuffleStage>(std::move(from), buffer, seed, site);
}

}  // namespace keel
