// all_reduce, all_gather: sums over the ranks of a group (core/group/group.h), and what each of
// them has, inside of a step. They are effects: a step's collectives run in the order in which they
// were built, on every rank, so that each rank sums what the others sum. Not in ops.h, as few
// programs have ranks.
#ifndef KEEL_OPS_ALL_REDUCE_H
#define KEEL_OPS_ALL_REDUCE_H

#include <cstdint>
#include <memory>

#include "keel/core/base/export.h"
#include "keel/core/group/group.h"
#include "keel/graph/ir/graph.h"

namespace keel {

class OpTable;

struct AllReduceOptions {
  double scale = 1;  // what the sums are multiplied by: 1 / ranks for means
  // Which of the step's buckets this is, for errors and profiles.
  int64_t bucket = 0;
  int64_t buckets = 1;
};

// Returns the sum of each value over all ranks, with the same bits on all of them. The values are
// one bucket: they lie side by side and are summed by one collective, one task `HCCL` of the step.
// A value that only this reads is computed where the sum takes place, any other one is copied there
// first. Where the number of ranks is a power of two the sum is the balanced tree
// (0 + 1) + (2 + 3).
//
// Without a group, or in a group of one, the sums are the values. Programs with it are compiled on
// all ranks in the same order. Not differentiable. Throws Error for values that are not f32 or not
// of the root graph, and for none.
KEEL_API Values all_reduce(const Values& values, const std::shared_ptr<Group>& group,
                           const AllReduceOptions& options = {}, CallSite site = CallSite::here());

// Returns each value of all ranks, in their order, along a new first axis: [ranks, ...]. The same
// rules hold as for all_reduce; `scale` has to be 1. The values are one collective, and cost what
// the sum of as many bytes as the results have does, for that is how they travel: each rank adds
// its own values to the zeros of the others. Integers up to 2^24 are exact as f32.
KEEL_API Values all_gather(const Values& values, const std::shared_ptr<Group>& group,
                           const AllReduceOptions& options = {}, CallSite site = CallSite::here());

void register_all_reduce(OpTable& table);

}  // namespace keel

#endif  // KEEL_OPS_ALL_REDUCE_H
