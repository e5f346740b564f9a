// Evaluator: measures a model on a data set: numbers that a step without an update sums up over a
// batch, added over one pass and divided by the number of items. Compiled once, one launch a pass.
// The session must outlive it, and one thread uses both.
#ifndef KEEL_GRAPH_RUNTIME_EVALUATOR_H
#define KEEL_GRAPH_RUNTIME_EVALUATOR_H

#include <cstdint>
#include <memory>
#include <vector>

#include "keel/graph/runtime/session.h"

namespace keel {

class Group;

struct EvaluatorOptions {
  Values sums = {};                     // rank 0: over the real items of a batch, padding left out
  std::shared_ptr<Feeder> source = {};  // of a set that ends, batched with Tail::kPad
  int64_t batches = 0;                  // of a pass
  int64_t items = 0;                    // real ones among them, by which the sums are divided
  // The ranks that measure together, all of them at the same time: the source of each has every
  // size-th batch of the pass, from its rank on (Dataset::shard). The means are on all ranks those
  // that one rank would have found, bit for bit. Null: it measures alone.
  std::shared_ptr<Group> group = {};
};

class KEEL_API Evaluator {
 public:
  // Throws Error for sums that are not of rank 0, for counts below 1, and what Session::sink
  // throws.
  Evaluator(Session& session, const EvaluatorOptions& options, CallSite site = CallSite::here());

  // One pass from the beginning with the states as they are: by sum its mean, in double. Throws
  // what the loop throws, and Error where the pass has another number of batches or was stopped.
  std::vector<double> means(CallSite site = CallSite::here());

 private:
  // A rank's part of a pass.
  struct Share {
    int64_t batches = 0;
    bool goes_on = false;  // it has more batches than it was to do
    bool stopped = false;
    std::vector<std::vector<double>> series = {};  // by sum its value in each batch
  };
  Share run_batches(CallSite site);
  std::vector<Share> gather_shares(Share own) const;
  void require_whole_pass(const std::vector<Share>& by_rank, CallSite site) const;
  std::vector<double> add_up(const std::vector<Share>& by_rank) const;
  int64_t own_batches() const noexcept;
  int64_t batches_of_a_run(CallSite site) const;

  EvaluatorOptions options_;
  std::unique_ptr<Loop> loop_;
  bool at_beginning_ = true;
};

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_EVALUATOR_H
