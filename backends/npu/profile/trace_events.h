// TraceEvents: a timeline as the JSON that chrome://tracing and Perfetto read: processes with lanes
// of spans. LaneNumbers: numbers for lanes that are known by name. One thread.
#ifndef KEEL_BACKENDS_NPU_PROFILE_TRACE_EVENTS_H
#define KEEL_BACKENDS_NPU_PROFILE_TRACE_EVENTS_H

#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "keel/backends/npu/profile/step_clock.h"
#include "keel/core/base/json.h"

namespace keel::npu {

class TraceEvents {
 public:
  // Keeps `most` spans; the others are left out.
  explicit TraceEvents(size_t most) : most_(most) {}

  bool full() const { return count_ >= most_; }

  // `arguments`: JSON members, shown with the span.
  void span(int process, int lane, const std::string& lane_name, const std::string& name,
            const TimeSpan& time, const std::string& arguments = "");

  // Returns the JSON, with the names of those processes that have spans.
  std::string finish(const std::map<int, std::string>& processes, const Json& other_data);

 private:
  void add(const std::string& event) { text_ += (text_.empty() ? "" : ",\n") + event; }
  void name_of_what(const char* what, int process, int lane, const std::string& name);

  size_t most_;
  size_t count_ = 0;
  std::string text_;
  std::map<std::pair<int, int>, std::string> lanes_;
};

class LaneNumbers {
 public:
  // In the order in which they are asked for.
  int of(const std::string& lane) {
    return numbers_.emplace(lane, static_cast<int>(numbers_.size())).first->second;
  }

 private:
  std::map<std::string, int> numbers_;
};

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_PROFILE_TRACE_EVENTS_H
