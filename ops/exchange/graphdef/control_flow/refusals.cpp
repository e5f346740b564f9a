#include "keel/ops/exchange/graphdef/control_flow/refusals.h"

#include <algorithm>

#include "keel/core/base/printable.h"

namespace keel::graphdef {

namespace {

// The names of a reason that an error lists: enough to find them, and a text that can be read.
constexpr size_t kMostNames = 200;

}  // namespace

std::string quoted_name(std::string_view name) {
  return "'" + printable(std::string(name), 200) + "'";
}

void Refusals::add(const std::string& node, const std::string& reason) {
  const auto [entry, is_new] = index_.emplace(reason, nodes_of_reason_.size());
  if (is_new) nodes_of_reason_.push_back({reason, {}});
  std::vector<std::string>& nodes = nodes_of_reason_[entry->second].second;
  nodes.push_back(node);
  ++count_;
}

void Refusals::add(const Refusals& others, const std::string& prefix) {
  for (const auto& [reason, nodes] : others.nodes_of_reason_)
    for (const std::string& node : nodes) add(prefix + node, reason);
}

std::map<std::string, std::string> Refusals::reasons() const {
  std::map<std::string, std::string> reasons;
  for (const auto& [reason, nodes] : nodes_of_reason_)
    for (const std::string& node : nodes) reasons.emplace(node, reason);
  return reasons;
}

void Refusals::throw_if_any(const std::string& source, const std::string& message,
                            const std::string& fix) const {
  if (count_ == 0) return;
  std::string text = message + ":";
  for (const auto& [reason, nodes] : nodes_of_reason_) {
    text += "\n  ";
    for (size_t i = 0; i < std::min(nodes.size(), kMostNames); ++i)
      text += (i == 0 ? "" : ", ") + quoted_name(nodes[i]);
    if (nodes.size() > kMostNames)
      text += " and " + std::to_string(nodes.size() - kMostNames) + " others";
    text += ": " + reason;
  }
  throw Unconvertible({.op = source, .message = text, .fix = fix});
}

}  // namespace keel::graphdef
