// Batch: items become rows of larger ones. A batch is its items one behind another, so the items
// are written straight into it. One of several shares of a batch passes over the items of the
// others.
#include <cstring>

#include "keel/core/base/checked.h"
#include "keel/data/pipeline/stages.h"

namespace keel {
namespace {

constexpr const char* kMaskField = "mask";

// The fields of the items in a batch: all but the mask.
FieldAddresses without_mask(const FieldAddresses& out, const ItemLayout& items) {
  return FieldAddresses(out.all().first(items.fields()));
}

// Zeros behind the first `real` of `size` items, and the mask.
void pad(const ItemLayout& items, const FieldAddresses& out, int64_t real, int64_t size) {
  const FieldAddresses rest = without_mask(out, items).advanced(items, real);
  for (size_t f = 0; f < items.fields(); ++f) {
    if (rest[f] != nullptr && items.bytes[f] > 0) {
      std::memset(rest[f], 0, static_cast<size_t>(size - real) * items.bytes[f]);
    }
  }
  if (void* mask = out[items.fields()]) {
    std::memset(mask, 1, static_cast<size_t>(real));
    std::memset(static_cast<std::byte*>(mask) + real, 0, static_cast<size_t>(size - real));
  }
}

struct BatchShape {
  const ItemLayout& layout;  // of shares
  const ItemLayout& items;
  int64_t size;  // of a share
  BatchShare share;
  Tail tail;

  // Items of a whole batch.
  int64_t whole() const { return checked_mul(size, share.count, "batch"); }
  int64_t batches_of(int64_t item_count) const {
    return tail == Tail::kDrop ? item_count / whole()
                               : item_count / whole() + (item_count % whole() != 0 ? 1 : 0);
  }
};

class BatchedReader final : public Reader {
 public:
  BatchedReader(const BatchShape& shape, std::unique_ptr<Reader> from)
      : shape_(shape), from_(std::move(from)) {}
  int64_t read(int64_t count, const FieldAddresses& out) override {
    for (int64_t done = 0; done < count; ++done) {
      const FieldAddresses to = out.advanced(shape_.layout, done);
      const int64_t ahead = shape_.size * shape_.share.index;
      const int64_t behind = shape_.whole() - ahead - shape_.size;
      const int64_t passed = ahead == 0 ? 0 : from_->skip(ahead);
      const int64_t got =
          passed < ahead ? 0 : from_->read(shape_.size, without_mask(to, shape_.items));
      const int64_t rest = got < shape_.size || behind == 0 ? 0 : from_->skip(behind);
      const int64_t all = passed + got + rest;
      if (all == 0 || (all < shape_.whole() && shape_.tail == Tail::kDrop)) return done;
      if (shape_.tail == Tail::kPad) pad(shape_.items, to, got, shape_.size);
    }
    return count;
  }
  int64_t skip(int64_t count) override {
    return shape_.batches_of(from_->skip(checked_mul(count, shape_.whole(), "skip")));
  }

 private:
  BatchShape shape_;
  std::unique_ptr<Reader> from_;
};

class BatchedIndexedReader final : public IndexedReader {
 public:
  BatchedIndexedReader(const BatchShape& shape, std::unique_ptr<IndexedReader> from)
      : shape_(shape), from_(std::move(from)), size_(shape.batches_of(from_->size())) {}
  int64_t size() const override { return size_; }
  void gather(std::span<const int64_t> items, const FieldAddresses& out) const override {
    for (size_t i = 0; i < items.size(); ++i)
      write(items[i], out.advanced(shape_.layout, static_cast<int64_t>(i)));
  }

 private:
  void write(int64_t batch, const FieldAddresses& out) const {
    const int64_t first = batch * shape_.whole() + shape_.share.index * shape_.size;
    const int64_t real = std::clamp<int64_t>(from_->size() - first, 0, shape_.size);
    const FieldAddresses rows = without_mask(out, shape_.items);
    std::array<int64_t, kIndexBlock> items;
    for (int64_t begin = 0; begin < real; begin += static_cast<int64_t>(kIndexBlock)) {
      const auto count = static_cast<size_t>(std::min<int64_t>(kIndexBlock, real - begin));
      for (size_t i = 0; i < count; ++i) items[i] = first + begin + static_cast<int64_t>(i);
      from_->gather({items.data(), count}, rows.advanced(shape_.items, begin));
    }
    if (shape_.tail == Tail::kPad) pad(shape_.items, out, real, shape_.size);
  }

