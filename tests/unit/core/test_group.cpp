// Groups of ranks: within a process, and over sockets, where threads stand for the processes. In
// the suite "loop", so that ThreadSanitizer sees them.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <functional>
#include <memory>
#include <mutex>
#include <poll.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>

#include "keel/core/group/channel.h"
#include "keel/core/group/coordinator.h"
#include "keel/core/group/fingerprint.h"
#include "keel/core/group/gloo_engine.h"
#include "keel/core/group/group.h"
#include "keel/core/group/group_agreement.h"
#include "keel/core/group/join_group.h"
#include "keel/core/group/machine.h"

#include "meeting_for_tests.h"
#include "ranks_for_tests.h"
#include "support/error_of.h"

TEST_SUITE_BEGIN("loop");

namespace {

using namespace keel;
using keel::testing::after;
using keel::testing::none_failed;
using keel::testing::on_local_ranks;
using keel::testing::on_ranks;
using keel::testing::wait_until;
using keel::testing::without_gloo;
using keel_test::contains;
using keel_test::error_of;

// The launcher's side of a job: a socket to each rank.
class Job {
 public:
  explicit Job(int size, CoordinatorOptions options = {}) {
    // A rank that goes would end this process, as join_group says.
    std::signal(SIGPIPE, SIG_IGN);
    std::vector<int> near;
    for (int i = 0; i < size; ++i) {
      int pair[2];
      REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
      near.push_back(pair[0]);
      far_.push_back(pair[1]);
    }
    options.size = size;
    coordinator_ = std::make_unique<Coordinator>(options, near);
  }
  JoinOptions options(int rank) const {
    JoinOptions made;
    made.rank = rank;
    made.size = static_cast<int>(far_.size());
    made.coordinator_socket = far_[static_cast<size_t>(rank)];
    made.patience = std::chrono::seconds(20);
    return made;
  }
  Coordinator& coordinator() { return *coordinator_; }

 private:
  std::vector<int> far_;
  std::unique_ptr<Coordinator> coordinator_;
};

using Body = std::function<void(Group& group)>;

std::vector<std::string> in_job(int size, const Body& body, bool shares_memory) {
  Job job(size);
  return on_ranks(size, [&](int rank) {
    JoinOptions options = job.options(rank);
    options.shares_memory = shares_memory;
    const auto group = join_group(options);
    const std::string expected = size == 1       ? "one process"
                                 : shares_memory ? "shared memory"
                                                 : "sockets (rank 0: KEEL_RANK_TRANSPORT=sockets)";
    if (group->transport() != expected) throw Error("transport: " + group->transport());
    body(*group);
  });
}
std::vector<std::string> over_sockets(int size, const Body& body) {
  return in_job(size, body, /*shares_memory=*/false);
}
std::vector<std::string> over_memory(int size, const Body& body) {
  return in_job(size, body, /*shares_memory=*/true);
}

std::vector<std::string> in_process(int size, const Body& body) {
  return on_local_ranks(size, [&](const std::shared_ptr<Group>& group) { body(*group); });
}

// The same checks on all kinds of group.
void for_kinds(
    const std::function<void(const std::function<std::vector<std::string>(int, const Body&)>&)>&
        check) {
  SUBCASE("within a process") { check(in_process); }
  // Within a process it runs without Gloo, too.
  if (!has_gloo()) return;
  SUBCASE("over sockets") { check(over_sockets); }
  SUBCASE("over shared memory") { check(over_memory); }
}

float value_of(int rank, size_t element) {
  const auto drawn = static_cast<uint64_t>(rank) * 7919 + element * 104729 + 12345;
  return static_cast<float>(static_cast<double>((drawn * 2654435761u) % 100003) / 977.0 - 50.0);
}

}  // namespace

TEST_CASE("group: sums have the bits of a balanced tree over ranks") {
  for_kinds([](const auto& run) {
    for (const int size : {1, 2, 4}) {
      for (const size_t count : {size_t{1}, size_t{7}, size_t{7850}, size_t{200001}}) {
        CAPTURE(size);
        CAPTURE(count);
        std::mutex mutex;
        none_failed(run(size, [&](Group& group) {
          const auto reduction = group.make_reduction("gradients", count);
          REQUIRE(reduction->size() == count);
          int64_t wrong = 0;
          for (int turn = 0; turn < 3; ++turn) {
            for (size_t i = 0; i < count; ++i)
              reduction->data()[i] = value_of(group.rank() + turn, i);
            reduction->sum();
            for (size_t i = 0; i < count; ++i) {
              std::vector<float> level;
              for (int rank = 0; rank < size; ++rank) level.push_back(value_of(rank + turn, i));
              while (level.size() > 1) {
                for (size_t k = 0; k < level.size() / 2; ++k)
                  level[k] = level[2 * k] + level[2 * k + 1];
                level.resize(level.size() / 2);
              }
              wrong += reduction->data()[i] != level[0];
            }
          }
          group.leave();
          const std::lock_guard<std::mutex> lock(mutex);
          CHECK(wrong == 0);
        }));
      }
    }
  });
}

