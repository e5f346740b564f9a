#include "keel/ops/nn/remembered.h"

#include "keel/graph/ir/operand.h"
#include "keel/graph/ir/skipped_steps.h"
#include "keel/ops/elementwise.h"

namespace keel {

Value remembered(Graph& graph, const std::string& who, const std::string& name,
                 const Initializer& init, const char* fix, CallSite site) {
  const Value before = graph.find_state(name);
  if (!before.valid()) return graph.state(name, init, {.trainable = false}, site);
  throw Error({.op = who,
               .argument = "state '" + name + "'",
               .expected = "a name that no other state has",
               .got = described(before) + made_at(before),
               .fix = fix,
               .site = site});
}

Value UpdateCount::applied() {
  if (applied_.valid()) return applied_;
  const Value skipped = count_skipped_steps(graph_, of_, site_);
  update_.assignments.push_back({skipped, skipped});
  applied_ = applied_by(skipped, site_);
  return applied_;
}

Value applied_by(Value skipped, CallSite site) {
  return sub(Operand(skipped.graph().step(), site), skipped, site);
}

}  // namespace keel
