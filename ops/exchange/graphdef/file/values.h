// Names of values: "node" and "node:0" are the first value of a node, "node:2" its third, "^node" a
// control input. Plain functions; any thread.
#ifndef KEEL_OPS_EXCHANGE_GRAPHDEF_FILE_VALUES_H
#define KEEL_OPS_EXCHANGE_GRAPHDEF_FILE_VALUES_H

#include <cstddef>
#include <string>
#include <string_view>

namespace keel::graphdef {

struct ValueName {
  std::string node;
  size_t output = 0;
  bool control = false;
};

// Far beyond the results of any op, and few enough to make room for.
inline constexpr size_t kMostOutputs = size_t{1} << 16;

// A name that ends in no number below kMostOutputs behind ':' is all of the node's name.
ValueName parse_value(std::string_view name);
// "node", or "node:2".
std::string value_name(const std::string& node, size_t output);

}  // namespace keel::graphdef

#endif  // KEEL_OPS_EXCHANGE_GRAPHDEF_FILE_VALUES_H
