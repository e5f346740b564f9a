// Stages that string the items of several pipelines together: one after the other, or in turns.
#include <algorithm>

#include "keel/core/base/checked.h"
#include "keel/core/base/random.h"
#include "keel/data/pipeline/block.h"
#include "keel/data/pipeline/stages.h"

namespace keel {
namespace {

// Items that an interleaving reads of one part at a time, where it has that many to give.
constexpr int64_t kInterleavedAtOnce = 256;
// Turns of an interleaving between two looks at the stop flags of its pass.
constexpr int64_t kTurnsAtOnce = 256;

void check_same_items(const char* op, const std::vector<StagePtr>& parts) {
  for (const StagePtr& part : parts) {
    if (part->layout().spec == parts[0]->layout().spec) continue;
    throw Error({.op = op,
                 .argument = "parts",
                 .expected = "items " + to_string(parts[0]->layout().spec) + " in all of them",
                 .got = to_string(part->layout().spec)});
  }
}

class ConcatenatedIndexedReader final : public IndexedReader {
 public:
  ConcatenatedIndexedReader(const ItemLayout& layout, std::unique_ptr<IndexedReader> first,
                            std::unique_ptr<IndexedReader> second)
      : layout_(layout),
        first_(std::move(first)),
        second_(std::move(second)),
        border_(first_->size()),
        size_(border_ + second_->size()) {}
  int64_t size() const override { return size_; }
  void gather(std::span<const int64_t> items, const FieldAddresses& out) const override {
    size_t begin = 0;
    while (begin < items.size()) {
      const bool in_first = items[begin] < border_;
      size_t end = begin + 1;
      while (end < items.size() && (items[end] < border_) == in_first) ++end;
      const auto run = items.subspan(begin, end - begin);
      const FieldAddresses to = out.advanced(layout_, static_cast<int64_t>(begin));
      if (in_first) {
        first_->gather(run, to);
      } else {
        gather_mapped(*second_, layout_, run, to, [&](int64_t i) { return i - border_; });
      }
      begin = end;
    }
  }

 private:
  const ItemLayout& layout_;
  std::unique_ptr<IndexedReader> first_;
  std::unique_ptr<IndexedReader> second_;
  int64_t border_;  // number of the second one's first item
  int64_t size_;
};

class ConcatenatedReader final : public Reader {
 public:
  ConcatenatedReader(const ItemLayout& layout, std::unique_ptr<Reader> first,
                     std::unique_ptr<Reader> second)
      : layout_(layout), first_(std::move(first)), second_(std::move(second)) {}
  int64_t read(int64_t count, const FieldAddresses& out) override {
    const int64_t done = in_first_ ? first_->read(count, out) : 0;
    if (done == count) return done;
    in_first_ = false;
    return done + second_->read(count - done, out.advanced(layout_, done));
  }
  int64_t skip(int64_t count) override {
    const int64_t done = in_first_ ? first_->skip(count) : 0;
    if (done == count) return done;
    in_first_ = false;
    return done + second_->skip(count - done);
  }

 private:
  const ItemLayout& layout_;
  std::unique_ptr<Reader> first_;
  std::unique_ptr<Reader> second_;
  bool in_first_ = true;
};

// Holds what all stages made of several others have in common.
class SequenceStage : public Stage {
 public:
  explicit SequenceStage(std::vector<StagePtr> parts)
      : Stage(parts[0]->layout().spec),
        parts_(std::move(parts)),
        // Where the parts' batches differ, cursors count elements.
        items_per_element_(have_equal_batches(parts_) ? parts_[0]->items_per_element() : 1),
        has_batches_(std::any_of(parts_.begin(), parts_.end(), [](const StagePtr& part) {
          return part->items_per_element() > 1;
        })) {}

  const std::vector<StagePtr>& parts() const noexcept { return parts_; }
  std::optional<int64_t> size() const override { return sum(&Stage::size); }
  std::optional<int64_t> dropped_items() const override { return sum(&Stage::dropped_items); }
  // Where a part of batches begins depends on how many items the batches of the others leave out or
  // take in turns, so that a number of items names no place for other batches: the key lets only
  // cursors of the same ones in.
  uint64_t order_key(uint64_t round) const override {
    const uint64_t key = joint_order_key(parts_, round);
    return has_batches_ ? fold_batches(key, parts_) : key;
  }
  bool same_items() const override {
    return std::all_of(parts_.begin(), parts_.end(),
                       [](const StagePtr& part) { return part->same_items(); });
  }
  bool endless() const override {
    return std::any_of(parts_.begin(), parts_.end(),
                       [](const StagePtr& part) { return part->endless(); });
  }
  int64_t items_per_element() const override { return items_per_element_; }

 private:
  std::optional<int64_t> sum(std::optional<int64_t> (Stage::*number)() const) const {
    int64_t total = 0;
    for (const StagePtr& part : parts_) {
      const auto own = ((*part).*number)();
      if (!own) return std::nullopt;
      total = checked_add(total, *own, "number of items");
    }
    return total;
  }

