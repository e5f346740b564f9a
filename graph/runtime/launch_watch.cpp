#include "keel/graph/runtime/launch_watch.h"

#include "keel/core/base/thread.h"

namespace keel {
namespace {

// An end that comes is seen long before: only steps of half a second, or no end, cost a thread. A
// call follows the last one after 5 ms.
constexpr int kQuietCalls = 100;

}  // namespace

LaunchWatch::~LaunchWatch() {
  if (thread_.joinable()) thread_.join();
}

bool LaunchWatch::over() {
  if (!thread_.joinable() && ++quiet_ == kQuietCalls) begin();
  return over_.load(std::memory_order_acquire);
}

// Nobody else uses the stream while the loop waits for rows. A stream may wait in record(), too,
// which must not keep the loop from emptying the ring that the launch fills.
void LaunchWatch::begin() {
  try {
    thread_ = start_thread("the thread that waits for the end of a launch", [this] {
      std::shared_ptr<Event> end;
      try {
        end = stream_.record();
      } catch (...) {
        // Without an event the loop waits for the end that is promised to it.
      }
      if (end == nullptr) return;
      try {
        end->synchronize();
      } catch (...) {
        // It is over all the same, and the stream tells the loop's thread why.
      }
      over_.store(true, std::memory_order_release);
    });
  } catch (...) {
    // Nor is it watched where the system has no thread for it.
  }
}

}  // namespace keel
