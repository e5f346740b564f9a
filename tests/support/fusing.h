// What tests of passes ask of a fused graph and of the reasons in its report.
#ifndef KEEL_TESTS_SUPPORT_FUSING_H
#define KEEL_TESTS_SUPPORT_FUSING_H

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>

#include "keel/graph/ir/fused_body.h"
#include "keel/graph/ir/verify.h"
#include "keel/graph/passes/passes.h"

#include "error_of.h"

namespace keel_test {

// A backend that runs all there is.
inline keel::Support everything(const keel::Node&) { return {.supported = true}; }

// What the pass makes of a graph, verified.
inline std::unique_ptr<keel::Graph> fused(const keel::Graph& graph,
                                          const keel::SupportsFunction& supports = everything,
                                          keel::FuseReport* report = nullptr) {
  auto result = keel::fuse(graph, supports, report);
  keel::verify(*result);
  return result;
}

// Floats that rise by steps and begin anew after 23 of them.
inline keel::Tensor ramp(const keel::Shape& shape, double first, double step) {
  keel::Tensor t(keel::f32, shape);
  for (int64_t i = 0; i < shape.num_elements(); ++i)
    t.set(i, first + step * static_cast<double>(i % 23));
  return t;
}

// The anchor of a fused node; null for other nodes and for element-wise bodies.
inline const keel::Node* anchor_of(const keel::Node& node) {
  return keel::is_fused_node(node) ? keel::FusedBody(*node.bodies()[0]).anchor : nullptr;
}

// What a backend says that takes bodies around such anchors only, and of those what `supports`
// does; 0: none but clusters.
inline keel::SupportsFunction with_anchors(uint32_t traits,
                                           const keel::SupportsFunction& supports = everything) {
  return [=](const keel::Node& node) -> keel::Support {
    const keel::Node* anchor = anchor_of(node);
    if (anchor != nullptr && !anchor->has(traits)) return {false, "another anchor"};
    return supports(node);
  };
}
inline const keel::SupportsFunction& only_clusters() {
  static const keel::SupportsFunction supports = with_anchors(0);
  return supports;
}

// As a backend does that fuses nothing to products and reductions.
inline std::unique_ptr<keel::Graph> fused_clusters(const keel::Graph& graph,
                                                   keel::FuseReport* report = nullptr) {
  return fused(graph, only_clusters(), report);
}
// As a backend does that fuses to products and to no other anchors.
inline std::unique_ptr<keel::Graph> fused_products(
    const keel::Graph& graph, const keel::SupportsFunction& supports = everything,
    keel::FuseReport* report = nullptr) {
  return fused(graph, with_anchors(keel::kProduct, supports), report);
}

inline size_t count_anchors(const keel::Graph& graph, uint32_t trait) {
  size_t count = 0;
  for (const keel::Node& node : graph.nodes()) {
    const keel::Node* anchor = anchor_of(node);
    if (anchor != nullptr && anchor->has(trait)) ++count;
  }
  return count;
}

// The only fused node with such an anchor; throws where there is none or another.
inline const keel::Node& only_anchored(const keel::Graph& graph, uint32_t trait) {
  const keel::Node* found = nullptr;
  for (const keel::Node& node : graph.nodes()) {
    const keel::Node* anchor = anchor_of(node);
    if (anchor == nullptr || !anchor->has(trait)) continue;
    if (found != nullptr) throw std::runtime_error("more than one node with such an anchor");
    found = &node;
  }
  if (found == nullptr) throw std::runtime_error("no node with such an anchor");
  return *found;
}

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

// Returns true if a line of the report contains `part`.
inline bool reports(const keel::FuseReport& report, const std::string& part) {
  return std::any_of(report.lines.begin(), report.lines.end(),
                     [&](const std::string& line) { return contains(line, part); });
}

}  // namespace keel_test

#endif  // KEEL_TESTS_SUPPORT_FUSING_H
