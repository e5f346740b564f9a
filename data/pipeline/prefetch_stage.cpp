// Prefetch: a thread that reads ahead.
#include <algorithm>
#include <mutex>
#include <thread>

#include "keel/core/base/thread.h"
#include "keel/core/base/wait_word.h"
#include "keel/data/pipeline/block.h"
#include "keel/data/pipeline/stages.h"

namespace keel {
namespace {

class PrefetchedReader final : public Reader {
 public:
  PrefetchedReader(const Stage& from, const ItemLayout& layout, const DataPass& pass,
                   int64_t elements, CallSite site)
      : layout_(layout),
        pass_(pass),
        from_(from.open({.round = pass.round, .stop = &quit_, .outer = &pass_})),
        ring_(layout, places(from, elements), {"prefetch", "read fewer elements ahead", site}),
        at_once_(from.items_per_element() > 1 ? 1 : std::max<int64_t>(1, elements / 2)) {}
  ~PrefetchedReader() override {
    quit_.store(true, std::memory_order_release);
    room_.bump();
    if (thread_.joinable()) thread_.join();
  }

  int64_t read(int64_t count, const FieldAddresses& out) override {
    if (!thread_.joinable()) {
      thread_ = start_thread("prefetch's thread", [this] { produce(); });
    }
    return take(count, [&](int64_t place, int64_t done, int64_t part) {
      copy_items(layout_, item(place), out.advanced(layout_, done), part);
    });
  }
  int64_t skip(int64_t count) override {
    if (!thread_.joinable()) return from_->skip(count);
    return take(count, [](int64_t, int64_t, int64_t) {});
  }

 private:
  // There is at least one, as the places are counted round.
  static int64_t places(const Stage& from, int64_t elements) {
    return std::max<int64_t>(1, std::min(elements, from.size().value_or(elements)));
  }

  // Both threads come here: the one that reads ahead adds blocks to the ring.
  FieldAddresses item(int64_t place) {
    const std::lock_guard<std::mutex> guard(blocks_);
    return ring_.item(place);
  }
  int64_t make_room(int64_t place) {
    const std::lock_guard<std::mutex> guard(blocks_);
    return ring_.make_room(place);
  }

  void produce() {
    try {
      fill();
    } catch (...) {
      failure_ = std::current_exception();
    }
    ended_.store(true, std::memory_order_release);
    news_.bump();
  }

  void fill() {
    while (!quit_.load(std::memory_order_acquire)) {
      const uint32_t seen = room_.load();
      const int64_t number = produced_.load(std::memory_order_relaxed);
      const int64_t place = number % ring_.most();
      const int64_t free = ring_.most() - (number - consumed_.load(std::memory_order_acquire));
      if (free == 0) {
        if (!quit_.load(std::memory_order_acquire)) room_.wait_while(seen);
        continue;
      }
      const int64_t part = std::min({free, make_room(place), at_once_});
      const int64_t got = from_->read(part, item(place));
      produced_.store(number + got, std::memory_order_release);
      news_.bump();
      if (got < part) return;
    }
  }

  template <class Deliver>
  int64_t take(int64_t count, Deliver deliver) {
    int64_t done = 0;
    while (done < count && !pass_.stopped()) {
      const uint32_t seen = news_.load();
      const bool ended = ended_.load(std::memory_order_acquire);
      const int64_t number = consumed_.load(std::memory_order_relaxed);
      const int64_t place = number % ring_.most();
      const int64_t there = produced_.load(std::memory_order_acquire) - number;
      if (there > 0) {
        const int64_t part = std::min({there, make_room(place), count - done});
        deliver(place, done, part);
        done += part;
        consumed_.store(number + part, std::memory_order_release);
        room_.bump();
      } else if (ended) {
        if (failure_) std::rethrow_exception(failure_);
        break;
      } else {
        news_.wait_while(seen, kStopCheck);
      }
    }
    return done;
  }

  const ItemLayout& layout_;
  DataPass pass_;
  std::atomic<bool> quit_{false};
  std::unique_ptr<Reader> from_;
  ItemStore ring_;
  std::mutex blocks_;
  // Single items are read many at a time, so that a map's threads have work; batches one by one, so
  // that a failure spoils none before it.
  int64_t at_once_;
  std::atomic<int64_t> produced_{0};
  std::atomic<int64_t> consumed_{0};
  std::atomic<bool> ended_{false};
  std::exception_ptr failure_;  // published by ended_
  WaitWord news_;
  WaitWord room_;
  std::thread thread_;
};

class PrefetchStage final : public DerivedStage {
 public:
  PrefetchStage(StagePtr from, int64_t elements, CallSite site)
      : DerivedStage(std::move(from)), elements_(elements), site_(site) {}
  StagePtr on(StagePtr from) const override {
    return make_prefetch_stage(std::move(from), elements_, site_);
  }
  std::unique_ptr<Reader> open(const DataPass& pass) const override {
    return std::make_unique<PrefetchedReader>(*from(), layout(), pass, elements_, site_);
  }

 private:
  int64_t elements_;
  CallSite site_;
};

}  // namespace

StagePtr make_prefetch_stage(StagePtr from, int64_t elements, CallSite site) {
  if (elements < 1) {
    throw Error({.op = "prefetch",
                 .argument = "elements",
                 .expected = "at least 1",
                 .got = std::to_string(elements),
                 .kind = ErrorKind::kInvalidArgument});
  }
  return std::make_shared<PrefetchStage>(std::move(from), elements, site);
}

}  // namespace keel
