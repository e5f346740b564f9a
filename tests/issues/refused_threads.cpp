#include "issues/refused_threads.h"

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

namespace {

constexpr int kNever = INT_MAX;

std::atomic<int> calls{0};
std::atomic<bool> any_refused{false};
std::atomic<int> first{kNever};
std::atomic<int> last{kNever};

// Reads from the environment which calls to refuse; returns whether it asks for any. Must run
// before the first call is counted.
bool read_environment() {
  const char* wish = std::getenv(keel_test::kRefuseThread);
  if (wish == nullptr) return false;
  first = std::atoi(wish);
  last = std::strchr(wish, '-') != nullptr ? kNever : first.load();
  return true;
}

void leave_mark() {
  const char* path = std::getenv(keel_test::kRefusedMark);
  if (path == nullptr) return;
  const int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (file >= 0) close(file);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int pthread_create(
    pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
    void* argument) noexcept {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto system = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  static const bool by_environment = read_environment();
  const int call = ++calls;
  if (call >= first && call <= last) {
    any_refused = true;
    if (by_environment) leave_mark();
    return EAGAIN;
  }
  return system(thread, attributes, run, argument);
}

namespace keel_test {

RefusedThreads::RefusedThreads(int number, bool all_after) {
  ::calls = 0;
  last = all_after ? kNever : number;
  first = number;
}

RefusedThreads::~RefusedThreads() { first = kNever; }

int RefusedThreads::calls() const { return ::calls; }

bool RefusedThreads::any_in_process() { return any_refused; }

}  // namespace keel_test
