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
  const LoopReport report = loop_->run(options_.batches, {}, site);
  if (report.steps != options_.batches) {
    throw Error({.op = "evaluator",
                 .expected = std::to_string(options_.batches) + " batches",
                 .got = std::to_string(report.steps) +
                        (report.cancelled ? ", then it was stopped" : ", then the data ended"),
                 .site = site});
  }
  std::vector<double> means;
  for (const Value& sum : options_.sums) {
    double total = 0;
    for (const double part : report[sum]) total += part;
    means.push_back(total / static_cast<double>(options_.items));
  }
  return means;
}

}  // namespace keel
