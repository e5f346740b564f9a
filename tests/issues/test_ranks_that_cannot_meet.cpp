// What kept ranks apart without a true reason: an address that this machine lacks was told as
// HCCL_EXEC_TIMEOUT, 64 silent connections kept a rank out, and CM_* without CM_WORKER_IP had every
// rank listen at the loopback. A table of another kind was answered with megabytes, and a broadcast
// from no rank crashed. A million ranks that were missing were more than a message holds, nothing
// said who had named an address where rank 0 cannot listen, and silence was told as "Operation now
// in progress".
#include <chrono>
#include <cstdlib>
#include <memory>
#include <poll.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>

#include "keel/core/group/channel.h"
#include "keel/core/group/coordinator.h"
#include "keel/core/group/gloo_engine.h"
#include "keel/core/group/join_group.h"
#include "keel/core/group/rank_place.h"
#include "keel/core/group/rank_table.h"

#include "support/count_of.h"
#include "support/error_of.h"
#include "unit/meeting_for_tests.h"
#include "unit/ranks_for_tests.h"

TEST_SUITE_BEGIN("loop");

namespace {

using namespace keel;
using keel::testing::after;
using keel::testing::free_port;
using keel::testing::none_failed;
using keel::testing::on_local_ranks;
using keel::testing::on_ranks;
using keel::testing::without_gloo;
using keel_test::contains;
using keel_test::error_of;

// RFC 5737 keeps this address for documents, so that no machine has it.
constexpr const char* kAddressOfNobody = "192.0.2.1";

JoinOptions options_of(int rank, uint16_t port) {
  JoinOptions options;
  options.rank = rank;
  options.size = 2;
  options.address = "127.0.0.1";
  options.port = port;
  options.connect_patience = std::chrono::seconds(30);
  return options;
}

// A table whose one server has so many devices of which nothing is said.
std::string table_of_empty_devices(size_t devices) {
  nlohmann::json device = nlohmann::json::array();
  for (size_t i = 0; i < devices; ++i) device.push_back(nlohmann::json::object());
  const nlohmann::json server = {{"server_id", "a"}, {"device", device}};
  return nlohmann::json{{"status", "completed"}, {"version", "1.0"}, {"server_list", {server}}}
      .dump();
}

// Waits until the coordinator ends the job; "" where it closes its connection before.
std::string reason_told_to(Channel& rank) {
  const Deadline deadline = after(30000);
  std::string told;
  while (told.empty() && wait_for(rank.number(), POLLIN, deadline) && rank.take_in()) {
    while (const auto message = rank.next()) {
      if (message->contains("abort")) told = (*message)["abort"].get<std::string>();
    }
  }
  return told;
}

}  // namespace

TEST_CASE("an address that this machine does not have is named with who says it") {
  if (without_gloo()) return;
  JoinOptions options = options_of(0, free_port());
  options.own_address = kAddressOfNobody;
  options.address_said_by = "hccl.json: device_ip of rank 0";
  const std::string told = error_of([&] { join_group(options); });
  CHECK_MESSAGE(contains(told,
                         "hccl.json: device_ip of rank 0: expected an address of this machine, "
                         "got 192.0.2.1"),
                told);
}

TEST_CASE("an address where rank 0 cannot listen is named with who says it") {
  if (without_gloo()) return;
  JoinOptions options = options_of(0, free_port());
  options.address = kAddressOfNobody;
  options.meeting_said_by = "CM_CHIEF_IP";
  const std::string told = error_of([&] { join_group(options); });
  CHECK_MESSAGE(contains(told, "CM_CHIEF_IP: expected an address of this machine, got 192.0.2.1"),
                told);
}

TEST_CASE("an address that stays silent is told as a timeout") {
  const Descriptor listening = listen_at("127.0.0.1", 0);
  // Connections that nobody accepts fill its queue, and the system answers no others.
  REQUIRE(listen(listening.number(), 0) == 0);
  std::vector<Descriptor> queue;
  const std::string told = error_of([&] {
    for (int i = 0; i < 100; ++i)
      queue.push_back(connect_to("127.0.0.1", port_of(listening.number()), after(300)));
  });
  CHECK_MESSAGE(!contains(told, "in progress"), told);
  if (queue.size() < 100) CHECK_MESSAGE(contains(told, "nobody answers at 127.0.0.1 port"), told);
}

TEST_CASE("of very many ranks that are missing the first ones are named") {
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  constexpr int kRanks = 1 << 20;
  const Coordinator coordinator({.size = kRanks, .patience = std::chrono::seconds(1)}, {ends[0]});
  Channel rank{Descriptor(ends[1])};
  REQUIRE(rank.send({{"join", {{"rank", 0}, {"size", kRanks}, {"job", ""}}}}));
  CHECK(reason_told_to(rank) ==
        "HCCL_CONNECT_TIMEOUT: after 1 s these ranks have not come: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, "
        "and 1048565 more");
}

