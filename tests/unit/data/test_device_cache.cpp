#include <algorithm>
#include <cstring>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/data/feed/feed.h"
#include "keel/data/pipeline/iterator.h"
#include "keel/graph/runtime/trainer.h"
#include "keel/ops/nn/losses.h"
#include "keel/ops/nn/optimizers.h"
#include "keel/ops/ops.h"

#include "host_device_for_tests.h"
#include "runtime_for_tests.h"
#include "support/temp_folder.h"

TEST_SUITE_BEGIN("loop");

namespace {

using namespace keel;
using namespace keel::testing;

constexpr int64_t kCachedItems = 53;
constexpr int64_t kCachedPixels = 12;

// Item i: twelve different bytes, label i mod 3.
Dataset items() {
  Tensor images(u8, {kCachedItems, kCachedPixels});
  Tensor labels(u8, {kCachedItems});
  for (int64_t i = 0; i < kCachedItems; ++i) {
    for (int64_t j = 0; j < kCachedPixels; ++j)
      images.set(i * kCachedPixels + j, static_cast<double>((i * 31 + j * 17) % 256));
    labels.set(i, static_cast<double>(i % 3));
  }
  return Dataset::from_tensors({{"image", images}, {"label", labels}});
}

struct Classifier {
  Graph graph;
  Value image = graph.input("image", u8, {-1, kCachedPixels});
  Value label = graph.input("label", u8, {-1});
  Value w = graph.state("w", from_tensor(Tensor(f32, {kCachedPixels, 3})));
  Value loss = mean(softmax_cross_entropy(matmul(cast(image, f32) / 255.0f, w), label));
  Update update = sgd(0.5).minimize(loss);
};

struct Trained {
  std::vector<double> losses;
  std::string states;
  Cursor cursor;
};

// A device that remembers how many items' copies there were to it, and the largest.
class WeighingBackend : public HostBackend {
 public:
  std::unique_ptr<Stream> make_stream(int, StreamKind) override {
    return std::make_unique<WeighingStream>(*this);
  }

  size_t largest = 0;
  size_t copies = 0;

 private:
  class WeighingStream : public HostStream {
   public:
    explicit WeighingStream(WeighingBackend& backend)
        : HostStream(&backend.copies_until_failure), backend_(backend) {}
    void copy_to_device(Buffer& to, size_t offset, const void* from, size_t bytes) override {
      // Not a row number, of the feed's thread, which takes a cache line.
      if (bytes > 64) {
        backend_.largest = std::max(backend_.largest, bytes);
        ++backend_.copies;
      }
      HostStream::copy_to_device(to, offset, from, bytes);
    }

   private:
    WeighingBackend& backend_;
  };
};

Trained train(const std::string& backend, bool cache, int64_t loop_size, int64_t steps,
              const std::string& load = "", const std::string& save = "") {
  Classifier m;
  Session session(m.graph, device(backend));
  const Dataset source = cache ? items().cache(session.device()) : items();
  const auto feeder = feed(source.shuffle(3).batch(10).repeat(), session.spec({m.image, m.label}));
  Trainer trainer(session, {.update = m.update, .fetches = {m.loss}, .source = feeder});
  if (!load.empty()) trainer.resume(load);
  Trained result;
  trainer.fit({.steps = steps - session.step(),
               .loop_size = loop_size,
               .on_step = [&](int64_t, std::span<const double> values) {
                 result.losses.push_back(values[0]);
               }});
  if (!save.empty()) trainer.save(save);
  result.states = session.state_sha256();
  result.cursor = trainer.cursor();
  return result;
}

}  // namespace

TEST_CASE("device cache: losses states and cursors equal the streamed ones for every loop size") {
  for (const char* backend : {"ref", "cpu", "npu"}) {
    CAPTURE(backend);
    const Trained streamed = train(backend, false, 4, 23);
    REQUIRE(streamed.losses.size() == 23);
    for (const int64_t loop_size : {1, 3, 7, 23, 100}) {
      CAPTURE(loop_size);
      const Trained cached = train(backend, true, loop_size, 23);
      CHECK(cached.losses == streamed.losses);
      CHECK(cached.states == streamed.states);
      CHECK(cached.cursor == streamed.cursor);
    }
  }
}

