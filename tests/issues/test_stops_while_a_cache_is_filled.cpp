// Whoever stopped a feeder or an iterator waited for the whole pass that a cache was being filled
// with, where a prefetch stood behind the cache or another reader was filling it: neither looked at
// the stop flag.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "keel/data/feed/feed.h"
#include "keel/data/pipeline/dataset.h"
#include "keel/data/pipeline/iterator.h"

#include "support/read_dataset.h"
#include "unit/host_device_for_tests.h"

TEST_SUITE_BEGIN("pipeline");

namespace {

using keel::Dataset;
using keel::DatasetIterator;
using keel::DequeueStatus;
using keel::ElementSpec;
using keel::ItemSlot;
using keel::ItemView;
using keel_test::all_numbers;

constexpr int64_t kItems = 5000;
constexpr int64_t kStopAt = 20;
// Items that other threads may have begun when the flag is raised.
constexpr int64_t kUnderWay = 8;

ElementSpec number_element(const std::string& name) { return {{{name, {keel::i64, {}}}}}; }

// Items 0, 1, ...; `made` is called with how many there are with each of them.
template <class Made>
Dataset counted(std::atomic<int64_t>& count, int64_t size, Made made) {
  return Dataset::from_generator(
      number_element("n"),
      [&count, made](int64_t index, const ItemSlot& out) {
        out.data<int64_t>(0)[0] = index;
        made(++count);
        return true;
      },
      size);
}

Dataset copied(const Dataset& from, const std::string& name, int threads) {
  return from.map(number_element(name),
                  [](const ItemView& in, const ItemSlot& out) {
                    out.data<int64_t>(0)[0] = in.data<int64_t>(0)[0];
                  },
                  {.threads = threads});
}

}  // namespace

TEST_CASE("an iterator that is stopped while a cache is filled makes no more items") {
  std::atomic<bool> stop{false};
  std::atomic<int64_t> count{0};
  const Dataset items = counted(count, kItems, [&](int64_t made) {
    if (made == kStopAt) stop = true;
  });
  const std::vector<std::pair<std::string, Dataset>> pipelines = {
      {"cache", items.cache().batch(4).repeat()},
      {"prefetch behind it", items.cache().batch(4).prefetch(2).repeat()},
      {"two prefetches", items.prefetch(2).cache().prefetch(2)},
      {"threads", copied(items, "n", 4).cache().shuffle(1).batch(4).prefetch(2)},
      {"repeat before the prefetch", items.cache().repeat().batch(4).prefetch(2).prefetch(2)},
      {"interleave", Dataset::interleave({items.cache().prefetch(2), items.cache()})},
      {"zip", Dataset::zip({copied(items, "m", 1).cache().prefetch(2), items.cache()})},
      {"two caches", items.cache().prefetch(2).cache().prefetch(2)}};
  for (const auto& pipeline : pipelines) {
    const std::string name = pipeline.first;
    CAPTURE(name);
    stop = false;
    count = 0;
    DatasetIterator iterator(pipeline.second, &stop);
    CHECK_FALSE(iterator.next());
    CHECK(count.load() >= kStopAt);
    CHECK(count.load() <= kStopAt + kUnderWay);
  }
}

TEST_CASE("a feeder that reads ahead behind a cache stops in the pass that fills it") {
  std::promise<void> reached, go;
  const std::shared_future<void> goes = go.get_future().share();
  std::atomic<int64_t> count{0};
  const Dataset items = counted(count, kItems, [&](int64_t made) {
    if (made != kStopAt) return;
    reached.set_value();
    goes.wait();
  });
  keel::testing::HostBackend host;
  const auto feeder = keel::feed(items.cache().batch(4).prefetch(2).repeat(),
                                 {host.device(), {{{"n", {keel::i64, {4}}}}}});
  reached.get_future().wait();
  const auto queue = feeder->queue();
  std::thread stopper([&] { feeder->stop(); });
  // The queue is closed when the flag is raised.
  void* at = nullptr;
  CHECK(queue->dequeue({&at, 1}, nullptr, nullptr) == DequeueStatus::kClosed);
  go.set_value();
  stopper.join();
  CHECK(count.load() <= kStopAt + kUnderWay);
}