  std::vector<StagePtr> parts_;
  // Both are worked out once: each question to a part asks all parts of that one in turn.
  int64_t items_per_element_;
  bool has_batches_;
};

class ConcatenateStage final : public SequenceStage {
 public:
  using SequenceStage::SequenceStage;
  bool indexed() const override { return parts()[0]->indexed() && parts()[1]->indexed(); }
  std::unique_ptr<IndexedReader> open_indexed(const DataPass& pass) const override {
    return std::make_unique<ConcatenatedIndexedReader>(layout(), parts()[0]->open_indexed(pass),
                                                       parts()[1]->open_indexed(pass));
  }
  std::unique_ptr<Reader> open(const DataPass& pass) const override {
    if (indexed()) return open_indexed(pass);
    return std::make_unique<ConcatenatedReader>(layout(), parts()[0]->open(pass),
                                                parts()[1]->open(pass));
  }
};

// Reads of each part at once what it has of a read, not only its next block: so a map in it has
// work for its threads.
class InterleavedReader final : public Reader {
 public:
  InterleavedReader(const ItemLayout& layout, std::vector<std::unique_ptr<Reader>> parts,
                    int64_t block, const DataPass& pass)
      : layout_(layout), pass_(pass), block_(block), rest_(block) {
    for (std::unique_ptr<Reader>& part : parts) parts_.push_back({.from = std::move(part)});
  }
  int64_t read(int64_t count, const FieldAddresses& out) override {
    return walk(count, [&](Part& part, int64_t done, int64_t asked) {
      return read_of(part, asked, count - done, out.advanced(layout_, done));
    });
  }
  // Between reads no part has items that were read ahead.
  int64_t skip(int64_t count) override {
    return walk(count, [](Part& part, int64_t, int64_t asked) { return part.from->skip(asked); });
  }

 private:
  struct Part {
    std::unique_ptr<Reader> from;
    ItemBlock ahead = {};  // items [begin, end) of it are read and not given yet
    int64_t begin = 0;
    int64_t end = 0;
    bool ended = false;
  };

  // Writes the next `asked` items of the part in turn, the first of `left` that all parts give.
  int64_t read_of(Part& part, int64_t asked, int64_t left, const FieldAddresses& out) {
    int64_t done = 0;
    while (done < asked) {
      const FieldAddresses to = out.advanced(layout_, done);
      if (part.begin == part.end) {
        if (part.ended) break;
        const int64_t own = std::min(kInterleavedAtOnce, share_of_turn(left - done, asked - done));
        if (own <= asked - done) return done + part.from->read(asked - done, to);
        if (part.ahead.items() < own) part.ahead = ItemBlock(layout_, own);
        const int64_t got = part.from->read(own, part.ahead.item(0));
        part.begin = 0;
        part.end = got;
        part.ended = got < own;
      }
      const int64_t some = std::min(asked - done, part.end - part.begin);
      copy_items(layout_, part.ahead.item(part.begin), to, some);
      part.begin += some;
      done += some;
    }
    return done;
  }

  // Returns how many of the next `left` items the part in turn gives, whose block has `rest` more.
  // Where another part ends meanwhile it gives more, never fewer: what it reads ahead is used up.
  int64_t share_of_turn(int64_t left, int64_t rest) const {
    const auto others = static_cast<int64_t>(parts_.size()) - 1;
    const int64_t behind = left - rest;
    if (others == 0) return left;
    if (behind <= block_) return rest;
    const int64_t turn_of_others = others * block_;
    const int64_t round = turn_of_others + block_;
    return rest + behind / round * block_ + std::max<int64_t>(0, behind % round - turn_of_others);
  }

  template <class Take>
  int64_t walk(int64_t count, Take take) {
    int64_t done = 0;
    for (int64_t turns = 0; done < count && !parts_.empty(); ++turns) {
      if (turns % kTurnsAtOnce == 0 && pass_.stopped()) break;
      const int64_t asked = std::min(rest_, count - done);
      const int64_t got = take(parts_[turn_], done, asked);
      done += got;
      rest_ -= got;
      if (got < asked) {
        parts_.erase(parts_.begin() + static_cast<std::ptrdiff_t>(turn_));
        rest_ = block_;
      } else if (rest_ == 0) {
        ++turn_;
        rest_ = block_;
      }
      if (turn_ >= parts_.size()) turn_ = 0;
    }
    return done;
  }

  const ItemLayout& layout_;
  DataPass pass_;
  std::vector<Part> parts_;  // those that have not ended
  int64_t block_;
  size_t turn_ = 0;
  int64_t rest_;  // of the block in turn
};

class InterleaveStage final : public SequenceStage {
 public:
  InterleaveStage(std::vector<StagePtr> parts, int64_t block)
      : SequenceStage(std::move(parts)), block_(block) {}
  std::unique_ptr<Reader> open(const DataPass& pass) const override {
    std::vector<std::unique_ptr<Reader>> readers;
    for (const StagePtr& part : parts()) readers.push_back(part->open(pass));
    return std::make_unique<InterleavedReader>(layout(), std::move(readers), block_, pass);
  }
  // The order depends on the block, too.
  uint64_t order_key(uint64_t round) const override {
    return fold_key(SequenceStage::order_key(round), static_cast<uint64_t>(block_));
  }

 private:
  int64_t block_;
};

}  // namespace

StagePtr make_concatenate_stage(StagePtr first, StagePtr second) {
  std::vector<StagePtr> parts{std::move(first), std::move(second)};
  check_same_items("concatenate", parts);
  return std::make_shared<ConcatenateStage>(std::move(parts));
}

StagePtr make_interleave_stage(std::vector<StagePtr> parts, int64_t block) {
  check_same_items("interleave", parts);
  if (block < 1) {
    throw Error({.op = "interleave",
                 .argument = "block",
                 .expected = "at least 1",
                 .got = std::to_string(block),
                 .kind = ErrorKind::kInvalidArgument});
  }
  return std::make_shared<InterleaveStage>(std::move(parts), block);
}

}  // namespace keel