TEST_CASE("device cache: a file that one way of feeding saved is resumed by the other") {
  const keel_test::TempFolder folder;
  const std::string file = folder.file("states");
  const Trained whole = train("npu", false, 5, 20);
  for (const int64_t stop : {1, 4, 5, 6, 13, 19}) {
    for (const bool cached_first : {false, true}) {
      CAPTURE(stop);
      CAPTURE(cached_first);
      std::vector<double> losses = train("npu", cached_first, 7, stop, "", file).losses;
      const Trained rest = train("npu", !cached_first, 7, 20, file);
      losses.insert(losses.end(), rest.losses.begin(), rest.losses.end());
      CHECK(losses == whole.losses);
      CHECK(rest.states == whole.states);
    }
  }
}

TEST_CASE("device cache: the queue carries row numbers and what they name is on the device once") {
  HostBackend host;
  const FeedSpec spec{host.device(),
                      {{{"image", {u8, {-1, kCachedPixels}}}, {"label", {u8, {-1}}}}}};
  const Dataset cached = items().cache(host.device());
  const Dataset batches = cached.shuffle(9).batch(10).repeat(2);
  const auto feeder = feed(batches, spec, {.depth = 2});
  const auto queue = feeder->queue();
  CHECK(queue->spec() == ElementSpec{{{kRowField, {i32, {10}}}}});
  REQUIRE(queue->resident().size() == 2);
  const ResidentField& image = queue->resident()[0];
  CHECK(image.field == FieldSpec{"image", {u8, {kCachedItems + 1, kCachedPixels}}});
  const auto* pixels = static_cast<const uint8_t*>(image.buffer->address());
  for (int64_t j = 0; j < kCachedPixels; ++j) CHECK(pixels[j] == 0);

  // What the rows name is what a plain iterator yields.
  DatasetIterator expected(items().shuffle(9).batch(10).repeat(2));
  void* rows = nullptr;
  Cursor cursor;
  int batches_seen = 0;
  while (queue->dequeue({&rows, 1}, &cursor, nullptr) == DequeueStatus::kElement) {
    const auto element = expected.next();
    REQUIRE(element);
    for (int64_t i = 0; i < 10; ++i) {
      const int64_t row = static_cast<const int32_t*>(rows)[i];
      for (int64_t j = 0; j < kCachedPixels; ++j) {
        CHECK(pixels[row * kCachedPixels + j] ==
              (*element)[0].data<uint8_t>()[static_cast<size_t>(i * kCachedPixels + j)]);
      }
    }
    CHECK(cursor == expected.cursor());
    queue->release();
    ++batches_seen;
  }
  CHECK(batches_seen == 10);
  CHECK_FALSE(expected.next());

  // Behind batches that are cached whole, cursors count what went into these.
  const auto of_batches = [&](const Dataset& cached_batches) {
    const auto feeder_of_batches = feed(cached_batches.shuffle(3).repeat(), spec, {.depth = 2});
    const auto own = feeder_of_batches->queue();
    Cursor behind;
    for (int i = 0; i < 4; ++i) {
      REQUIRE(own->dequeue({&rows, 1}, &behind, nullptr) == DequeueStatus::kElement);
      own->release();
    }
    return behind;
  };
  DatasetIterator streamed(items().batch(2).cache().shuffle(3).repeat());
  for (int i = 0; i < 4; ++i) REQUIRE(streamed.next());
  CHECK(of_batches(items().batch(2).cache(host.device())) == streamed.cursor());

  // Another feed of the same dataset shares the rows.
  const size_t before = host.allocated_bytes;
  const auto second = feed(batches, spec, {.depth = 2});
  CHECK(second->queue()->resident()[0].buffer == image.buffer);
  CHECK(host.allocated_bytes - before < kCachedItems * kCachedPixels);
  // On the host nothing changes.
  DatasetIterator iterator(batches);
  DatasetIterator plain(items().shuffle(9).batch(10).repeat(2));
  while (const auto element = plain.next()) {
    const auto same = iterator.next();
    REQUIRE(same);
    CHECK(std::memcmp((*same)[0].raw(), (*element)[0].raw(), (*element)[0].num_bytes()) == 0);
  }
}

