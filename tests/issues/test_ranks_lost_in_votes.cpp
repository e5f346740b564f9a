// A rank that heard in a vote of another one's loss got an Error that named neither the rank nor
// the reason, and what a sum inside a step threw came out of the loop as a mere Error, too: only
// the tool asked the group who was lost. A rank whose fit failed told the others that it did, and
// not why.
#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/core/group/group_agreement.h"
#include "keel/graph/runtime/trainer.h"
#include "keel/ops/all_reduce.h"
#include "keel/ops/ops.h"

#include "support/declining_backend.h"
#include "unit/ranks_for_tests.h"
#include "unit/runtime_for_tests.h"

TEST_SUITE_BEGIN("loop");

namespace {

using namespace keel;
using namespace keel::testing;
using keel_test::DecliningBackend;

enum class Loss { kHook, kData };  // what fails

// Rank 1 is lost behind its fifth step. Both must end with an error; rank 0's is checked.
void check_loss(const Device& on, Loss how) {
  std::string lost, mere;
  const auto errors = on_local_ranks(2, [&](const std::shared_ptr<Group>& group) {
    const bool fails = group->rank() == 1;
    HalvingModel m;
    Session session(m.graph, on);
    const auto feeder = std::make_shared<NumberFeeder>(
        on, halving_element(), [=](int64_t i, const std::vector<void*>&) -> bool {
          if (fails && how == Loss::kData && i == 5) throw Error("record 5 is torn");
          return true;
        });
    feeder->open({});
    Trainer trainer(session, {.update = m.update,
                              .fetches = {m.total},
                              .source = feeder,
                              .agreement = make_group_agreement(group)});
    TrainOptions options{.steps = 1000000, .loop_size = 3, .group = group};
    options.on_step = [=](int64_t step, std::span<const double>) {
      if (fails && how == Loss::kHook && step == 5) group->fail("its disk is full");
      return LoopControl::kContinue;
    };
    if (fails) {
      trainer.fit(options);
      return;
    }
    try {
      trainer.fit(options);
    } catch (const RankLost& error) {
      lost = error.what();
      throw;
    } catch (const std::exception& error) {
      mere = error.what();
      throw;
    }
  });
  CHECK(mere == "");
  const std::string said = how == Loss::kHook ? "its disk is full" : "record 5 is torn";
  CHECK_MESSAGE(contains(lost, "rank 1 failed: " + said + "; this rank was "), lost);
  if (how == Loss::kData) CHECK_MESSAGE(contains(errors[1], "record 5 is torn"), errors[1]);
}

}  // namespace

TEST_CASE("a rank that hears in a vote of another one's loss names it") {
  for (const std::string& name : backend_names()) {
    CAPTURE(name);
    DecliningBackend modest(name, "sunk_loop");
    for (const Loss how : {Loss::kHook, Loss::kData}) {
      check_loss(device(name), how);
      check_loss(modest.device(), how);
    }
  }
}

TEST_CASE("a rank whose hook fails tells the others why") {
  std::string told;
  on_local_ranks(2, [&](const std::shared_ptr<Group>& group) {
    HalvingModel m;
    Session session(m.graph, device("ref"));
    Trainer trainer(session, {.update = m.update,
                              .source = halving_feeder(device("ref"), 100),
                              .agreement = make_group_agreement(group)});
    const auto hook = [&](int64_t step) {
      if (group->rank() == 1 && step == 4) throw Error("the disk is full");
      return LoopControl::kContinue;
    };
    try {
      trainer.fit({.steps = 20, .loop_size = 2, .every_n_steps = {{2, hook}}, .group = group});
    } catch (const RankLost& error) {
      if (group->rank() == 0) told = error.what();
    }
  });
  CHECK_MESSAGE(contains(told, "rank 1 failed: the disk is full; this rank was "), told);
}

TEST_CASE("a loop whose sum lost a rank throws what names it as a loss") {
  for (const std::string& name : backend_names()) {
    CAPTURE(name);
    std::string lost;
    on_local_ranks(2, [&](const std::shared_ptr<Group>& group) {
      Graph graph;
      const Value w = graph.state("w", zeros({4}));
      const Value next = all_reduce({w + 1.0f}, group)[0];
      Session session(graph, device(name));
      Loop loop =
          session.sink({.update = Update{{{w, next}}}, .agreement = make_group_agreement(group)});
      const auto on_step = [&](int64_t step, std::span<const double>) {
        if (group->rank() == 1 && step == 5) group->fail("its disk is full");
        return LoopControl::kContinue;
      };
      try {
        loop.run(1000000, {.on_step = on_step});
      } catch (const RankLost& error) {
        if (group->rank() == 0) lost = error.what();
        if (group->rank() == 0) CHECK(error.info().site.known());
      }
    });
    CHECK_MESSAGE(contains(lost, "rank 1 failed: its disk is full; this rank was "), lost);
  }
}

TEST_SUITE_END();
