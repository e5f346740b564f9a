#include "keel/data/pipeline/iterator.h"

#include <algorithm>
#include <limits>

#include "keel/core/base/checked.h"
#include "keel/data/pipeline/stages.h"

namespace keel {
namespace {

// Items passed over at a time when a cursor is restored, between looks at the stop flag; where one
// element is made of more, those of one element.
constexpr int64_t kSkipAtOnce = 4096;

Error cursor_error(const std::string& argument, const std::string& expected,
                   const std::string& got) {
  return Error({.op = "restore", .argument = argument, .expected = expected, .got = got});
}

}  // namespace

struct DatasetIterator::State {
  State(const Dataset& dataset_in, const std::atomic<bool>* stop_in)
      : dataset(dataset_in), stop(stop_in) {
    const Repetition repetition = outermost_repetition(dataset.stage());
    stage = repetition.from;
    epochs = repetition.times.value_or(std::numeric_limits<int64_t>::max());
    endless = !repetition.times;
    size = stage->size();
  }

  bool stopped() const { return stop != nullptr && stop->load(std::memory_order_relaxed); }
  void open() {
    reader = stage->open({.round = static_cast<uint64_t>(epoch), .stop = stop});
    if (skip_in(done) < done && !stage->pads() && !stopped()) {
      throw cursor_error("cursor", "a place in this dataset",
                         std::to_string(done) + " elements in a pass that is shorter");
    }
  }
  int64_t skip_in(int64_t count) {
    const int64_t at_once = std::max<int64_t>(1, kSkipAtOnce / stage->items_per_element());
    int64_t skipped = 0;
    while (skipped < count && !stopped()) {
      const int64_t part = std::min(at_once, count - skipped);
      const int64_t got = reader->skip(part);
      skipped += got;
      if (got < part) break;
    }
    return skipped;
  }
  // Reads the next element of the epoch. A failed reader has passed items over: the next call
  // begins anew behind what has been read.
  bool read(const FieldAddresses& out) {
    try {
      if (!reader) open();
      return reader->read(1, out) == 1;
    } catch (...) {
      reader.reset();
      throw;
    }
  }
  void next_epoch() {
    reader.reset();
    ++epoch;
    done = 0;
  }

  Dataset dataset;
  const std::atomic<bool>* stop;
  StagePtr stage;  // what one epoch yields
  int64_t epochs = 0;
  bool endless = false;
  std::optional<int64_t> size;
  std::unique_ptr<Reader> reader;
  int64_t epoch = 0;
  int64_t done = 0;  // elements of this epoch behind us
};

DatasetIterator::DatasetIterator(const Dataset& dataset, const std::atomic<bool>* stop)
    : state_(std::make_unique<State>(dataset, stop)) {}
DatasetIterator::~DatasetIterator() = default;
DatasetIterator::DatasetIterator(DatasetIterator&&) noexcept = default;
DatasetIterator& DatasetIterator::operator=(DatasetIterator&&) noexcept = default;

bool DatasetIterator::next_into(std::span<void* const> fields) {
  State& s = *state_;
  const size_t expected = s.stage->layout().fields();
  if (fields.size() != expected) {
    throw Error({.op = "dataset",
                 .argument = "fields",
                 .expected = std::to_string(expected),
                 .got = std::to_string(fields.size())});
  }
  const FieldAddresses out(fields);
  while (s.epoch < s.epochs && !s.stopped()) {
    const bool got = s.read(out);
    if (s.stopped()) {
      // It has passed an element over, or a part of one.
      s.reader.reset();
      return false;
    }
    if (got) {
      ++s.done;
      // Where the pass is known to be over, the cursor already names the next one.
      if (s.size && s.done >= *s.size) s.next_epoch();
      return true;
    }
    const bool last = s.done == 0 && ends_with_empty_pass(*s.stage, s.endless);
    s.next_epoch();
    if (last) s.epoch = s.epochs;
  }
  return false;
}

std::optional<std::vector<Tensor>> DatasetIterator::next() {
  std::vector<Tensor> tensors;
  std::vector<void*> fields;
  for (const FieldSpec& field : state_->dataset.spec().fields) {
    tensors.emplace_back(field.type.dtype, field.type.shape);
    fields.push_back(tensors.back().raw());
  }
  if (!next_into(fields)) return std::nullopt;
  return tensors;
}

Cursor DatasetIterator::cursor() const {
  const State& s = *state_;
  return {.epoch = s.epoch,
          .position = checked_mul(s.done, s.stage->items_per_element(), "cursor"),
          .key = s.stage->order_key(static_cast<uint64_t>(s.epoch))};
}

void DatasetIterator::restore(const Cursor& cursor) {
  State& s = *state_;
  const int64_t unit = s.stage->items_per_element();
  if (cursor.epoch < 0 || cursor.epoch > s.epochs) {
    throw cursor_error("epoch", "0 to " + std::to_string(s.epochs), std::to_string(cursor.epoch));
  }
  if (cursor.position < 0 || cursor.position % unit != 0) {
    throw cursor_error("position",
                       "a multiple of " + std::to_string(unit) + ", the items of one element",
                       std::to_string(cursor.position));
  }
  if (cursor.epoch == s.epochs && cursor.position != 0) {
    throw cursor_error("position", "0 behind the last of " + std::to_string(s.epochs) + " epochs",
                       std::to_string(cursor.position));
  }
  const int64_t done = cursor.position / unit;
  if (s.size && done > *s.size && !s.stage->pads()) {
    throw cursor_error("position", "at most " + std::to_string(*s.size * unit),
                       std::to_string(cursor.position));
  }
  const uint64_t key = s.stage->order_key(static_cast<uint64_t>(cursor.epoch));
  if (cursor != Cursor{} && cursor.key != key) {
    throw cursor_error(
        "key",
        std::to_string(key) + ", as this dataset shuffles, interleaves and batches what it joins",
        std::to_string(cursor.key));
  }
  s.reader.reset();
  s.epoch = cursor.epoch;
  s.done = done;
  if (s.size && done > 0 && done >= *s.size) s.next_epoch();
}

}  // namespace keel
