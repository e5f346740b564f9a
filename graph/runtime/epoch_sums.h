// EpochSums: what a training's numbers come to in each epoch. Owned by the Trainer, whose thread
// alone uses it.
#ifndef KEEL_GRAPH_RUNTIME_EPOCH_SUMS_H
#define KEEL_GRAPH_RUNTIME_EPOCH_SUMS_H

#include <cstdint>
#include <vector>

#include "keel/graph/ir/value.h"
#include "keel/graph/runtime/loop.h"

namespace keel {

// The means of the rank-0 fetches, in their order, over the steps of an epoch that a fit did: all
// of them, or those before it stopped or behind where it began.
struct EpochMeans {
  int64_t epoch = 1;  // from 1
  int64_t steps = 0;
  std::vector<double> means;
};

class EpochSums {
 public:
  // Adds the numbers of a launch to those of its epochs, the last of which another launch may have
  // begun. In the order of the steps, so that the means are the same for every loop size.
  void add(const LoopReport& loop, const Values& metrics, int64_t steps_per_epoch,
           std::vector<EpochMeans>& epochs);

 private:
  std::vector<double> sums_;  // of each number, in the epoch that runs
};

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_EPOCH_SUMS_H
