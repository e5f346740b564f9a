// Ranks of tests: threads of this process, each with a group's end, a graph and a session of its
// own.
#ifndef KEEL_TESTS_UNIT_RANKS_FOR_TESTS_H
#define KEEL_TESTS_UNIT_RANKS_FOR_TESTS_H

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "keel/core/base/error.h"
#include "keel/core/group/group.h"

#include "support/error_of.h"

namespace keel::testing {

// How long a rank waits for the others.
inline constexpr std::chrono::seconds kPatience{60};

using RankBody = std::function<void(const std::shared_ptr<Group>&)>;

// Runs `body` in a thread for each rank. Returns by rank the text of the Error that it threw; ""
// where it threw none.
inline std::vector<std::string> on_ranks(int size, const std::function<void(int rank)>& body) {
  std::vector<std::string> errors(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      errors[static_cast<size_t>(rank)] = keel_test::error_of([&] { body(rank); });
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

// The same with the groups of ranks of one process. A rank whose body has ended is gone: it leaves
// in its body, or the others fail.
inline std::vector<std::string> on_local_ranks(int size, const RankBody& body) {
  std::vector<std::shared_ptr<Group>> groups = make_local_groups(size);
  return on_ranks(size, [&](int rank) {
    const std::shared_ptr<Group> group = std::move(groups[static_cast<size_t>(rank)]);
    body(group);
  });
}

// The same, and ranks whose bodies throw nothing leave together.
inline std::vector<std::string> run_ranks(int size, const RankBody& body) {
  return on_local_ranks(size, [&](const std::shared_ptr<Group>& group) {
    body(group);
    group->leave();
  });
}

inline std::vector<std::string> no_errors(int size) {
  return std::vector<std::string>(static_cast<size_t>(size));
}

inline void none_failed(const std::vector<std::string>& errors) {
  for (const std::string& error : errors) CHECK(error == "");
}

// Waits, and throws an Error where it never comes true: a rank that waits for ever would keep the
// test from telling why.
inline void wait_until(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= deadline) throw Error("waited in vain");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace keel::testing

#endif  // KEEL_TESTS_UNIT_RANKS_FOR_TESTS_H
