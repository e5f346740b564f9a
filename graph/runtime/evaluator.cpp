#include "keel/graph/runtime/evaluator.h"

#include <cstring>
#include <span>
#include <string>
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

using Series = std::vector<std::vector<double>>;

// Rows travel as their bytes, one sum's after another's; all ranks have the same sums.
std::vector<Series> gather_series(Group& group, const Series& own) {
  std::string bytes;
  for (const std::vector<double>& row : own)
    bytes.append(reinterpret_cast<const char*>(row.data()), row.size() * sizeof(double));
  std::vector<Series> by_rank;
  for (const std::string& text : group.all_gather(bytes)) {
    const size_t length = text.size() / sizeof(double) / own.size();
    Series series(own.size(), std::vector<double>(length));
    for (size_t i = 0; i < own.size() && length > 0; ++i)
      std::memcpy(series[i].data(), text.data() + i * length * sizeof(double),
                  length * sizeof(double));
    by_rank.push_back(std::move(series));
  }
  return by_rank;
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
  std::vector<double> means = add_up(run_batches(site));
  if (means.back() != 0) {
    throw Error({.op = "evaluator",
                 .argument = "batches",
                 .expected = std::to_string(options_.batches) + " batches",
                 .got = "a pass of at least " + std::to_string(options_.batches + 1),
                 .fix = "give the number of all batches of the pass, the last one of fewer items "
                        "included; of a set without end, take() that many",
                 .site = site});
  }
  means.pop_back();
  for (double& mean : means) mean /= static_cast<double>(options_.items);
  return means;
}

Evaluator::Series Evaluator::run_batches(CallSite site) {
  const auto is_fresh = [&] {
    const std::shared_ptr<DeviceQueue>& queue = options_.source->queue();
    return queue != nullptr && queue->counters().dequeued == 0;
  };
  if (!at_beginning_ || !is_fresh()) {
    options_.source->stop();
    options_.source->open(Cursor{});
  }
  at_beginning_ = false;
  Series series(options_.sums.size());
  int64_t done = 0;
  while (done < own_batches()) {
    const int64_t asked = batches_of_a_run(site);
    const LoopReport report = loop_->run(asked, {}, site);
    done += report.steps;
    if (report.steps != asked) {
      throw Error({.op = "evaluator",
                   .expected = std::to_string(own_batches()) + " batches",
                   .got = std::to_string(done) +
                          (report.cancelled ? ", then it was stopped" : ", then the data ended"),
                   .site = site});
    }
    for (size_t i = 0; i < options_.sums.size(); ++i) {
      const std::span<const double> parts = report[options_.sums[i]];
      series[i].insert(series[i].end(), parts.begin(), parts.end());
    }
  }
  // Behind the sums travels which batch is not the last one of its rank though it should be, so
  // that all ranks refuse the pass.
  series.emplace_back(static_cast<size_t>(done), 0.0);
  const auto queue = options_.source->queue();
  if (done != 0 && queue != nullptr && goes_on(*queue, site)) series.back().back() = 1;
  return series;
}

// Adds in the order of the batches, whichever rank had them.
std::vector<double> Evaluator::add_up(const Series& own) const {
  std::vector<Series> by_rank = {own};
  if (options_.group != nullptr && options_.group->size() > 1)
    by_rank = gather_series(*options_.group, own);
  std::vector<double> sums(own.size());
  for (size_t i = 0; i < sums.size(); ++i) {
    for (size_t batch = 0; batch < static_cast<size_t>(options_.batches); ++batch)
      sums[i] += by_rank[batch % by_rank.size()][i].at(batch / by_rank.size());
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