TEST_CASE("device cache: large items are uploaded a few at a time and small ones by the thousand") {
  const auto upload = [](WeighingBackend& device, int64_t count, int64_t bytes) {
    Tensor items(u8, {count, bytes});
    auto* values = static_cast<uint8_t*>(items.raw());
    for (int64_t i = 0; i < count * bytes; i += 101) values[i] = static_cast<uint8_t>(i % 251);
    const FeedSpec spec{device.device(), {{{"item", {u8, {-1, bytes}}}}}};
    const auto feeder = feed(
        Dataset::from_tensors({{"item", items}}).cache(device.device()).batch(1).repeat(), spec);
    const Buffer& resident = *feeder->queue()->resident()[0].buffer;
    const auto* rows = static_cast<const uint8_t*>(resident.address()) + bytes;
    CHECK(std::memcmp(rows, values, static_cast<size_t>(count * bytes)) == 0);
  };
  constexpr int64_t kMiB = int64_t{1} << 20;
  WeighingBackend of_large, of_huge, of_small;
  upload(of_large, 9, 5 * kMiB);
  CHECK(of_large.largest == 15 * kMiB);
  CHECK(of_large.copies == 3);
  upload(of_huge, 2, 17 * kMiB);
  CHECK(of_huge.copies == 2);
  upload(of_small, 2500, 3);
  CHECK(of_small.largest == 1024 * 3);
  CHECK(of_small.copies == 3);
}

TEST_CASE("device cache: padding is a row of zeros and the mask travels in the queue") {
  for (const char* backend : {"ref", "cpu", "npu"}) {
    CAPTURE(backend);
    std::vector<std::vector<double>> sums;
    for (const bool cache : {false, true}) {
      Graph graph;
      const Value image = graph.input("image", u8, {-1, kCachedPixels});
      const Value mask = graph.input("mask", boolean, {-1});
      const Value all = sum(cast(image, f32));
      const Value count = sum(cast(mask, f32));
      Session session(graph, device(backend));
      const Dataset source = cache ? items().cache(session.device()) : items();
      const auto feeder = feed(source.take(25).batch(10, Tail::kPad), session.spec({image, mask}));
      Loop loop = session.sink({.fetches = {all, count}, .source = feeder});
      const LoopReport report = loop.run(3);
      sums.emplace_back(report[all].begin(), report[all].end());
      CHECK(std::vector<double>(report[count].begin(), report[count].end()) ==
            std::vector<double>{10, 10, 5});
    }
    CHECK(sums[0] == sums[1]);
  }
}

TEST_CASE("device cache: what changes items behind it and other devices are refused") {
  HostBackend host;
  HostBackend other;
  const FeedSpec spec{host.device(),
                      {{{"image", {u8, {-1, kCachedPixels}}}, {"label", {u8, {-1}}}}}};
  const auto keep = [](const ItemView&) { return true; };
  const auto same = [](const std::vector<Tensor>& in) {
    return std::vector<std::pair<std::string, Tensor>>{{"image", in[0]}, {"label", in[1]}};
  };
  const Dataset cached = items().cache(host.device());
  CHECK(contains(error_of([&] { feed(cached.filter(keep).batch(10), spec); }),
                 "put map, filter and select before the cache"));
  CHECK(contains(error_of([&] { feed(cached.batch(10).map(same), spec); }), "before the cache"));
  CHECK(contains(error_of([&] { feed(items().cache(other.device()).batch(10), spec); }),
                 "where the model runs"));
  // Before it everything may stand, in order only included.
  const auto even = [](const ItemView& item) { return item.data<uint8_t>(1)[0] == 2; };
  const auto feeder = feed(items().filter(even).cache(host.device()).shuffle(1).batch(5), spec);
  CHECK(feeder->queue()->resident()[0].field.type.shape[0] == 1 + 17);
  // A copy that fails.
  host.copies_until_failure = 0;
  CHECK(contains(error_of([&] { feed(items().cache(host.device()).batch(10), spec); }),
                 "the copy failed"));
  host.copies_until_failure = -1;
}

TEST_SUITE_END();