TEST_CASE("group: three ranks agree on a sum") {
  for_kinds([](const auto& run) {
    std::vector<float> first(3);
    none_failed(run(3, [&](Group& group) {
      const auto reduction = group.make_reduction("gradients", 1001);
      for (size_t i = 0; i < 1001; ++i) reduction->data()[i] = value_of(group.rank(), i);
      reduction->sum();
      first[static_cast<size_t>(group.rank())] = reduction->data()[1000];
      group.leave();
    }));
    CHECK(first[0] == first[1]);
    CHECK(first[0] == first[2]);
    const double exact = double{value_of(0, 1000)} + value_of(1, 1000) + value_of(2, 1000);
    CHECK(std::abs(first[0] - exact) < 1e-4);
  });
}

TEST_CASE("group: what is gathered and broadcast") {
  for_kinds([](const auto& run) {
    none_failed(run(3, [](Group& group) {
      const std::vector<std::string> texts = {"", "one", std::string(100000, 'x')};
      const std::vector<std::string> got =
          group.all_gather(texts[static_cast<size_t>(group.rank())]);
      bool right = got == texts;
      std::vector<int64_t> words(50000, group.rank());
      group.broadcast(words.data(), words.size() * sizeof(int64_t), 2);
      for (const int64_t word : words) right = right && word == 2;
      group.broadcast(words.data(), 0, 0);
      if (!right) throw Error("wrong");
      group.leave();
    }));
  });
}

TEST_CASE("group: reductions that differ are told with both sides") {
  for_kinds([](const auto& run) {
    const auto errors = run(
        2, [](Group& group) { group.make_reduction("gradients", group.rank() == 0 ? 10 : 11); });
    for (const std::string& error : errors)
      CHECK_MESSAGE(contains(error,
                             "COLLECTIVE_DIVERGED(rank 0 makes 'gradients' of 10, rank 1 "
                             "makes 'gradients' of 11)"),
                    error);
  });
}

TEST_CASE("group: a rank at another reduction is found out") {
  for_kinds([](const auto& run) {
    const auto errors = run(2, [](Group& group) {
      const auto a = group.make_reduction("a", 16);
      const auto b = group.make_reduction("b", 16);
      (group.rank() == 0 ? a : b)->sum();
    });
    // Within a process they have no numbers.
    for (const std::string& error : errors) {
      const bool told =
          contains(error,
                   "COLLECTIVE_DIVERGED(rank 0 a (collective 1), rank 1 b (collective 1))") ||
          contains(error, "COLLECTIVE_DIVERGED(rank 0 a, rank 1 b)");
      CHECK_MESSAGE(told, error);
    }
  });
}

TEST_CASE("group: a rank at another reduction of the same name is found out") {
  for_kinds([](const auto& run) {
    const auto errors = run(2, [](Group& group) {
      const auto small = group.make_reduction("bucket 1 of 1", 4);
      const auto large = group.make_reduction("bucket 1 of 1", 65536);
      (group.rank() == 0 ? small : large)->sum();
    });
    for (const std::string& error : errors)
      CHECK_MESSAGE(contains(error, "COLLECTIVE_DIVERGED(rank 0 bucket 1 of 1"), error);
  });
}

TEST_CASE("group: broadcasts that differ are told with both sides") {
  for_kinds([](const auto& run) {
    const auto differing = [&](size_t count_of_second, int root_of_second) {
      return run(2, [=](Group& group) {
        const bool first = group.rank() == 0;
        std::vector<char> bytes(4096);
        group.broadcast(bytes.data(), first ? 4 : count_of_second, first ? 0 : root_of_second);
      });
    };
    for (const std::string& error : differing(4096, 0))
      CHECK_MESSAGE(contains(error,
                             "COLLECTIVE_DIVERGED(rank 0 broadcasts 4 bytes of rank 0, rank 1 "
                             "broadcasts 4096 bytes of rank 0)"),
                    error);
    for (const std::string& error : differing(4, 1))
      CHECK_MESSAGE(contains(error, "rank 1 broadcasts 4 bytes of rank 1)"), error);
  });
}

