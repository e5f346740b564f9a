#include "keel/ops/exchange/graphdef/file/values.h"

#include <charconv>

namespace keel::graphdef {

ValueName parse_value(std::string_view name) {
  ValueName value;
  if (name.starts_with('^')) {
    value.control = true;
    name.remove_prefix(1);
  }
  const size_t colon = name.rfind(':');
  if (colon != std::string_view::npos && colon + 1 < name.size()) {
    const char* const end = name.data() + name.size();
    const auto parsed = std::from_chars(name.data() + colon + 1, end, value.output);
    if (parsed.ptr == end && parsed.ec == std::errc() && value.output < kMostOutputs) {
      value.node = std::string(name.substr(0, colon));
      return value;
    }
    value.output = 0;
  }
  value.node = std::string(name);
  return value;
}

std::string value_name(const std::string& node, size_t output) {
  return output == 0 ? node : node + ":" + std::to_string(output);
}

}  // namespace keel::graphdef
