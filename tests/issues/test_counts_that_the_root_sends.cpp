// broadcast_states sent keel/step behind the counts of skipped steps, which begin anew where the
// step is written: other ranks than the root counted adam's updates from another number.
#include <memory>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/runtime/rank_states.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/nn/nn.h"
#include "keel/ops/ops.h"

#include "unit/ranks_for_tests.h"

TEST_SUITE_BEGIN("loop");

TEST_CASE("ranks that get the root's states go on with the updates that it counted") {
  using namespace keel;
  keel::testing::none_failed(
      keel::testing::on_local_ranks(2, [](const std::shared_ptr<Group>& group) {
        Graph graph;
        const Value w = graph.state("w", ones({2}));
        const Value applies = graph.input("applies", boolean, {});
        const Update update = apply_if(applies, adam(0.1).minimize(sum(square(w))));
        Session session(graph, device("ref"));
        const auto train = [&](bool applied) {
          session.run(update, Values{}, {{applies, Tensor::full(boolean, {}, applied ? 1 : 0)}});
        };
        // The root skips two of its five steps, the other rank has none.
        if (group->rank() == 0) {
          for (const bool applied : {true, false, true, false, true}) train(applied);
        }
        broadcast_states(session, *group);
        require_equal_states(session, *group);
        if (session.step() != 5) throw Error("another step");
        if (session.updates_applied() != 3) throw Error("another count of updates");
        train(true);
        require_equal_states(session, *group);
        group->leave();
      }));
}

TEST_SUITE_END();