TEST_CASE("ranks that fail while they connect are not told of a collective that timed out") {
  int ends[2][2];
  for (auto& pair : ends) REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
  const Coordinator coordinator({.size = 2}, {ends[0][0], ends[1][0]});
  Channel first{Descriptor(ends[0][1])}, second{Descriptor(ends[1][1])};
  int rank = 0;
  for (Channel* channel : {&first, &second})
    REQUIRE(channel->send({{"join", {{"rank", rank++}, {"size", 2}, {"job", ""}}}}));
  REQUIRE(first.send(
      {{"stuck",
        {{"what", "no route"}, {"at", "before its first collective"}, {"connecting", true}}}}));
  const std::string told = reason_told_to(second);
  CHECK_MESSAGE(contains(told, "the ranks cannot connect: "), told);
  CHECK_MESSAGE(contains(told, "rank 0 waits before its first collective: no route"), told);
  CHECK_MESSAGE(!contains(told, "TIMEOUT"), told);
}

TEST_CASE("a rank waits where connections that say nothing are before it") {
  if (without_gloo()) return;
  const uint16_t port = free_port();
  none_failed(on_ranks(2, [&](int rank) {
    std::vector<Descriptor> silent;
    if (rank == 1) {
      for (int i = 0; i < 64; ++i) silent.push_back(connect_to("127.0.0.1", port, after(30000)));
      // By then rank 0's coordinator has taken all of them.
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
    std::thread they_go([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      silent.clear();
    });
    const std::string told = error_of([&] { join_group(options_of(rank, port))->leave(); });
    they_go.join();
    if (!told.empty()) throw Error(told);
  }));
}

TEST_CASE("a rank of CM variables listens where its connection to rank 0 begins") {
  const char* const variables[] = {"CM_CHIEF_IP", "CM_CHIEF_PORT", "CM_WORKER_SIZE", "RANK_ID"};
  const uint16_t port = free_port();
  const std::string values[] = {"127.0.0.1", std::to_string(port), "2", "1"};
  for (size_t i = 0; i < 4; ++i) setenv(variables[i], values[i].c_str(), /*overwrite=*/1);
  const JoinOptions options = read_join_options(read_rank_place());
  for (const char* variable : variables) unsetenv(variable);
  CHECK(options.own_address == "");
  CHECK(options.meeting_said_by == "CM_CHIEF_IP");

  const Descriptor listening = listen_at("127.0.0.1", port);
  CHECK(address_of(connect_to("127.0.0.1", port, after(30000)).number()) == "127.0.0.1");
  int pair[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
  const Descriptor ends[] = {Descriptor(pair[0]), Descriptor(pair[1])};
  CHECK(address_of(pair[0]) == "");
}

TEST_CASE("ranks meet that are told of no address of their own") {
  if (without_gloo()) return;
  const uint16_t port = free_port();
  none_failed(on_ranks(2, [&](int rank) {
    JoinOptions options = options_of(rank, port);
    options.own_address = "";
    const auto group = join_group(options);
    if (group->all_gather(std::to_string(rank)) != std::vector<std::string>{"0", "1"})
      throw Error("wrong");
    group->leave();
  }));
}

// Each device lacks its number and its rank.
TEST_CASE("a rank table with many violations is told by the first hundred") {
  // What an Error prints is cut, what it holds is not.
  const auto refusal = [](size_t devices) -> std::string {
    try {
      parse_rank_table(table_of_empty_devices(devices), "hccl.json");
    } catch (const Error& error) {
      return error.info().message;
    }
    return "";
  };
  const std::string all = refusal(50);
  CHECK(all.rfind("100 things are wrong with it: ", 0) == 0);
  CHECK(keel_test::count_of("is missing", all) == 100);
  const std::string some = refusal(100000);
  CHECK(some.rfind("more than 100 things are wrong with it, first: ", 0) == 0);
  CHECK(keel_test::count_of("is missing", some) == 100);
}

TEST_CASE("a broadcast from no rank is refused on all ranks") {
  const auto check = [](Group& group) {
    char byte = 0;
    for (const int root : {-1, 2}) {
      const std::string told = error_of([&] { group.broadcast(&byte, 1, root); });
      if (!contains(told,
                    "broadcast: root: expected a rank from 0 to 1, got " + std::to_string(root)))
        throw Error("told: " + told);
    }
    group.broadcast(&byte, 1, 1);
    group.leave();
  };
  none_failed(on_local_ranks(2, [&](const std::shared_ptr<Group>& group) { check(*group); }));
  if (without_gloo()) return;
  const uint16_t port = free_port();
  none_failed(on_ranks(2, [&](int rank) { check(*join_group(options_of(rank, port))); }));
}

TEST_CASE("a group of no ranks is refused") {
  for (const int size : {-1, 0}) {
    CHECK(error_of([&] { make_local_groups(size); }) ==
          "make_local_groups: size: expected 1 to 1048576 ranks, got " + std::to_string(size));
  }
}

TEST_SUITE_END();
