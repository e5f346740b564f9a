// Sums in memory that ranks share: their bits, votes and places, and what ends a wait. In the suite
// "loop", so that ThreadSanitizer sees them.
#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include "keel/core/group/group.h"
#include "keel/core/group/shared_memory.h"
#include "keel/core/group/shared_sum.h"
#include "keel/core/group/sum_place.h"

#include "ranks_for_tests.h"
#include "support/error_of.h"

TEST_SUITE_BEGIN("loop");

namespace {

using namespace keel;
using keel::testing::kPatience;
using keel::testing::no_errors;
using keel::testing::on_local_ranks;
using keel::testing::run_ranks;
using keel::testing::wait_until;
using keel_test::contains;
using keel_test::error_of;

GatherTexts gather_of(const std::shared_ptr<Group>& group) {
  return [group](const std::string& own) { return group->all_gather(own); };
}

// Whole numbers, whose sums are exact in any order.
float whole_number(int rank, size_t element, int64_t turn) {
  return static_cast<float>(
             (element * 29 + static_cast<size_t>(rank) * 11 + static_cast<size_t>(turn) * 3) %
             997) *
         (rank % 2 == 0 ? 1.0f : -3.0f);
}

// Three sums of each of two reductions in turn; throws where an element or a vote is wrong.
void sum_in_turn(const std::shared_ptr<Group>& group, size_t count) {
  const int rank = group->rank(), size = group->size();
  SharedSum sums(rank, kPatience, gather_of(group));
  float* const values[2] = {sums.add_reduction(count, gather_of(group)),
                            sums.add_reduction(0, gather_of(group))};
  for (size_t i = 0; i < count; ++i) {
    if (values[0][i] != 0) throw Error("the memory is not zero at first");
  }
  for (int64_t turn = 1; turn <= 6; ++turn) {
    const int64_t reduction = turn % 2;
    for (size_t i = 0; reduction == 0 && i < count; ++i) values[0][i] = whole_number(rank, i, turn);
    const auto vote = static_cast<uint8_t>(rank == turn % size ? 4 : rank % 3);
    if (sums.run({turn, reduction}, vote) != 4) throw Error("wrong vote");
    for (size_t i = 0; reduction == 0 && i < count; ++i) {
      float expected = 0;
      for (int other = 0; other < size; ++other) expected += whole_number(other, i, turn);
      if (values[0][i] != expected) throw Error("wrong sum of element " + std::to_string(i));
    }
  }
}

uint32_t bits_of(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// Every fifth one is not a number, with another sign and payload on each rank.
float drawn(int rank, size_t i) {
  if (i % 5 != 0)
    return 1.0f / static_cast<float>(i * 7 + static_cast<size_t>(rank) * 13 + 1) - 0.01f;
  const uint32_t bits =
      (rank % 2 == 0 ? 0x7fc00000u : 0xffc00000u) + 16u * static_cast<uint32_t>(rank);
  float made = 0;
  std::memcpy(&made, &bits, sizeof made);
  return made;
}

}  // namespace

TEST_CASE("shared sum: any number of ranks and elements") {
  for (const int size : {1, 2, 3, 4, 5, 7, 8}) {
    for (const size_t count : {0u, 1u, 15u, 16u, 17u, 1024u, 1025u, 33000u, 200001u}) {
      CAPTURE(size);
      CAPTURE(count);
      CHECK(run_ranks(size, [&](const auto& group) { sum_in_turn(group, count); }) ==
            no_errors(size));
    }
  }
}

TEST_CASE("shared sum: the bits are those of a balanced tree and equal on all ranks") {
  for (const int size : {2, 4, 5, 8}) {
    CAPTURE(size);
    constexpr size_t kCount = 5003;
    std::vector<std::vector<float>> results(static_cast<size_t>(size));
    CHECK(run_ranks(size, [&](const auto& group) {
            SharedSum sums(group->rank(), kPatience, gather_of(group));
            float* values = sums.add_reduction(kCount, gather_of(group));
            for (size_t i = 0; i < kCount; ++i) values[i] = drawn(group->rank(), i);
            sums.run({1, 0}, 0);
            results[static_cast<size_t>(group->rank())].assign(values, values + kCount);
          }) == no_errors(size));
    int64_t wrong = 0, differing = 0;
    for (size_t i = 0; i < kCount; ++i) {
      std::vector<float> level;
      for (int rank = 0; rank < size; ++rank) level.push_back(drawn(rank, i));
      if (size == 5) {
        level[0] += level[4];
        level.pop_back();
      }
      for (; level.size() > 1; level.resize(level.size() / 2)) {
        for (size_t k = 0; k < level.size() / 2; ++k) level[k] = level[2 * k] + level[2 * k + 1];
      }
      const bool number = i % 5 != 0;
      wrong += number ? results[0][i] != level[0] : results[0][i] == results[0][i];
      for (const auto& result : results) differing += bits_of(result[i]) != bits_of(results[0][i]);
    }
    CHECK(wrong == 0);
    CHECK(differing == 0);
  }
}

TEST_CASE("shared sum: ranks at different sums find out before a value is used") {
  const auto errors = on_local_ranks(2, [](const auto& group) {
    SharedSum sums(group->rank(), kPatience, gather_of(group));
    float* first = sums.add_reduction(100, gather_of(group));
    float* second = sums.add_reduction(7, gather_of(group));
    first[0] = second[0] = 5;
    try {
      sums.run({1, group->rank()}, 0);
    } catch (const SumsDiffer& difference) {
      const bool told = difference.rank() == 1 - group->rank() &&
                        difference.place() == SumPlace{1, 1 - group->rank()};
      if (!told || first[0] != 5 || second[0] != 5) throw Error("not told, or summed");
      group->leave();
      throw;
    }
  });
  CHECK(errors[0] == "rank 1 is at another sum");
  CHECK(errors[1] == "rank 0 is at another sum");
}

TEST_CASE("shared sum: a rank that does not come is named when patience ends") {
  const auto errors = on_local_ranks(3, [](const auto& group) {
    SharedSum sums(group->rank(), std::chrono::milliseconds(300), gather_of(group));
    sums.add_reduction(10, gather_of(group));
    std::string told = "it did not wait";
    if (group->rank() != 1) told = error_of([&] { sums.run({1, 0}, 0); });
    group->leave();
    if (group->rank() != 1) throw Error(told);
  });
  CHECK(errors[0] == "rank 1 sends nothing for 300 ms");
  CHECK(errors[1] == "");
  CHECK(errors[2] == "rank 1 sends nothing for 300 ms");
}

// As a job that is stopped by its terminal for longer than its ranks wait for one another.
TEST_CASE("sums: a time in which a process did not run is no wait for another rank") {
  WaitLimit limit(std::chrono::milliseconds(200));
  std::this_thread::sleep_for(WaitLimit::kLongTurn + std::chrono::milliseconds(100));
  CHECK_FALSE(limit.over());
  // The others have as long as before then.
  wait_until([&] { return limit.over(); });
}

TEST_CASE("shared sum: shut ends a wait and every later run") {
  std::atomic<SharedSum*> waiting{nullptr};
  const auto errors = on_local_ranks(2, [&](const auto& group) {
    SharedSum sums(group->rank(), kPatience, gather_of(group));
    sums.add_reduction(10, gather_of(group));
    std::string told;
    if (group->rank() == 0) {
      waiting = &sums;
      told = error_of([&] { sums.run({1, 0}, 0); });
      if (error_of([&] { sums.run({2, 0}, 0); }).empty()) told = "it ran again";
    } else {
      wait_until([&] { return waiting.load() != nullptr; });
      waiting.load()->shut();
    }
    group->leave();
    if (group->rank() == 0) throw Error(told);
  });
  CHECK(errors[0] == "the sums of this rank have ended");
  CHECK(errors[1] == "");
}

TEST_CASE("shared memory: a rank that cannot have it ends all of them with its reason") {
  const auto errors = on_local_ranks(3, [](const auto& group) {
    // The others find that the memory of rank 1 has another size.
    const std::string told = error_of(
        [&] { share_memory(group->rank(), group->rank() == 1 ? 8192 : 4096, gather_of(group)); });
    group->leave();
    throw Error(told);
  });
  for (const std::string& error : errors)
    CHECK(error ==
          "ranks: rank 0 cannot share memory: another rank's memory is not what it said; set "
          "KEEL_RANK_TRANSPORT=sockets on all ranks");
}

TEST_CASE("shared memory: more than there is is an error") {
  const std::string told = error_of([] { SharedMemory memory(size_t{1} << 60); });
  CHECK_MESSAGE(contains(told, "1152921504606846976 bytes that ranks share"), told);
}

TEST_CASE("shared memory: names of other things open nothing") {
  SharedMemory memory(4096);
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const std::string own = std::to_string(getpid());
  for (const std::string& name :
       {std::string(), std::string("1 2 3"), std::string("../../etc/passwd 1 2 3"),
        own + " " + std::to_string(ends[0]) + " 1 2", own + " 100000 1 2", memory.name() + "0"}) {
    CAPTURE(name);
    CHECK(error_of([&] { SharedMemory(name, 4096); }) != "");
  }
  CHECK(error_of([&] { SharedMemory(memory.name(), 8192); }) != "");
  SharedMemory other(memory.name(), 4096);
  static_cast<char*>(memory.address())[4095] = 7;
  CHECK(static_cast<char*>(other.address())[4095] == 7);
  const std::string name = memory.name();
  memory.close_name();
  CHECK(error_of([&] { SharedMemory(name, 4096); }) != "");
  close(ends[0]);
  close(ends[1]);
}

TEST_CASE("shared memory: nothing is left of it") {
  const auto mapped = [] {
    std::ifstream maps("/proc/self/maps");
    int64_t lines = 0;
    for (std::string line; std::getline(maps, line);) lines += contains(line, "keel ranks");
    return lines;
  };
  CHECK(run_ranks(2, [&](const auto& group) {
          SharedSum sums(group->rank(), kPatience, gather_of(group));
          sums.add_reduction(5000, gather_of(group));
          group->all_gather("");
          if (mapped() != 8) throw Error(std::to_string(mapped()) + " mappings");
          group->all_gather("");
          sums.drop_reduction(0);
        }) == no_errors(2));
  CHECK(mapped() == 0);
}

TEST_SUITE_END();
