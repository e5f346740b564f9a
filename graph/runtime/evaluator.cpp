#include "keel/graph/runtime/evaluator.h"

#include <string>

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

std::vector<double> Evaluator::means(CallSite site) {
  if (!at_beginning_) {
    options_.source->stop();
    options_.source->open(Cursor{});
  }
  at_beginning_ = false;
  std::vector<double> means(options_.sums.size());
  int64_t done = 0;
  while (done < options_.batches) {
    const int64_t asked = batches_of_a_run(site);
    const LoopReport report = loop_->run(asked, {}, site);
    done += report.steps;
    if (report.steps != asked) {
      throw Error({.op = "evaluator",
                   .expected = std::to_string(options_.batches) + " batches",
                   .got = std::to_string(done) +
                          (report.cancelled ? ", then it was stopped" : ", then the data ended"),
                   .site = site});
    }
    for (size_t i = 0; i < means.size(); ++i) {
      for (const double part : report[options_.sums[i]]) means[i] += part;
    }
  }
  for (double& mean : means) mean /= static_cast<double>(options_.items);
  return means;
}

// Parts that the policy placed on the host do not run inside a launch of several steps where the
// host drives the loop.
int64_t Evaluator::batches_of_a_run(CallSite site) const {
  const CompileReport& report = loop_->compile_report(site);
  const bool one = report.loop.kind == LoopKind::kHost && report.placement.policy_tasks != 0;
  return one ? 1 : options_.batches;
}

}  // namespace keel
