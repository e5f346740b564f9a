// A number of compute threads for a scope.
#ifndef KEEL_TESTS_SUPPORT_THREADS_H
#define KEEL_TESTS_SUPPORT_THREADS_H

#include "keel/core/base/parallel_for.h"

namespace keel_test {

// Puts back the number that was in use.
class Threads {
 public:
  explicit Threads(int n) : before_(keel::compute_threads()) { keel::set_compute_threads(n); }
  ~Threads() { keel::set_compute_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

}  // namespace keel_test

#endif  // KEEL_TESTS_SUPPORT_THREADS_H
