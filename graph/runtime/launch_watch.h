// LaunchWatch: finds out that a launch is over though no end of it came through the MetricsQueue,
// for which a loop would wait for ever. Made when the launch has been handed to the stream, and
// used by the thread that waits for its rows. Internal to graph/runtime.
#ifndef KEEL_GRAPH_RUNTIME_LAUNCH_WATCH_H
#define KEEL_GRAPH_RUNTIME_LAUNCH_WATCH_H

#include <atomic>
#include <memory>
#include <thread>

#include "keel/core/device/stream.h"

namespace keel {

class LaunchWatch {
 public:
  explicit LaunchWatch(Stream& stream) : stream_(stream) {}
  ~LaunchWatch();  // waits for the launch
  LaunchWatch(const LaunchWatch&) = delete;
  LaunchWatch& operator=(const LaunchWatch&) = delete;

  // Called whenever a row has come.
  void hear() noexcept { quiet_ = 0; }
  // Called whenever a while has passed without a row. Returns whether the stream has done all that
  // it was given; false as long as that is not known.
  bool over();

 private:
  void begin();

  Stream& stream_;
  int quiet_ = 0;  // calls since the last row
  std::atomic<bool> over_{false};
  std::thread thread_;
};

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_LAUNCH_WATCH_H
