// Slices: take, skip and shard.
#include <algorithm>
#include <limits>

#include "keel/data/pipeline/stages.h"

namespace keel {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

class SlicedIndexedReader final : public IndexedReader {
 public:
  SlicedIndexedReader(const ItemLayout& layout, std::unique_ptr<IndexedReader> from, int64_t first,
                      int64_t step, int64_t size)
      : layout_(layout), from_(std::move(from)), first_(first), step_(step), size_(size) {}
  int64_t size() const override { return size_; }
  void gather(std::span<const int64_t> items, const FieldAddresses& out) const override {
    gather_mapped(*from_, layout_, items, out, [&](int64_t i) { return first_ + i * step_; });
  }
  bool locate(std::span<const int64_t> items, FieldAddresses* where) const override {
    return locate_mapped(*from_, items, where, [&](int64_t i) { return first_ + i * step_; });
  }

 private:
  const ItemLayout& layout_;
  std::unique_ptr<IndexedReader> from_;
  int64_t first_;
  int64_t step_;
  int64_t size_;
};

class SlicedReader final : public Reader {
 public:
  SlicedReader(const ItemLayout& layout, std::unique_ptr<Reader> from, int64_t first, int64_t step,
               int64_t limit)
      : layout_(layout), from_(std::move(from)), gap_(first), step_(step), rest_(limit) {}
  int64_t read(int64_t count, const FieldAddresses& out) override {
    return walk(count, [&](int64_t done, int64_t part) {
      return from_->read(part, out.advanced(layout_, done));
    });
  }
  int64_t skip(int64_t count) override {
    return walk(count, [&](int64_t, int64_t part) { return from_->skip(part); });
  }

 private:
  template <class Pass>
  int64_t walk(int64_t count, Pass pass) {
    count = std::min(count, rest_);
    int64_t done = 0;
    while (done < count) {
      if (gap_ > 0 && from_->skip(gap_) < gap_) break;
      const int64_t part = step_ == 1 ? count - done : 1;
      const int64_t got = pass(done, part);
      done += got;
      gap_ = step_ - 1;
      if (got < part) break;
    }
    rest_ = done < count ? 0 : rest_ - done;
    return done;
  }

  const ItemLayout& layout_;
  std::unique_ptr<Reader> from_;
  int64_t gap_;  // items to pass over before the next one
  int64_t step_;
  int64_t rest_;
};

class SliceStage final : public DerivedStage {
 public:
  SliceStage(StagePtr from, int64_t first, int64_t step, int64_t limit)
      : DerivedStage(std::move(from)), first_(first), step_(step), limit_(limit) {}

  StagePtr on(StagePtr from) const override {
    return make_slice_stage(std::move(from), first_, step_, limit_);
  }
  std::optional<int64_t> size() const override {
    if (const auto before = from()->size()) return size_of_slice(*before);
    if (from()->endless() && limit_ != kNoLimit) return limit_;
    return std::nullopt;
  }
  bool indexed() const override { return from()->indexed(); }
  std::unique_ptr<IndexedReader> open_indexed(const DataPass& pass) const override {
    auto reader = from()->open_indexed(pass);
    const int64_t size = size_of_slice(reader->size());
    return std::make_unique<SlicedIndexedReader>(layout(), std::move(reader), first_, step_, size);
  }
  std::unique_ptr<Reader> open(const DataPass& pass) const override {
    if (indexed()) return open_indexed(pass);
    return std::make_unique<SlicedReader>(layout(), from()->open(pass), first_, step_, limit_);
  }
  bool same_items() const override { return passes_alike(*from()); }
  bool endless() const override { return from()->endless() && limit_ == kNoLimit; }
  int64_t number_of_all(int64_t item) const override {
    // Items that were taken or skipped are no shard.
    return from()->number_of_all(step_ == 1 ? item : item * step_ + first_);
  }
  std::optional<int64_t> dropped_items() const override {
    return from()->dropped_items() == 0 ? std::optional<int64_t>(0) : std::nullopt;
  }

 private:
  int64_t size_of_slice(int64_t before) const {
    if (before <= first_) return 0;
    return std::min(limit_, (before - first_ - 1) / step_ + 1);
  }

  int64_t first_;
  int64_t step_;
  int64_t limit_;
};

}  // namespace

StagePtr make_slice_stage(StagePtr from, int64_t first, int64_t step,
                          std::optional<int64_t> limit) {
  return std::make_shared<SliceStage>(std::move(from), first, step, limit.value_or(kNoLimit));
}

}  // namespace keel
