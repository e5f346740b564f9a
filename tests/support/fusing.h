// What tests of passes ask of a fused graph and of the reasons in its report.
#ifndef KEEL_TESTS_SUPPORT_FUSING_H
#define KEEL_TESTS_SUPPORT_FUSING_H

#include <algorithm>
#include <stdexcept>
#include <string>

#include "keel/graph/passes/passes.h"

#include "error_of.h"

namespace keel_test {

// A backend that runs all there is.
inline keel::Support everything(const keel::Node&) { return {.supported = true}; }

// The only node of that op; throws where there is none or another.
inline const keel::Node& only_node(const keel::Graph& graph, const std::string& op) {
  const keel::Node* found = nullptr;
  for (const keel::Node& node : graph.nodes()) {
    if (node.op_name() != op) continue;
    if (found != nullptr) throw std::runtime_error("more than one node of " + op);
    found = &node;
  }
  if (found == nullptr) throw std::runtime_error("no node of " + op);
  return *found;
}

// Whether one of the lines says so.
inline bool reports(const keel::FuseReport& report, const std::string& part) {
  return std::any_of(report.lines.begin(), report.lines.end(),
                     [&](const std::string& line) { return contains(line, part); });
}

}  // namespace keel_test

#endif  // KEEL_TESTS_SUPPORT_FUSING_H