// One's data were taken for those that the call of another brings. Whoever comes last does
// the work for all.
TEST_CASE("group: ranks of one process that make other calls are told with both sides") {
  using Call = std::function<void(Group&, Reduction&)>;
  const std::pair<std::string, Call> calls[] = {
      {"gathers texts", [](Group& group, Reduction&) { group.all_gather("x"); }},
      {"sums 'a'", [](Group&, Reduction& reduction) { reduction.sum(); }},
      {"broadcasts 1 bytes of rank 0",
       [](Group& group, Reduction&) {
         char byte = 0;
         group.broadcast(&byte, 1, 0);
       }},
      {"leaves", [](Group& group, Reduction&) { group.leave(); }}};
  for (const auto& first : calls) {
    for (const auto& second : calls) {
      if (first.first == second.first) continue;
      const std::string told =
          "COLLECTIVE_DIVERGED(rank 0 " + first.first + ", rank 1 " + second.first + ")";
      for (const std::string& error : in_process(2, [&](Group& group) {
             const auto reduction = group.make_reduction("a", 4);
             (group.rank() == 0 ? first : second).second(group, *reduction);
           }))
        CHECK_MESSAGE(contains(error, told), error);
    }
  }
}

TEST_CASE("group: a rank that goes ends the calls of the others") {
  for_kinds([](const auto& run) {
    const auto errors = run(3, [](Group& group) {
      const auto reduction = group.make_reduction("gradients", 100000);
      for (int i = 0; i < 5; ++i) {
        if (group.rank() == 1 && i == 3) return;
        reduction->sum();
      }
    });
    CHECK(errors[1] == "");
    CHECK_MESSAGE(contains(errors[0], "rank 1"), errors[0]);
    CHECK_MESSAGE(contains(errors[2], "rank 1"), errors[2]);
  });
}

TEST_CASE("group: a rank that fails tells the others why") {
  for_kinds([](const auto& run) {
    const auto errors = run(2, [](Group& group) {
      const auto reduction = group.make_reduction("gradients", 100);
      if (group.rank() == 0) group.fail("its disk is full");
      while (true) reduction->sum();
    });
    for (const std::string& error : errors)
      CHECK_MESSAGE(contains(error, "its disk is full"), error);
  });
}

TEST_CASE("group: the launcher's word ends a call that waits") {
  if (without_gloo()) return;
  Job job(2);
  std::atomic<bool> waiting{false};
  const auto errors = on_ranks(3, [&](int rank) {
    if (rank == 2) {
      wait_until([&] { return waiting.load(); });
      job.coordinator().abort("rank 0 was stopped");
      return;
    }
    const auto group = join_group(job.options(rank));
    const auto reduction = group->make_reduction("gradients", 100);
    if (rank == 0) {
      waiting = true;
      wait_until([&] { return group->broken(); });
    }
    reduction->sum();
  });
  CHECK(contains(errors[0], "rank 0 was stopped; this rank was "));
  CHECK(contains(errors[1], "rank 0 was stopped; this rank was "));
}

TEST_CASE("group: a process that ended without leaving ends the others' calls") {
  if (without_gloo()) return;
  Job job(2);
  std::atomic<int> waiting{0};
  const auto errors = on_ranks(3, [&](int rank) {
    if (rank == 2) {
      wait_until([&] { return waiting.load() == 2; });
      job.coordinator().note_end(1, "rank 1 ended with exit code 143");
      return;
    }
    const auto group = join_group(job.options(rank));
    waiting.fetch_add(1);
    wait_until([&] { return group->broken(); });
    group->leave();
  });
  for (size_t rank = 0; rank < 2; ++rank)
    CHECK_MESSAGE(contains(errors[rank], "rank 1 ended with exit code 143"), errors[rank]);
}

