#include "keel/backends/npu/profile/trace_events.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "keel/backends/npu/profile/tables.h"

namespace keel::npu {

void TraceEvents::span(int process, int lane, const std::string& lane_name, const std::string& name,
                       const TimeSpan& time, const std::string& arguments) {
  if (full()) return;
  ++count_;
  lanes_.emplace(std::pair(process, lane), lane_name);
  add(fmt::format("{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{},\"name\":{}{}}}",
                  process, lane, in_us(time.begin_ns), in_us(time.length()), quote_json(name),
                  arguments.empty() ? "" : ",\"args\":{" + arguments + "}"));
}

std::string TraceEvents::finish(const std::map<int, std::string>& processes,
                                const Json& other_data) {
  for (const auto& [process, name] : processes) {
    if (lanes_.lower_bound({process, 0}) != lanes_.lower_bound({process + 1, 0}))
      name_of_what("process_name", process, 0, name);
  }
  for (const auto& [key, name] : lanes_) name_of_what("thread_name", key.first, key.second, name);
  return "{\"displayTimeUnit\":\"ns\",\"otherData\":" + write_json(other_data) +
         ",\"traceEvents\":[\n" + text_ + "\n]}\n";
}

void TraceEvents::name_of_what(const char* what, int process, int lane, const std::string& name) {
  add(fmt::format("{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"{}\",\"args\":{{\"name\":{}}}}}",
                  process, lane, what, quote_json(name)));
}

}  // namespace keel::npu