TEST_CASE("a reader that waits for another one to fill a cache can be stopped") {
  std::promise<void> reached, go, begun;
  const std::shared_future<void> goes = go.get_future().share();
  std::atomic<int64_t> count{0};
  const Dataset cached = counted(count, 50, [&](int64_t made) {
                           if (made != kStopAt) return;
                           reached.set_value();
                           goes.wait();
                         }).cache();
  std::vector<int64_t> filled;
  std::thread filler([&] { filled = all_numbers(cached); });
  reached.get_future().wait();
  std::atomic<bool> stop{false}, ended{false};
  // Its first part tells that the second one, which waits, is opened next.
  std::atomic<int64_t> first_count{0};
  const Dataset first = counted(first_count, 1, [&](int64_t) { begun.set_value(); });
  const Dataset both = Dataset::zip({copied(first, "m", 1).cache(), cached});
  std::thread waiter([&] {
    DatasetIterator iterator(both, &stop);
    ended = !iterator.next();
  });
  begun.get_future().wait();
  stop = true;
  waiter.join();
  CHECK(ended.load());
  CHECK(count.load() == kStopAt);
  go.set_value();
  filler.join();
  CHECK(filled.size() == 50);
  CHECK(count.load() == 50);
}

TEST_CASE("a reader that waits fills the cache where the one before it was stopped or failed") {
  for (const bool failing : {false, true}) {
    CAPTURE(failing);
    std::promise<void> reached, go, begun;
    const std::shared_future<void> goes = go.get_future().share();
    std::atomic<bool> stop{false};
    std::atomic<int64_t> count{0}, first_count{0};
    const Dataset cached = counted(count, 50, [&](int64_t made) {
                             if (made != kStopAt) return;
                             reached.set_value();
                             goes.wait();
                             if (failing) throw std::runtime_error("planned");
                           }).cache();
    std::thread filler([&] {
      DatasetIterator iterator(cached, &stop);
      try {
        while (iterator.next()) continue;
      } catch (const keel::Error&) {
        CHECK(failing);
      }
    });
    reached.get_future().wait();
    const Dataset first = counted(first_count, 50, [&](int64_t made) {
      if (made == 50) begun.set_value();
    });
    const Dataset both = Dataset::zip({copied(first, "m", 1).cache(), cached});
    size_t waited = 0;
    std::thread waiter([&] { waited = all_numbers(both).size(); });
    begun.get_future().wait();
    // The waiter opens the cache next; nothing tells when it waits there.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    stop = !failing;
    go.set_value();
    filler.join();
    waiter.join();
    CHECK(waited == 50);
    CHECK(count.load() >= 50 + kStopAt);
  }
}

TEST_CASE("a cache is filled anew by the next reader where one was stopped or failed") {
  std::atomic<bool> stop{false};
  std::atomic<int64_t> count{0};
  bool fails = false;
  const Dataset cached = counted(count, 50, [&](int64_t made) {
                           if (made != kStopAt) return;
                           if (fails) throw std::runtime_error("planned");
                           stop = true;
                         }).cache();
  for (const bool failing : {false, true}) {
    CAPTURE(failing);
    fails = failing;
    count = 0;
    DatasetIterator iterator(cached.prefetch(2), &stop);
    if (failing) {
      CHECK_THROWS_WITH_AS(iterator.next(), doctest::Contains("planned"), keel::Error);
    } else {
      CHECK_FALSE(iterator.next());
    }
    stop = false;
  }
  count = kStopAt;
  CHECK(all_numbers(cached).size() == 50);
  CHECK(all_numbers(cached.prefetch(3)).size() == 50);
  CHECK(count.load() == kStopAt + 50);
}

TEST_SUITE_END();