TEST_CASE("group: the error of a loss names it and the step and the reduction of this rank") {
  for_kinds([](const auto& run) {
    std::string loss, own_loss = "unknown";
    const auto errors = run(2, [&](Group& group) {
      const auto first = group.make_reduction("bucket 1 of 2", 100);
      const auto second = group.make_reduction("bucket 2 of 2", 100);
      CHECK(group.loss() == "");
      for (int step = 5; step < 9; ++step) {
        group.begin_step(step);
        try {
          first->sum();
          if (group.rank() == 1 && step == 7) {
            group.fail("its disk is full");
            own_loss = group.loss();
          }
          second->sum();
        } catch (const RankLost&) {
          if (group.rank() == 0) loss = group.loss();
          throw;
        }
      }
    });
    // The word of it may come while this rank is still at the end of the first sum.
    const std::string told = "rank 1 failed: its disk is full; this rank was in step 7, at bucket ";
    const bool named = contains(errors[0], told + "2 of 2 (collective 6)") ||
                       contains(errors[0], told + "1 of 2 (collective 5)");
    CHECK_MESSAGE(named, errors[0]);
    CHECK(loss == "rank 1 failed: its disk is full");
    CHECK(own_loss == "");
  });
}

TEST_CASE("group: a rank that does not come to a collective is named") {
  if (without_gloo()) return;
  // They answer at once; a busy machine may let them wait.
  Job job(3, {.answer_patience = std::chrono::seconds(20)});
  std::atomic<int> ended{0};
  const auto errors = on_ranks(3, [&](int rank) {
    JoinOptions options = job.options(rank);
    options.patience = std::chrono::seconds(3);
    const auto group = join_group(options);
    const auto reduction = group->make_reduction("gradients", 100);
    group->begin_step(1);
    reduction->sum();
    group->begin_step(2);
    // It lives, and does something else.
    if (rank == 1) wait_until([&] { return ended == 2; });
    try {
      reduction->sum();
    } catch (const RankLost&) {
      ++ended;
      throw;
    }
  });
  for (const int rank : {0, 2}) {
    const std::string& error = errors[static_cast<size_t>(rank)];
    CHECK_MESSAGE(contains(error,
                           "HCCL_EXEC_TIMEOUT: rank 1 is still in step 2, behind gradients "
                           "(collective 1) of step 1"),
                  error);
    CHECK_MESSAGE(contains(error, "this rank was in step 2, at gradients (collective 2)"), error);
  }
  CHECK(contains(errors[1], "HCCL_EXEC_TIMEOUT: rank 1 is still in step 2"));
}

TEST_CASE("group: fingerprints that differ are told with both sides") {
  for_kinds([](const auto& run) {
    none_failed(run(3, [](Group& group) {
      require_equal_fingerprints(group, {{"graph", "a1b2"}, {"seed", "7"}});
      group.leave();
    }));
    const auto errors = run(3, [](Group& group) {
      Fingerprint own = {{"graph", "a1b2"}, {"seed", "7"}, {"start_step", "0"}};
      if (group.rank() == 1) own["graph"] = "c3d4";
      if (group.rank() == 2) own.erase("start_step");
      require_equal_fingerprints(group, own);
    });
    for (const std::string& error : errors)
      CHECK_MESSAGE(contains(error,
                             "GRAPH_DIVERGED(rank 0 a1b2, rank 1 c3d4), "
                             "START_STEP_DIVERGED(rank 0 0, rank 2 none)"),
                    error);
  });
}

TEST_CASE("group: ranks of one machine share its processors whatever their table says") {
  // By hand: two servers with one device each, then two ranks beside one.
  CHECK(ranks_beside({"a", "b"}, 0) == 1);
  CHECK(ranks_beside({"a", "b"}, 1) == 1);
  CHECK(ranks_beside({"a", "a", "b"}, 1) == 2);
  CHECK(ranks_beside({"a", "a", "b"}, 2) == 1);
  for_kinds([](const auto& run) {
    none_failed(run(3, [](Group& group) {
      if (ranks_on_this_machine(group) != 3) throw Error("not all are here");
      group.leave();
    }));
  });
}

TEST_CASE("group: one rank that may not share memory keeps all of them from it") {
  if (without_gloo()) return;
  Job job(3);
  none_failed(on_ranks(3, [&](int rank) {
    JoinOptions options = job.options(rank);
    options.shares_memory = rank != 2;
    const auto group = join_group(options);
    if (group->transport() != "sockets (rank 2: KEEL_RANK_TRANSPORT=sockets)")
      throw Error(group->transport());
    const auto reduction = group->make_reduction("gradients", 2);
    reduction->data()[1] = static_cast<float>(rank);
    reduction->sum();
    if (reduction->data()[1] != 3) throw Error("wrong");
    group->leave();
  }));
}

