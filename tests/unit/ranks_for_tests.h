// Ranks of tests: threads of this process, each with a group's end, a graph and a session of its
// own.
#ifndef KEEL_TESTS_UNIT_RANKS_FOR_TESTS_H
#define KEEL_TESTS_UNIT_RANKS_FOR_TESTS_H

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "keel/core/base/error.h"
#include "keel/core/group/group.h"

namespace keel::testing {

// Runs `body` on as many threads as there are ranks. Returns by rank the text of the Error that it
// threw; "" where it threw none. A rank that threw is gone.
inline std::vector<std::string> run_ranks(
    int size, const std::function<void(const std::shared_ptr<Group>&)>& body) {
  std::vector<std::shared_ptr<Group>> groups = make_local_groups(size);
  std::vector<std::string> errors(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < groups.size(); ++i) {
    threads.emplace_back([&, i] {
      const std::shared_ptr<Group> group = std::move(groups[i]);
      try {
        body(group);
        group->leave();
      } catch (const Error& error) {
        errors[i] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

inline std::vector<std::string> no_errors(int size) {
  return std::vector<std::string>(static_cast<size_t>(size));
}

}  // namespace keel::testing

#endif  // KEEL_TESTS_UNIT_RANKS_FOR_TESTS_H
