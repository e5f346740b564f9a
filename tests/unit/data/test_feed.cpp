#include <array>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>

#include <doctest/doctest.h>

#include "keel/core/base/random.h"
#include "keel/data/feed/feed.h"

#include "host_device_for_tests.h"

TEST_SUITE_BEGIN("pipeline");

namespace {

using keel::Cursor;
using keel::Dataset;
using keel::DequeueStatus;
using keel::DeviceQueue;
using keel::Error;
using keel::Feeder;
using keel::FeedOptions;
using keel::FeedSpec;
using keel::Tail;
using keel::Tensor;

constexpr int64_t kNumberedItems = 103;

// Item i: image of eleven bytes i, label i mod 10.
Dataset numbered_set(int64_t items = kNumberedItems) {
  Tensor images(keel::u8, {items, 11});
  Tensor labels(keel::i32, {items});
  for (int64_t i = 0; i < items; ++i) {
    for (int64_t j = 0; j < 11; ++j) images.set(i * 11 + j, static_cast<double>(i % 256));
    labels.set(i, static_cast<double>(i));
  }
  return Dataset::from_tensors({{"image", images}, {"label", labels}});
}

FeedSpec batch_spec(keel::testing::HostBackend& host, int64_t batch, bool mask = false) {
  FeedSpec spec{host.device(),
                {{{"image", {keel::u8, {batch, 11}}}, {"label", {keel::i32, {batch}}}}}};
  if (mask) spec.element.fields.push_back({"mask", {keel::boolean, {batch}}});
  return spec;
}

struct Batch {
  std::vector<int32_t> labels;
  std::vector<bool> mask;
  Cursor cursor;
};

struct Drained {
  std::vector<Batch> batches;
  DequeueStatus end = DequeueStatus::kElement;
};

Drained drain(const std::shared_ptr<DeviceQueue>& queue, size_t most = 1000000) {
  Drained drained;
  const auto& fields = queue->spec().fields;
  const auto size = static_cast<size_t>(fields[1].type.shape[0]);
  std::vector<void*> at(fields.size());
  while (drained.batches.size() < most) {
    Batch batch;
    drained.end = queue->dequeue(at, &batch.cursor, nullptr);
    if (drained.end != DequeueStatus::kElement) break;
    batch.labels.resize(size);
    std::memcpy(batch.labels.data(), at[1], size * sizeof(int32_t));
    for (size_t i = 0; i < size; ++i) {
      CHECK(static_cast<const uint8_t*>(at[0])[i * 11 + 10] ==
            static_cast<uint8_t>(batch.labels[i]));
    }
    if (fields.size() == 3) {
      for (size_t i = 0; i < size; ++i) batch.mask.push_back(static_cast<const bool*>(at[2])[i]);
    }
    queue->release();
    drained.batches.push_back(std::move(batch));
  }
  return drained;
}

Drained drain(const Feeder& feeder, size_t most = 1000000) { return drain(feeder.queue(), most); }

}  // namespace

TEST_CASE(
    "feed: a shuffled pass is the permutation keyed by seed and epoch without its incomplete "
    "batch") {
  keel::testing::HostBackend host;
  const Dataset dataset = numbered_set().shuffle(7).batch(10).repeat(3);
  CHECK(dataset.dropped_items() == 3);
  const auto feeder = keel::feed(dataset, batch_spec(host, 10));
  const Drained drained = drain(*feeder);
  CHECK(drained.end == DequeueStatus::kEndOfData);
  REQUIRE(drained.batches.size() == 30);
  for (uint64_t epoch = 0; epoch < 3; ++epoch) {
    const uint64_t key = keel::fold_key(7, epoch);
    const auto order = keel::shuffled_indices(kNumberedItems, key);
    for (size_t b = 0; b < 10; ++b) {
      const Batch& batch = drained.batches[epoch * 10 + b];
      for (size_t i = 0; i < 10; ++i)
        CHECK(batch.labels[i] == static_cast<int32_t>(order[b * 10 + i]));
      const Cursor inside{static_cast<int64_t>(epoch), static_cast<int64_t>(b + 1) * 10, key};
      const Cursor next{static_cast<int64_t>(epoch) + 1, 0, keel::fold_key(7, epoch + 1)};
      CHECK(batch.cursor == (b == 9 ? next : inside));
    }
  }
  CHECK(feeder->queue()->counters().enqueued == 30);
}

