#include "keel/graph/control/step_failures.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "keel/graph/ir/views.h"

namespace keel {
namespace {

// Says how a task may end its step, the worse way last.
enum class Ending { kNone, kBeforeWriting, kWhileWriting };

// Walks a step in the order of its tasks. Indices that were found in range once are so for every
// later task that asks for the same range: what a gradient gathers again cannot fail.
class Walk {
 public:
  Ending ending_of(const Node& node) {
    if (node.is(OpRole::kWhile)) return Ending::kBeforeWriting;
    // An op with effects that returns values, such as dequeue, may wait in vain for data from
    // outside; then the step ends before the op has written anything.
    if (node.has(kEffect) && !node.data_types().empty()) return Ending::kBeforeWriting;
    const bool branches = node.is(OpRole::kCond);
    branches_ += branches;
    Ending ending = check_of(node);
    for (size_t i = 0; i < node.bodies().size(); ++i) {
      bind_inputs(node, i);
      for (const Node& inner : node.bodies()[i]->nodes())
        ending = std::max(ending, ending_of(inner));
    }
    branches_ -= branches;
    return ending;
  }

 private:
  Ending check_of(const Node& node) {
    const auto& checked = node.op().checked_indices;
    const int64_t limit = checked ? checked->limit(node) : -1;
    if (limit < 0) return Ending::kNone;
    std::vector<int64_t>& limits = found_[outside(node.input(checked->input))];
    if (std::find(limits.begin(), limits.end(), limit) != limits.end()) return Ending::kNone;
    if (branches_ == 0) limits.push_back(limit);
    // Row-wise ops look at the indices row by row; the others do so before they begin.
    return node.has(kRowWise) ? Ending::kWhileWriting : Ending::kBeforeWriting;
  }

  // Returns the value of the step that a body's input stands for.
  Value outside(Value v) const {
    v = root_of(v);
    for (auto it = outside_.find(v); it != outside_.end(); it = outside_.find(v))
      v = root_of(it->second);
    return v;
  }

  // A branch takes all inputs behind the choice, the body of a fused node all there are.
  void bind_inputs(const Node& node, size_t number) {
    const Values& inputs = node.bodies()[number]->inputs();
    const size_t first = node.is(OpRole::kCond) ? 1 : 0;
    for (size_t i = 0; i < inputs.size(); ++i) outside_[inputs[i]] = node.input(first + i);
  }

  std::unordered_map<Value, Value, ValueHash> outside_;
  std::unordered_map<Value, std::vector<int64_t>, ValueHash> found_;  // below what indices are
  int branches_ = 0;                                                  // around what is looked at
};

}  // namespace

StepFailures::StepFailures(const Graph& step, const std::vector<bool>& live) {
  Walk walk;
  for (const Node& node : step.nodes()) {
    if (!live[node.id()]) continue;
    const Ending ending = walk.ending_of(node);
    if (ending == Ending::kNone) continue;
    endings_.push_back(node.id());
    last_writes_ = ending == Ending::kWhileWriting;
  }
}

bool StepFailures::possible_from(const Node& node) const {
  if (endings_.empty()) return false;
  return endings_.back() > node.id() || (endings_.back() == node.id() && last_writes_);
}

}  // namespace keel
