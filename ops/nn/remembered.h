// remembered, UpdateCount: states that optimizers, schedules, sums of gradients and averages keep
// from step to step, and the number of updates that each of them has applied. These states are not
// trainable, and are saved and loaded like all others. Internal to ops/nn. One thread builds a
// graph.
#ifndef KEEL_OPS_NN_REMEMBERED_H
#define KEEL_OPS_NN_REMEMBERED_H

#include <string>
#include <utility>

#include "keel/core/base/call_site.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/update.h"

namespace keel {

// The dtype that is remembered of a state or gradient of dtype `of`: f64 of f64, otherwise f32,
// since what is added up in 16 bits stands still.
inline DType memory_dtype(DType of) { return of == f64 ? f64 : f32; }

// Makes the state `name`. Throws Error in the name of `who`, with what to do, where the graph has
// it.
Value remembered(Graph& graph, const std::string& who, const std::string& name,
                 const Initializer& init, const char* fix, CallSite site);

// Counts the updates applied of one application of an optimizer, or of one average, whatever other
// updates the graph's steps run or skip: keel/step less a count of skipped steps
// (graph/ir/skipped_steps.h), which is made when first asked for.
class UpdateCount {
 public:
  // REQUIRES that `update` outlives this. `of` names the count.
  UpdateCount(Graph& graph, std::string of, Update& update, CallSite site)
      : graph_(graph), of_(std::move(of)), update_(update), site_(site) {}

  // i64 scalar: 0 in the first step that applies the update.
  Value applied();

 private:
  Graph& graph_;
  std::string of_;
  Update& update_;
  CallSite site_;
  Value applied_;
};

// The updates applied by such a count, a state of the graph.
Value applied_by(Value skipped, CallSite site);

}  // namespace keel

#endif  // KEEL_OPS_NN_REMEMBERED_H
