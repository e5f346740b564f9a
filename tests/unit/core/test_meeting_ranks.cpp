// Ranks without a launcher: they meet at rank 0's address, or say why not. In the suite "loop", so
// that ThreadSanitizer sees them.
#include <atomic>
#include <chrono>
#include <string>
#include <unistd.h>

#include <doctest/doctest.h>
#include <sys/socket.h>

#include "keel/core/group/channel.h"
#include "keel/core/group/gloo_engine.h"
#include "keel/core/group/join_group.h"

#include "meeting_for_tests.h"
#include "ranks_for_tests.h"
#include "support/error_of.h"

TEST_SUITE_BEGIN("loop");

namespace {

using namespace keel;
using keel::testing::after;
using keel::testing::free_port;
using keel::testing::none_failed;
using keel::testing::on_ranks;
using keel::testing::wait_until;
using keel::testing::without_gloo;
using keel_test::contains;
using keel_test::error_of;

}  // namespace

TEST_CASE("group: ranks without a launcher meet at rank 0's address") {
  if (without_gloo()) return;
  const uint16_t port = free_port();
  const auto options = [&](int rank, int size) {
    JoinOptions made;
    made.rank = rank;
    made.size = size;
    made.job = "night";
    made.address = "127.0.0.1";
    made.port = port;
    made.connect_patience = std::chrono::seconds(30);
    return made;
  };
  SUBCASE("and sum") {
    none_failed(on_ranks(2, [&](int rank) {
      const auto group = join_group(options(rank, 2));
      const auto reduction = group->make_reduction("gradients", 3);
      reduction->data()[0] = static_cast<float>(rank + 1);
      reduction->sum();
      if (reduction->data()[0] != 3) throw Error("wrong");
      group->leave();
    }));
  }
  SUBCASE("a stranger among them does no harm") {
    std::atomic<bool> stranger_gone{false};
    none_failed(on_ranks(3, [&](int rank) {
      if (rank == 2) {
        const Deadline soon = std::chrono::steady_clock::now() + std::chrono::seconds(30);
        for (int i = 0; i < 5; ++i) {
          const Descriptor socket = connect_to("127.0.0.1", port, soon);
          const std::string noise = i == 4 ? R"({"join": {"job": "night", "rank": "x"}})"
                                             "\n"
                                           : "\x01\xff\n{";
          send(socket.number(), noise.data(), noise.size(), MSG_NOSIGNAL);
        }
        stranger_gone = true;
        return;
      }
      // Rank 0 waits for rank 1 and listens until then.
      if (rank == 1) wait_until([&] { return stranger_gone.load(); });
      const auto group = join_group(options(rank, 2));
      group->leave();
    }));
  }
  SUBCASE("and then nobody listens any more") {
    none_failed(on_ranks(2, [&](int rank) {
      const auto group = join_group(options(rank, 2));
      group->all_gather("");
      const std::string told = error_of([&] { connect_to("127.0.0.1", port, after(100)); });
      if (!contains(told, "nobody answers")) throw Error("somebody listens: " + told);
      group->leave();
    }));
  }
  SUBCASE("or not: one is of another job") {
    auto others = options(1, 2);
    others.job = "day";
    auto own = options(0, 2);
    own.connect_patience = std::chrono::seconds(2);
    const auto errors = on_ranks(2, [&](int rank) { join_group(rank == 0 ? own : others); });
    CHECK_MESSAGE(contains(errors[0],
                           "after 2 s these ranks have not come: 1; a process with another "
                           "JOB_ID has"),
                  errors[0]);
    CHECK_MESSAGE(
        contains(errors[1], "JOB_ID: the ranks that meet here are of another job than 'day'"),
        errors[1]);
  }
  SUBCASE("or not: one says another size") {
    const auto errors = on_ranks(2, [&](int rank) { join_group(options(rank, 2 + rank)); });
    for (const std::string& error : errors)
      CHECK_MESSAGE(contains(error, "rank 1 says that there are 3 ranks; there are 2"), error);
  }
  SUBCASE("or not: a rank is there twice") {
    const auto errors = on_ranks(3, [&](int rank) { join_group(options(rank == 0 ? 0 : 1, 3)); });
    for (const std::string& error : errors)
      CHECK_MESSAGE(contains(error, "two processes say that they are rank 1"), error);
  }
  SUBCASE("or not: one does not come") {
    auto short_of_time = options(0, 2);
    short_of_time.connect_patience = std::chrono::seconds(1);
    CHECK(contains(error_of([&] { join_group(short_of_time); }),
                   "HCCL_CONNECT_TIMEOUT: after 1 s these ranks have not come: 1"));
  }
  SUBCASE("or not: rank 0 does not come") {
    auto short_of_time = options(1, 2);
    short_of_time.connect_patience = std::chrono::seconds(1);
    CHECK(contains(error_of([&] { join_group(short_of_time); }),
                   "HCCL_CONNECT_TIMEOUT: nobody answers at 127.0.0.1 port"));
  }
}

// Without anybody who listens at an even port of those that the system chooses from, it comes to be
// the near end of a connection to it before long.
TEST_CASE("channel: a socket does not connect with itself") {
  uint16_t port = 0;
  do {
    port = static_cast<uint16_t>(port_of(listen_at("127.0.0.1", 0).number()) + 1);
  } while (port % 2 != 0 || !error_of([&] { listen_at("127.0.0.1", port); }).empty());
  const std::string told =
      error_of([&] { connect_to("127.0.0.1", port, after(2000), std::chrono::milliseconds(0)); });
  CHECK(contains(told, "nobody answers at 127.0.0.1 port"));
}

TEST_SUITE_END();
