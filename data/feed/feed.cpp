#include "keel/data/feed/feed.h"

#include <algorithm>
#include <new>
#include <optional>
#include <thread>

#include "keel/core/base/thread.h"
#include "keel/core/base/thrown_text.h"
#include "keel/data/pipeline/device_cache.h"
#include "keel/data/pipeline/iterator.h"

namespace keel {
namespace {

const FieldSpec* find_field(const ElementSpec& spec, const std::string& name) {
  const auto found = std::find_if(spec.fields.begin(), spec.fields.end(),
                                  [&](const FieldSpec& field) { return field.name == name; });
  return found == spec.fields.end() ? nullptr : &*found;
}

// The dataset with the fields that `wanted` names, where it has all of them. Fields that nobody
// wants are left out, but for a mask: without it padding would count as data.
Dataset paired_by_name(const Dataset& dataset, const ElementSpec& wanted, CallSite site) {
  std::vector<std::string> names;
  for (const FieldSpec& field : wanted.fields) {
    if (find_field(dataset.spec(), field.name) == nullptr) return dataset;
    names.push_back(field.name);
  }
  if (find_field(dataset.spec(), "mask") != nullptr && find_field(wanted, "mask") == nullptr)
    return dataset;
  return dataset.select(names, site);
}

Dataset fitted(const Dataset& dataset, const ElementSpec& wanted, CallSite site) {
  const Dataset paired = paired_by_name(dataset, wanted, site);
  const ElementSpec& got = paired.spec();
  const auto fail = [&](const std::string& field) {
    throw Error({.op = "feed",
                 .argument = field,
                 .expected = to_string(wanted),
                 .got = to_string(dataset.spec()),
                 .fix = "make the dataset's fields what the model asks for (batch, select, map)",
                 .site = site});
  };
  if (got.fields.size() != wanted.fields.size()) fail("fields");
  for (size_t f = 0; f < got.fields.size(); ++f) {
    const Type& ask = wanted.fields[f].type;
    const Type& give = got.fields[f].type;
    if (ask.dtype != give.dtype || !matches(ask.shape, give.shape))
      fail("field '" + wanted.fields[f].name + "'");
  }
  // Paired in order: then no name may contradict it.
  for (size_t f = 0; f < got.fields.size(); ++f) {
    const FieldSpec* same = find_field(wanted, got.fields[f].name);
    if (same != nullptr && same != &wanted.fields[f]) fail("field '" + got.fields[f].name + "'");
  }
  return paired;
}

class PipelineFeeder final : public Feeder {
 public:
  PipelineFeeder(const Dataset& dataset, FeedSpec spec, FeedOptions options,
                 std::vector<ResidentField> resident)
      : dataset_(dataset),
        spec_(std::move(spec)),
        options_(std::move(options)),
        resident_(std::move(resident)) {
    if (options_.depth == 0 && spec_.data_sink) {
      options_.depth = default_queue_depth(spec_.element.slot_bytes());
      if (const auto size = dataset_.size())
        options_.depth = std::clamp<int64_t>(*size, 1, options_.depth);
    }
    open(options_.start);
  }
  ~PipelineFeeder() override { stop(); }

  void open(const Cursor& cursor) override {
    stop();
    // Whatever is wrong with the cursor shows here, not in the thread.
    auto iterator = std::make_unique<DatasetIterator>(dataset_, &stop_);
    iterator->restore(cursor);
    // First, since its slots are as much memory as the next one's.
    queue_.reset();
    queue_ = std::make_shared<DeviceQueue>(
        spec_.device, spec_.element,
        DeviceQueueOptions{.name = options_.name,
                           .depth = options_.depth,
                           .getnext_timeout = options_.getnext_timeout,
                           .resident = resident_,
                           .device_options = spec_.device_options,
                           .data_sink = spec_.data_sink,
                           .site = {}});
    opened_at_ = cursor;
    no_memory_ = Error(
        {.op = "feed",
         .message = "there is no memory for the next element of queue '" + options_.name + "'",
         .fix = "make batches, buffers and caches of the pipeline smaller"});
    stop_.store(false, std::memory_order_release);
    iterator_ = std::move(iterator);
    try {
      thread_ =
          start_thread("the thread that feeds queue '" + options_.name + "'", [this] { run(); });
    } catch (const Error&) {
      // Nobody may wait for elements that never come.
      stop_.store(true, std::memory_order_release);
      queue_->close();
      iterator_.reset();
      throw;
    }
  }

