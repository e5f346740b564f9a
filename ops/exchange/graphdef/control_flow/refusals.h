// Refusals: what functionalise cannot convert: reasons, and for each the names of the nodes.
// Whoever converts owns it; one thread.
#ifndef KEEL_OPS_EXCHANGE_GRAPHDEF_CONTROL_FLOW_REFUSALS_H
#define KEEL_OPS_EXCHANGE_GRAPHDEF_CONTROL_FLOW_REFUSALS_H

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "keel/core/base/error.h"

namespace keel::graphdef {

// Is thrown for control flow of which no equal graph can be made.
class Unconvertible : public Error {
 public:
  using Error::Error;
};

// Returns the name in quotes, shortened where it is long, as refusals show it.
std::string quoted_name(std::string_view name);

class Refusals {
 public:
  void add(const std::string& node, const std::string& reason);
  // Adds those of another, with the nodes' names behind `prefix`.
  void add(const Refusals& others, const std::string& prefix);
  size_t count() const noexcept { return count_; }
  // Returns a reason for each node.
  std::map<std::string, std::string> reasons() const;
  // Throws Unconvertible of a graph that `message` is said of.
  void throw_if_any(const std::string& source, const std::string& message,
                    const std::string& fix) const;

 private:
  std::vector<std::pair<std::string, std::vector<std::string>>> nodes_of_reason_;
  std::unordered_map<std::string, size_t> index_;
  size_t count_ = 0;
};

}  // namespace keel::graphdef

#endif  // KEEL_OPS_EXCHANGE_GRAPHDEF_CONTROL_FLOW_REFUSALS_H
