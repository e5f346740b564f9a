// Prices of collectives: what a sum over ranks would take between modelled cards. A server has
// eight cards in two halves: the four cards of a half are a mesh of HCCS links, the halves meet
// over PCIe, servers over the network of their cards. Pure functions of a preset; any thread.
#ifndef KEEL_BACKENDS_NPU_COST_COLLECTIVE_H
#define KEEL_BACKENDS_NPU_COST_COLLECTIVE_H

#include <cstdint>
#include <string>

#include "keel/backends/npu/presets/preset.h"
#include "keel/core/base/export.h"

namespace keel::npu {

inline constexpr int64_t kCardsOfAHalf = 4;
inline constexpr int64_t kCardsOfAServer = 8;

// A link between two cards, and what adding up costs them: alpha, beta and gamma.
struct Link {
  double latency_ns = 0;
  double ns_per_byte = 0;
  double ns_per_reduced_byte = 0;
};

// An all-reduce of so many bytes among `ranks` that are all linked so. 0 for one rank.
// Each rank sends to the next one, 2 (p - 1) times.
KEEL_API double ring_ns(const Link& link, double bytes, int64_t ranks);
// Ranks exchange halves, then quarters ..., and the sums on the way back. Ranks beyond a power of
// two first give theirs to another one.
KEEL_API double halving_doubling_ns(const Link& link, double bytes, int64_t ranks);
// Each rank exchanges a part with all others at once, over a link of their own.
KEEL_API double mesh_ns(const Link& link, double bytes, int64_t ranks);

struct CollectivePrice {
  int64_t total_ns = 0;
  std::string algorithm;  // in words: "mesh of 4 cards, halving-doubling over 2 halves"
};

// Hierarchical: a reduce-scatter in each half, then sums of what each card has of it across halves
// and servers, then an all-gather in each half. Ranks that do not fill halves and servers evenly go
// round in one ring over the slowest of their links. REQUIRES ranks >= 1.
KEEL_API CollectivePrice price_all_reduce(const Preset& preset, int64_t bytes, int64_t ranks);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_COST_COLLECTIVE_H
