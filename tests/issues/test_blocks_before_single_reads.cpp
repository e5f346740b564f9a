// The threads of a map had nothing to do behind which a buffered shuffle or an interleaving of
// small blocks stood: these read its items one by one. Also, an unsized generator was called by two
// threads at once where two parts of an interleaving read it.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "keel/data/pipeline/dataset.h"
#include "keel/data/pipeline/iterator.h"
#include "keel/data/pipeline/stages.h"

TEST_SUITE_BEGIN("pipeline");

namespace {

using keel::Cursor;
using keel::DataPass;
using keel::Dataset;
using keel::DatasetIterator;
using keel::ElementSpec;
using keel::FieldAddresses;
using keel::ItemSlot;
using keel::Reader;
using keel::Tail;
using Numbers = std::vector<int64_t>;

const ElementSpec kNumber{{{"n", {keel::i64, {}}}}};

// Items first, first + 1, ... in order only; notes how many each read asks for.
class NotingStage final : public keel::Stage {
 public:
  NotingStage(int64_t count, int64_t first) : Stage(kNumber), count_(count), first_(first) {}
  std::optional<int64_t> size() const override { return std::nullopt; }
  uint64_t order_key(uint64_t) const override { return 0; }
  std::unique_ptr<Reader> open(const DataPass&) const override;

  mutable Numbers asked;
  mutable int64_t given = 0;  // of the last pass

 private:
  class Numbered;
  int64_t count_;
  int64_t first_;
};

class NotingStage::Numbered final : public Reader {
 public:
  explicit Numbered(const NotingStage& stage) : stage_(stage) { stage_.given = 0; }
  int64_t read(int64_t count, const FieldAddresses& out) override {
    stage_.asked.push_back(count);
    count = skip(count);
    for (int64_t i = 0; i < count && out[0] != nullptr; ++i)
      static_cast<int64_t*>(out[0])[i] = stage_.first_ + stage_.given - count + i;
    return count;
  }
  int64_t skip(int64_t count) override {
    count = std::min(count, stage_.count_ - stage_.given);
    stage_.given += count;
    return count;
  }

 private:
  const NotingStage& stage_;
};

std::unique_ptr<Reader> NotingStage::open(const DataPass&) const {
  return std::make_unique<Numbered>(*this);
}

std::shared_ptr<const NotingStage> noting(int64_t count, int64_t first = 0) {
  return std::make_shared<NotingStage>(count, first);
}

// The first field's numbers without padding, and the cursor behind each element.
struct Walk {
  Numbers numbers;
  std::vector<Cursor> cursors;
};

Walk walk(const Dataset& dataset, const Cursor& from = {}) {
  DatasetIterator iterator(dataset);
  iterator.restore(from);
  Walk walked;
  while (const auto element = iterator.next()) {
    const auto numbers = (*element)[0].data<int64_t>();
    for (size_t i = 0; i < numbers.size(); ++i) {
      if (element->size() == 1 || (*element)[1].data<bool>()[i])
        walked.numbers.push_back(numbers[i]);
    }
    walked.cursors.push_back(iterator.cursor());
  }
  return walked;
}

// Items that are read one by one, in batches and behind a prefetch are the same, and so is the rest
// behind every cursor.
void check_batched(const Dataset& items) {
  const Numbers one_by_one = walk(items).numbers;
  for (const int64_t size : {2, 3, 7, 64, 1000}) {
    CAPTURE(size);
    const Dataset batches = items.batch(size, Tail::kPad);
    const Walk walked = walk(batches);
    CHECK(walked.numbers == one_by_one);
    CHECK(walk(items.prefetch(size)).numbers == one_by_one);
    for (size_t i = 0; i < walked.cursors.size(); ++i) {
      const auto done = std::min(one_by_one.size(), (i + 1) * static_cast<size_t>(size));
      const Numbers rest(one_by_one.begin() + static_cast<std::ptrdiff_t>(done), one_by_one.end());
      REQUIRE(walk(batches, walked.cursors[i]).numbers == rest);
    }
  }
}

}  // namespace

TEST_CASE("a buffered shuffle reads as many items at once as are drawn and no more") {
  const auto source = noting(100);
  DatasetIterator iterator(Dataset(source).shuffle_buffered(20, 1).batch(32));
  CHECK(iterator.next());
  CHECK(source->asked == Numbers{20, 20, 12});
  CHECK(source->given == 52);
  CHECK(iterator.next());
  CHECK(iterator.next());
  CHECK_FALSE(iterator.next());
  CHECK(source->asked == Numbers{20, 20, 12, 20, 12, 20});
}

TEST_CASE("an interleaving reads at once what each part has of a read and no more") {
  const auto a = noting(1000), b = noting(1000, 1000), c = noting(1000, 2000);
  const std::vector<Dataset> parts{Dataset(a), Dataset(b), Dataset(c)};
  DatasetIterator iterator(Dataset::interleave(parts, 2).batch(64));
  CHECK(iterator.next());
  CHECK(a->asked == Numbers{22});
  CHECK(b->asked == Numbers{22});
  CHECK(c->asked == Numbers{20});
  CHECK(iterator.next());
  CHECK(a->given + b->given + c->given == 128);
  CHECK(c->asked == Numbers{20, 22});
  // Blocks that are as large are read where they are wanted.
  DatasetIterator blocks(Dataset::interleave(parts, 64).batch(64));
  CHECK(blocks.next());
  CHECK(a->asked.back() == 64);
  CHECK(b->given == 0);
}

TEST_CASE(
    "items that shuffles and interleavings read in blocks come in the order of single reads") {
  for (const int64_t buffer : {1, 2, 10, 300}) {
    CAPTURE(buffer);
    for (const int64_t count : {0, 1, 9, 10, 11, 150, 700})
      if (count > 0 || buffer == 1)
        check_batched(Dataset(noting(count)).shuffle_buffered(buffer, 3));
  }
  for (const int64_t block : {1, 2, 5, 40}) {
    CAPTURE(block);
    check_batched(Dataset::interleave({Dataset(noting(83)), Dataset(noting(7, 100))}, block));
    check_batched(
        Dataset::interleave({Dataset(noting(5)), Dataset(noting(50, 100)), Dataset(noting(0, 200)),
                             Dataset(noting(300, 300)), Dataset(noting(50, 700))},
                            block));
    check_batched(Dataset::interleave({Dataset(noting(600))}, block));
  }
}

TEST_CASE("a generator without a size is called one at a time whoever reads it") {
  std::atomic<int> inside{0};
  std::atomic<bool> overlapped{false};
  const Dataset numbers = Dataset::from_generator(kNumber, [&](int64_t index, const ItemSlot& out) {
    if (++inside > 1) overlapped = true;
    std::this_thread::yield();
    out.data<int64_t>(0)[0] = index;
    --inside;
    return index < 500;
  });
  const Dataset both = Dataset::interleave({numbers.prefetch(4), numbers, numbers.prefetch(2)});
  CHECK(walk(both).numbers.size() == 1500);
  CHECK_FALSE(overlapped.load());
}

TEST_SUITE_END();
