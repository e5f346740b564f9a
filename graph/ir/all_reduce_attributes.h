// AllReduceAttributes: what an op has that sums values over the ranks of a group
// (core/group/group.h), or gathers them, one bucket of them in one collective. Plain values and
// pure functions; any thread.
#ifndef KEEL_GRAPH_IR_ALL_REDUCE_ATTRIBUTES_H
#define KEEL_GRAPH_IR_ALL_REDUCE_ATTRIBUTES_H

#include <cstdint>
#include <memory>
#include <string>

#include "keel/core/base/export.h"
#include "keel/core/group/group.h"
#include "keel/graph/ir/attributes.h"

namespace keel {

class Node;

struct AllReduceAttributes {
  int64_t ranks = 1;
  int64_t bucket = 0;   // counted from 0, in the order in which a step runs them
  int64_t buckets = 1;  // of the step
  // Each result has a new first axis with the values of all ranks, in their order.
  bool gathers = false;
  // The ranks themselves. No field: graphs of all ranks print, hash and compare alike, and text has
  // none, so a graph that was parsed cannot be run on several ranks.
  std::shared_ptr<Group> group = {};
  static void fields(auto&& visit) {
    visit("ranks", &AllReduceAttributes::ranks);
    visit("bucket", &AllReduceAttributes::bucket);
    visit("buckets", &AllReduceAttributes::buckets);
    visit("gathers", &AllReduceAttributes::gathers);
  }
};

// Returns what a node has that sums or gathers so; null for every other node.
KEEL_API const AllReduceAttributes* all_reduce_of(const Node& node);

// "bucket 1 of 3", as people count.
KEEL_API std::string bucket_text(const AllReduceAttributes& attributes);

}  // namespace keel

#endif  // KEEL_GRAPH_IR_ALL_REDUCE_ATTRIBUTES_H
