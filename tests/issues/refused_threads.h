// A system that refuses threads: refused_threads.cpp stands before pthread_create in the program it
// is linked to, or in one that it is preloaded into, and lets chosen calls fail with EAGAIN.
#ifndef KEEL_TESTS_ISSUES_REFUSED_THREADS_H
#define KEEL_TESTS_ISSUES_REFUSED_THREADS_H

namespace keel_test {

// While it lives, the call number `first` (from 1) of the process from now on is refused, and with
// `all_after` every later one.
class RefusedThreads {
 public:
  explicit RefusedThreads(int first, bool all_after = false);
  ~RefusedThreads();
  RefusedThreads(const RefusedThreads&) = delete;
  RefusedThreads& operator=(const RefusedThreads&) = delete;
  // How many calls there were.
  int calls() const;
  // Says whether a call of this process was ever refused: compute threads may then be lost to it.
  static bool any_in_process();
};

// The same for a program that it is preloaded into, by environment: "3" or "3-" (all from the third
// on); the second names a file that comes into being at the first refusal.
inline constexpr const char* kRefuseThread = "KEEL_TEST_REFUSE_THREAD";
inline constexpr const char* kRefusedMark = "KEEL_TEST_REFUSED_MARK";

}  // namespace keel_test

#endif  // KEEL_TESTS_ISSUES_REFUSED_THREADS_H