  BatchShape shape_;
  std::unique_ptr<IndexedReader> from_;
  int64_t size_;
};

class BatchStage final : public DerivedStage {
 public:
  BatchStage(ElementSpec item, StagePtr from, int64_t size, BatchShare share, Tail tail)
      : DerivedStage(std::move(item), std::move(from)),
        shape_{layout(), this->from()->layout(), size, share, tail} {}

  StagePtr on(StagePtr from) const override {
    return make_batch_stage(std::move(from), shape_.size, shape_.share, shape_.tail);
  }
  std::optional<int64_t> size() const override {
    const auto items = from()->size();
    if (!items) return std::nullopt;
    return shape_.batches_of(*items);
  }
  bool indexed() const override { return from()->indexed(); }
  std::unique_ptr<IndexedReader> open_indexed(const DataPass& pass) const override {
    return std::make_unique<BatchedIndexedReader>(shape_, from()->open_indexed(pass));
  }
  std::unique_ptr<Reader> open(const DataPass& pass) const override {
    if (indexed()) return open_indexed(pass);
    return std::make_unique<BatchedReader>(shape_, from()->open(pass));
  }
  bool same_items() const override { return passes_alike(*from()); }
  int64_t items_per_element() const override {
    return checked_mul(from()->items_per_element(), shape_.whole(), "batch");
  }
  bool pads() const override { return shape_.tail == Tail::kPad || from()->pads(); }
  int64_t number_of_all(int64_t item) const override {
    return from()->number_of_all(item * shape_.share.count + shape_.share.index);
  }
  std::optional<int64_t> dropped_items() const override {
    const auto items = from()->size();
    const auto before = from()->dropped_items();
    if (!items || !before) return std::nullopt;
    const int64_t own = shape_.tail == Tail::kDrop ? *items % shape_.whole() : 0;
    return *before + own * from()->items_per_element();
  }

 private:
  BatchShape shape_;
};

}  // namespace

StagePtr make_batch_stage(StagePtr from, int64_t size, BatchShare share, Tail tail) {
  const auto require = [](bool right, const char* argument, const std::string& expected,
                          int64_t got) {
    if (!right)
      throw Error({.op = "batch",
                   .argument = argument,
                   .expected = expected,
                   .got = std::to_string(got),
                   .kind = ErrorKind::kInvalidArgument});
  };
  require(size >= 1, "size", "at least 1", size);
  require(share.count >= 1, "share.count", "at least 1", share.count);
  require(share.index >= 0 && share.index < share.count, "share.index",
          "0 to " + std::to_string(share.count - 1), share.index);
  const int64_t whole = checked_mul(size, share.count, "batch");
  const auto items = from->size();
  if (items && *items < share.count && tail == Tail::kDrop) {
    throw Error({.op = "batch",
                 .message = "there are too few items for one batch: " + std::to_string(*items) +
                            (share.count == 1 ? std::string()
                                              : " for " + std::to_string(share.count) + " shares"),
                 .fix = "give it more items, or use Tail::kPad"});
  }
  if (items && *items < whole && tail == Tail::kDrop) {
    throw Error({.op = "batch",
                 .argument = "size",
                 .expected = "at most " + std::to_string(*items / share.count) +
                             (share.count == 1 ? ", the number of items"
                                               : ", a share of the number of items"),
                 .got = std::to_string(size)});
  }
  ElementSpec batch;
  for (const FieldSpec& field : from->layout().spec.fields) {
    if (field.name == kMaskField && tail == Tail::kPad) {
      throw Error({.op = "batch", .message = "the items have a field 'mask' already"});
    }
    batch.fields.push_back(
        {field.name, {field.type.dtype, field.type.shape.with_inserted(0, size)}});
  }
  if (tail == Tail::kPad) batch.fields.push_back({kMaskField, {boolean, {size}}});
  return std::make_shared<BatchStage>(std::move(batch), std::move(from), size, share, tail);
}

}  // namespace keel
