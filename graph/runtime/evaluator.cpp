#include "keel/graph/runtime/evaluator.h"

#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "keel/core/group/group.h"

namespace keel {
namespace {

void require_one_or_more(int64_t count, const char* argument, CallSite site) {
  if (count >= 1) return;
  throw Error({.op = "evaluator",
               .argument = argument,
               .expected = "at least 1",
               .got = std::to_string(count),
               .site = site,
               .kind = ErrorKind::kInvalidArgument});
}

// Says whether a pass has another batch. The loop is at rest, so this thread may ask.
bool goes_on(DeviceQueue& queue, CallSite site) {
  std::vector<void*> fields(queue.spec().fields.size());
  Cursor cursor;
  const DequeueStatus status = queue.dequeue_on_host(fields, &cursor, /*stop=*/nullptr);
  if (status == DequeueStatus::kFailed) throw queue.failure().with_site(site);
  if (status == DequeueStatus::kTimeout) throw queue.timeout_error().with_site(site);
  return status == DequeueStatus::kElement;
}

template <class T>
void append_bytes(std::string& to, const T& value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
T take_bytes(std::string_view& from) {
  T value;
  std::memcpy(&value, from.data(), sizeof value);
  from.remove_prefix(sizeof value);
  return value;
}

}  // namespace

Evaluator::Evaluator(Session& session, const EvaluatorOptions& options, CallSite site)
    : options_(options) {
  require_one_or_more(options_.batches, "batches", site);
  require_one_or_more(options_.items, "items", site);
  require_one_or_more(static_cast<int64_t>(options_.sums.size()), "sums", site);
  if (options_.source == nullptr) {
    throw Error({.op = "evaluator",
                 .argument = "source",
                 .expected = "a feeder",
                 .got = "nothing",
                 .fix = "make one with feed(dataset, session.spec(inputs))",
                 .site = site});
  }
  for (const Value& sum : options_.sums) {
    if (sum.valid() && sum.shape().rank() != 0) {
      throw Error({.op = "evaluator",
                   .argument = "sums",
                   .expected = "scalars",
                   .got = to_string(sum.type()),
                   .fix = "sum them over the batch",
                   .site = site});
    }
  }
  at_beginning_ = options_.source->queue() == nullptr;
  if (at_beginning_) options_.source->open(Cursor{});
  loop_ = std::make_unique<Loop>(
      session.sink({.fetches = options_.sums, .source = options_.source}, site));
}

int64_t Evaluator::own_batches() const noexcept {
  if (options_.group == nullptr) return options_.batches;
  const int64_t rank = options_.group->rank(), size = options_.group->size();
  return (options_.batches - rank + size - 1) / size;
}

std::vector<double> Evaluator::means(CallSite site) {
  const std::vector<Share> by_rank = gather_shares(run_batches(site));
  require_whole_pass(by_rank, site);
  std::vector<double> means = add_up(by_rank);
  for (double& mean : means) mean /= static_cast<double>(options_.items);
  return means;
}

Evaluator::Share Evaluator::run_batches(CallSite site) {
  const auto is_fresh = [&] {
    const std::shared_ptr<DeviceQueue>& queue = options_.source->queue();
    return queue != nullptr && queue->counters().dequeued == 0;
  };
  if (!at_beginning_ || !is_fresh()) {
    options_.source->stop();
    options_.source->open(Cursor{});
  }
  at_beginning_ = false;
  Share share;
  share.series.resize(options_.sums.size());
  while (share.batches < own_batches()) {
    const int64_t asked = batches_of_a_run(site);
    const LoopReport report = loop_->run(asked, {}, site);
    share.batches += report.steps;
    share.stopped = report.cancelled;
    if (report.steps != asked) return share;
    for (size_t i = 0; i < options_.sums.size(); ++i) {
      const std::span<const double> parts = report[options_.sums[i]];
      share.series[i].insert(share.series[i].end(), parts.begin(), parts.end());
    }
  }
  const auto queue = options_.source->queue();
  share.goes_on = queue != nullptr && goes_on(*queue, site);
  return share;
}

// A rank gives its share of a pass that is not as it should be, too, so that all of them refuse it,
// in the same words. All have the same sums.
std::vector<Evaluator::Share> Evaluator::gather_shares(Share own) const {
  if (options_.group == nullptr || options_.group->size() == 1) return {std::move(own)};
  std::string bytes;
  append_bytes(bytes, own.batches);
  append_bytes(bytes, own.goes_on);
  append_bytes(bytes, own.stopped);
  for (const std::vector<double>& row : own.series) {
    append_bytes(bytes, row.size());
    bytes.append(reinterpret_cast<const char*>(row.data()), row.size() * sizeof(double));
  }
  std::vector<Share> by_rank;
  for (const std::string& text : options_.group->all_gather(bytes)) {
    std::string_view rest = text;
    Share& share = by_rank.emplace_back();
    share.batches = take_bytes<int64_t>(rest);
    share.goes_on = take_bytes<bool>(rest);
    share.stopped = take_bytes<bool>(rest);
    for (size_t i = 0; i < own.series.size(); ++i) {
      std::vector<double>& row = share.series.emplace_back(take_bytes<size_t>(rest));
      for (double& value : row) value = take_bytes<double>(rest);
    }
  }
  return by_rank;
}

void Evaluator::require_whole_pass(const std::vector<Share>& by_rank, CallSite site) const {
  int64_t done = 0;
  bool more = false, stopped = false;
  for (const Share& share : by_rank) {
    done += share.batches;
    more = more || share.goes_on;
    stopped = stopped || share.stopped;
  }
  const std::string expected = std::to_string(options_.batches) + " batches";
  if (done < options_.batches) {
    throw Error({.op = "evaluator",
                 .expected = expected,
                 .got = std::to_string(done) +
                        (stopped ? ", then it was stopped" : ", then the data ended"),
                 .site = site});
  }
  if (more) {
    throw Error({.op = "evaluator",
                 .argument = "batches",
                 .expected = expected,
                 .got = "a pass of at least " + std::to_string(options_.batches + 1),
                 .fix = "give the number of all batches of the pass, the last one of fewer items "
                        "included; of a set without end, take() that many",
                 .site = site});
  }
}

// Adds in the order of the batches, whichever rank had them.
std::vector<double> Evaluator::add_up(const std::vector<Share>& by_rank) const {
  std::vector<double> sums(options_.sums.size());
  for (size_t i = 0; i < sums.size(); ++i) {
    for (size_t batch = 0; batch < static_cast<size_t>(options_.batches); ++batch)
      sums[i] += by_rank[batch % by_rank.size()].series[i].at(batch / by_rank.size());
  }
  return sums;
}

// Parts that the policy placed on the host do not run inside a launch of several steps where the
// host drives the loop.
int64_t Evaluator::batches_of_a_run(CallSite site) const {
  const CompileReport& report = loop_->compile_report(site);
  const bool one = report.loop.kind == LoopKind::kHost && report.placement.policy_tasks != 0;
  return one ? 1 : own_batches();
}

}  // namespace keel
