// A loop held the queue of its last launch, so that the slots of the next one, which its feeder had
// opened, were in memory beside it.
#include <memory>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/runtime/loop.h"
#include "keel/graph/runtime/session.h"

#include "unit/runtime_for_tests.h"

TEST_SUITE_BEGIN("loop");

namespace {

using namespace keel;
using namespace keel::testing;

}  // namespace

TEST_CASE("a feeder that opens anew leaves nothing of its queue of before") {
  HalvingModel m;
  Session session(m.graph, device("npu"));
  const std::shared_ptr<Feeder> feeder = halving_feeder(device("npu"), 1000);
  Loop loop = session.sink({.update = m.update, .fetches = {m.total}, .source = feeder});
  CHECK(loop.run(3).steps == 3);
  const std::weak_ptr<DeviceQueue> before = feeder->queue();
  CHECK_FALSE(before.expired());
  feeder->stop();
  feeder->open(Cursor{});
  CHECK(before.expired());
  CHECK(loop.run(3).steps == 3);
}

TEST_SUITE_END();