TEST_CASE("feed: opening at any cursor yields exactly the rest") {
  keel::testing::HostBackend host;
  const Dataset dataset = numbered_set(37).shuffle(3).batch(5).repeat(3);
  const auto feeder = keel::feed(dataset, batch_spec(host, 5), {.depth = 2});
  const Drained whole = drain(*feeder);
  REQUIRE(whole.batches.size() == 21);
  for (size_t cut = 0; cut < whole.batches.size(); ++cut) {
    feeder->open(whole.batches[cut].cursor);
    const Drained rest = drain(*feeder);
    REQUIRE(rest.batches.size() == whole.batches.size() - cut - 1);
    for (size_t i = 0; i < rest.batches.size(); ++i) {
      CHECK(rest.batches[i].labels == whole.batches[cut + 1 + i].labels);
      CHECK(rest.batches[i].cursor == whole.batches[cut + 1 + i].cursor);
    }
  }
  const auto resumed = keel::feed(dataset, batch_spec(host, 5), {.start = whole.batches[8].cursor});
  CHECK(drain(*resumed, 1).batches[0].labels == whole.batches[9].labels);
}

TEST_CASE("feed: evaluation pads the last batch and masks the padding") {
  keel::testing::HostBackend host;
  const auto feeder =
      keel::feed(numbered_set(23).batch(10, Tail::kPad), batch_spec(host, 10, true));
  const Drained drained = drain(*feeder);
  REQUIRE(drained.batches.size() == 3);
  int32_t next = 0;
  for (const Batch& batch : drained.batches) {
    for (size_t i = 0; i < 10; ++i) {
      CHECK(batch.mask[i] == (next < 23));
      CHECK(batch.labels[i] == (next < 23 ? next : 0));
      ++next;
    }
  }
}

TEST_CASE("feed: an endless feed stops within a second and can be opened again") {
  keel::testing::HostBackend host;
  const auto feeder =
      keel::feed(numbered_set().shuffle(1).batch(4).repeat(), batch_spec(host, 4), {.depth = 3});
  const Drained first = drain(*feeder, 200);
  REQUIRE(first.batches.size() == 200);
  const std::shared_ptr<DeviceQueue> queue = feeder->queue();
  const auto begin = std::chrono::steady_clock::now();
  feeder->stop();
  feeder->stop();
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(1));
  CHECK(feeder->queue() == nullptr);
  // What had been committed is still there, then the queue is closed.
  CHECK(drain(queue).end == DequeueStatus::kClosed);
  feeder->open({});
  CHECK(drain(*feeder, 1).batches[0].labels == first.batches[0].labels);
}

TEST_CASE("feed: a throwing map fails the queue behind the good elements and names item and line") {
  keel::testing::HostBackend host;
  const auto check = [](const keel::ItemView& in, const keel::ItemSlot& out) {
    if (in.data<int32_t>(1)[0] == 17) throw std::runtime_error("seventeen");
    std::memcpy(out.data<uint8_t>(0).data(), in.data<uint8_t>(0).data(), 11);
    out.data<int32_t>(1)[0] = in.data<int32_t>(1)[0];
  };
  const Dataset mapped = numbered_set().map(numbered_set().spec(), check, {.name = "check"});
  const int line = __LINE__ - 1;
  const Dataset dataset = mapped.batch(5);
  const auto feeder = keel::feed(dataset, batch_spec(host, 5));
  const Drained drained = drain(*feeder);
  CHECK(drained.batches.size() == 3);
  REQUIRE(drained.end == DequeueStatus::kFailed);
  const std::string text = feeder->queue()->failure().what();
  CHECK(text.find("map 'check': item 17: seventeen") != std::string::npos);
  CHECK(feeder->queue()->failure().info().site.line == line);
}