  void stop() override {
    if (!thread_.joinable()) return;
    // From here on queue() is null.
    stop_.store(true, std::memory_order_release);
    queue_->close();
    thread_.join();
    iterator_.reset();
  }

  // Null behind stop() too: what is left in a closed queue is no training's data. Whoever took the
  // queue before keeps it.
  const std::shared_ptr<DeviceQueue>& queue() const override {
    return stop_.load(std::memory_order_acquire) ? none_ : queue_;
  }
  Cursor opened_at() const override { return opened_at_; }

 private:
  void run() noexcept {
    try {
      try {
        pump();
      } catch (const Error& error) {
        queue_->fail(error);
      } catch (const std::bad_alloc&) {
        throw;
      } catch (...) {
        queue_->fail(
            Error({.op = "feed",
                   .message = text_of_thrown("something that is no exception was thrown")}));
      }
    } catch (...) {
      // The handlers above need memory themselves.
      queue_->fail(std::move(*no_memory_));
    }
  }

  void pump() {
    while (DeviceQueue::Slot* slot = queue_->reserve(&stop_)) {
      if (!iterator_->next_into(slot->fields)) {
        if (!stop_.load(std::memory_order_acquire)) queue_->finish();
        return;
      }
      queue_->commit(iterator_->cursor());
    }
  }

  Dataset dataset_;
  FeedSpec spec_;
  FeedOptions options_;
  std::vector<ResidentField> resident_;
  Cursor opened_at_;
  std::atomic<bool> stop_{false};
  std::shared_ptr<DeviceQueue> queue_;
  const std::shared_ptr<DeviceQueue> none_;
  std::unique_ptr<DatasetIterator> iterator_;  // the thread's while it runs
  std::optional<Error> no_memory_;             // likewise
  std::thread thread_;
};

// Feeds rows of what the device keeps. `fitted`: the dataset, its fields paired with the model's.
std::shared_ptr<Feeder> feed_rows(const DeviceCached& cached, const ElementSpec& fitted,
                                  const FeedSpec& spec, const FeedOptions& options, CallSite site) {
  if (cached.device != spec.device) {
    throw Error({.op = "feed",
                 .argument = "cache",
                 .expected = "a cache on " + spec.device.name() + ", where the model runs",
                 .got = "one on " + cached.device.name(),
                 .site = site});
  }
  FeedSpec rows = spec;
  rows.element = cached.rows.spec();
  std::vector<ResidentField> resident;
  for (size_t f = 0; f < fitted.fields.size(); ++f) {
    const std::string& asked = spec.element.fields[f].name;
    for (FieldSpec& field : rows.element.fields) {
      if (field.name == fitted.fields[f].name) field.name = asked;  // the mask
    }
    for (const ResidentField& kept : cached.resident) {
      if (kept.field.name != fitted.fields[f].name) continue;
      resident.push_back(kept);
      resident.back().field.name = asked;
    }
  }
  return std::make_shared<PipelineFeeder>(cached.rows, std::move(rows), options,
                                          std::move(resident));
}

std::shared_ptr<Feeder> make_feeder(const Dataset& dataset, const FeedSpec& spec,
                                    const FeedOptions& options, CallSite site) {
  Dataset data = fitted(dataset, spec.element, site);
  std::optional<DeviceCached> cached = find_device_cache(dataset.stage());
  if (cached) return feed_rows(*cached, data.spec(), spec, options, site);
  // Dimensions that the model leaves open are the dataset's to say.
  FeedSpec concrete = spec;
  for (size_t f = 0; f < concrete.element.fields.size(); ++f)
    concrete.element.fields[f].type = data.spec().fields[f].type;
  return std::make_shared<PipelineFeeder>(std::move(data), std::move(concrete), options,
                                          std::vector<ResidentField>{});
}

}  // namespace

std::shared_ptr<Feeder> feed(const Dataset& dataset, const FeedSpec& spec,
                             const FeedOptions& options, CallSite site) {
  if (!spec.device.valid()) {
    throw Error({.op = "feed",
                 .argument = "spec",
                 .message = "no device is set",
                 .fix = "ask the session for it: session.spec(inputs)",
                 .site = site});
  }
  try {
    return make_feeder(dataset, spec, options, site);
  } catch (const Error& error) {
    throw error.with_site(site);
  }
}

}  // namespace keel
