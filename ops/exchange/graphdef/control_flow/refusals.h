// Gathers what functionalise cannot convert: reasons, and for each the names of the nodes. Whoever
// converts owns it; one thread.
#ifndef KEEL_OPS_EXCHANGE_GRAPHDEF_CONTROL_FLOW_REFUSALS_H
#define KEEL_OPS_EXCHANGE_GRAPHDEF_CONTROL_FLOW_REFUSALS_H

#include <cstddef>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace keel::graphdef {

class Refusals {
 public:
  void add(const std::string& node, const std::string& reason);
  size_t count() const noexcept { return count_; }
  void throw_if_any(const std::string& source) const;

 private:
  std::vector<std::pair<std::string, std::vector<std::string>>> nodes_of_reason_;
  std::unordered_map<std::string, size_t> index_;
  size_t count_ = 0;
};

}  // namespace keel::graphdef

#endif  // KEEL_OPS_EXCHANGE_GRAPHDEF_CONTROL_FLOW_REFUSALS_H