TEST_CASE("feed: fields pair by name or in order and types must be equal") {
  keel::testing::HostBackend host;
  const Dataset batches = numbered_set().batch(10);
  const FeedSpec swapped{host.device(),
                         {{{"label", {keel::i32, {10}}}, {"image", {keel::u8, {10, 11}}}}}};
  const FeedSpec only{host.device(), {{{"label", {keel::i32, {10}}}}}};
  const FeedSpec renamed{host.device(), {{{"x", {keel::u8, {10, 11}}}, {"y", {keel::i32, {10}}}}}};
  const auto first_label = [](const std::shared_ptr<Feeder>& feeder, size_t field) {
    std::vector<void*> at(feeder->queue()->spec().fields.size());
    Cursor cursor;
    REQUIRE(feeder->queue()->dequeue(at, &cursor, nullptr) == DequeueStatus::kElement);
    return static_cast<const int32_t*>(at[field])[3];
  };
  CHECK(first_label(keel::feed(batches, swapped), 0) == 3);
  CHECK(first_label(keel::feed(batches, only), 0) == 3);
  CHECK(first_label(keel::feed(batches, renamed), 1) == 3);

  const FeedSpec wrong_type{host.device(),
                            {{{"image", {keel::f32, {10, 11}}}, {"label", {keel::i32, {10}}}}}};
  CHECK_THROWS_WITH_AS(keel::feed(batches, wrong_type), doctest::Contains("field 'image'"), Error);
  const FeedSpec wrong_size{host.device(),
                            {{{"image", {keel::u8, {20, 11}}}, {"label", {keel::i32, {20}}}}}};
  CHECK_THROWS_AS(keel::feed(batches, wrong_size), Error);
  // A mask that the model does not take would let padding count as data.
  CHECK_THROWS_AS(keel::feed(numbered_set().batch(10, Tail::kPad), batch_spec(host, 10)), Error);
  // Two fields of one type whose names say the opposite of their order.
  const Tensor column(keel::f32, {8});
  const Dataset ab = Dataset::from_tensors({{"a", column}, {"b", column}}).batch(2);
  const FeedSpec crossed{host.device(), {{{"b", {keel::f32, {2}}}, {"c", {keel::f32, {2}}}}}};
  CHECK_THROWS_AS(keel::feed(ab, crossed), Error);
}

TEST_CASE("feed: cursors of another dataset are refused") {
  keel::testing::HostBackend host;
  const Dataset dataset = numbered_set().shuffle(7).batch(10).repeat(2);
  const FeedSpec spec = batch_spec(host, 10);
  CHECK_THROWS_WITH_AS(keel::feed(dataset, spec, {.start = {0, 10, 1}}), doctest::Contains("key"),
                       Error);
  const uint64_t key = keel::fold_key(7, 0);
  CHECK_THROWS_WITH_AS(keel::feed(dataset, spec, {.start = {0, 7, key}}),
                       doctest::Contains("position"), Error);
  CHECK_THROWS_AS(keel::feed(dataset, spec, {.start = {0, 110, key}}), Error);
  CHECK_THROWS_AS(keel::feed(dataset, spec, {.start = {0, -10, key}}), Error);
  CHECK_THROWS_AS(keel::feed(dataset, spec, {.start = {-1, 0, key}}), Error);
  CHECK_THROWS_AS(keel::feed(dataset, spec, {.start = {3, 0, keel::fold_key(7, 3)}}), Error);
  const auto at_end = keel::feed(dataset, spec, {.start = {2, 0, keel::fold_key(7, 2)}});
  CHECK(drain(*at_end).batches.empty());
}

TEST_SUITE_END();