TEST_CASE("coordinator: a rank that takes nothing is lost and keeps nobody waiting") {
  int ends[2][2];
  for (auto& pair : ends) REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
  Coordinator coordinator({.size = 2, .send_patience = std::chrono::milliseconds(200)},
                          {ends[0][0], ends[1][0]});
  Channel takes{Descriptor(ends[0][1])}, takes_nothing{Descriptor(ends[1][1])};
  int rank = 0;
  for (Channel* channel : {&takes, &takes_nothing})
    REQUIRE(channel->send({{"join", {{"rank", rank++}, {"size", 2}, {"job", ""}}}}));
  const Deadline deadline = after(30000);
  std::string told;
  while (told.empty() && wait_for(takes.number(), POLLIN, deadline) && takes.take_in()) {
    while (const auto message = takes.next()) {
      if (message->contains("abort")) told = (*message)["abort"].get<std::string>();
      // It is sent to both.
      const bool more = message->contains("put") && told.empty();
      if (more) takes.send({{"put", {{"key", "k"}, {"value", std::string(100000, '0')}}}});
    }
  }
  CHECK(told == "rank 1 takes none of what it is sent");
}

TEST_CASE("group: the strongest vote of its ranks counts for all") {
  for_kinds([](const auto& run) {
    constexpr LoopVote kVotes[][3] = {
        {LoopVote::kGoOn, LoopVote::kGoOn, LoopVote::kGoOn},
        {LoopVote::kGoOn, LoopVote::kStop, LoopVote::kEndOfData},
        {LoopVote::kStepsDone, LoopVote::kGoOn, LoopVote::kStepsDone},
        {LoopVote::kGoOn, LoopVote::kStopWhen, LoopVote::kStepsDone},
    };
    constexpr LoopVote kStrongest[] = {LoopVote::kGoOn, LoopVote::kStop, LoopVote::kStepsDone,
                                       LoopVote::kStopWhen};
    none_failed(run(3, [&](Group& group) {
      // The test's own pointer stays the owner.
      const auto agreement = make_group_agreement({std::shared_ptr<Group>(), &group});
      for (size_t round = 0; round < 4; ++round) {
        const LoopVote own = kVotes[round][static_cast<size_t>(group.rank())];
        if (agreement->agree(own) != kStrongest[round]) throw Error("wrong");
      }
      group.leave();
    }));
  });
}

TEST_CASE("group: all ranks hear with their votes that the late one waits least") {
  for_kinds([](const auto& run) {
    constexpr int kMostSteps = 500;
    none_failed(run(3, [&](Group& group) {
      const auto agreement = make_group_agreement({std::shared_ptr<Group>(), &group});
      const auto sums = group.make_reduction("gradients", 1000);
      CollectiveTimes& times = group.times();
      const auto tells_the_late_one = [&] {
        const int64_t least = times.waited_ns(1) + 2'000'000;
        return times.waited_ns(0) > least && times.waited_ns(2) > least;
      };
      // Whoever hears it would stop; the last of them ends the loop for all.
      bool heard = false;
      for (int step = 0; step < kMostSteps; ++step) {
        if (group.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        sums->sum();
        agreement->agree(LoopVote::kGoOn);
        heard = heard || tells_the_late_one();
        const LoopVote vote = heard ? LoopVote::kGoOn : LoopVote::kStepsDone;
        if (agreement->agree(vote) == LoopVote::kGoOn) break;
      }
      if (!heard) throw Error("rank 1 is not the one that the others wait for");
      if (times.summed_ns() <= 0) throw Error("no sums");
      group.leave();
    }));
  });
}

TEST_CASE("group: a rank whose loop fails ends the votes of the others") {
  for_kinds([](const auto& run) {
    none_failed(run(2, [](Group& group) {
      const auto agreement = make_group_agreement({std::shared_ptr<Group>(), &group});
      const LoopVote own = group.rank() == 0 ? LoopVote::kFailed : LoopVote::kGoOn;
      if (agreement->agree(own) != LoopVote::kFailed) throw Error("wrong");
      if (!agreement->broken()) throw Error("not broken");
      if (agreement->agree(LoopVote::kGoOn) != LoopVote::kFailed) throw Error("goes on");
    }));
  });
}

TEST_CASE("group: one rank needs neither sockets nor Gloo") {
  const auto group = join_group({});
  const auto reduction = group->make_reduction("gradients", 2);
  reduction->data()[1] = 4;
  reduction->sum();
  CHECK(reduction->data()[1] == 4);
  CHECK(group->all_gather("x") == std::vector<std::string>{"x"});
  group->leave();
}

TEST_SUITE_END();
