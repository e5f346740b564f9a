#include "keel/backends/npu/cost/collective.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include <fmt/core.h>

#include "keel/backends/npu/cost/pipeline.h"

namespace keel::npu {
namespace {

// The links of a preset's card.
struct Links {
  explicit Links(const Preset& preset)
      : hccs(link(preset, static_cast<double>(preset.hccs_latency_ns), preset.hccs_gb_per_s)),
        pcie(link(preset, static_cast<double>(preset.pcie_latency_ns), preset.card_pcie_gb_per_s)),
        network(link(preset, static_cast<double>(preset.network_latency_ns),
                     preset.network_gb_per_s)) {}
  // Sums leave the link's engine for memory, once.
  static Link link(const Preset& preset, double latency_ns, double gb_per_s) {
    return {latency_ns, 1 / gb_per_s, 1 / preset.hbm_gb_per_s};
  }

  Link hccs, pcie, network;
};

bool is_power_of_two(int64_t n) { return std::has_single_bit(static_cast<uint64_t>(n)); }

CollectivePrice rounded(const Preset& preset, double ns, std::string algorithm) {
  return {task_ns(preset, ns), std::move(algorithm)};
}

}  // namespace

double ring_ns(const Link& link, double bytes, int64_t ranks) {
  const auto p = static_cast<double>(ranks);
  return 2 * (p - 1) * link.latency_ns + 2 * (p - 1) / p * bytes * link.ns_per_byte +
         (p - 1) / p * bytes * link.ns_per_reduced_byte;
}

double halving_doubling_ns(const Link& link, double bytes, int64_t ranks) {
  const auto floor = static_cast<double>(std::bit_floor(static_cast<uint64_t>(ranks)));
  const double rounds = std::log2(floor);
  const double share = (floor - 1) / floor;
  if (is_power_of_two(ranks)) {
    return 2 * rounds * link.latency_ns + 2 * share * bytes * link.ns_per_byte +
           share * bytes * link.ns_per_reduced_byte;
  }
  return (2 * rounds + 2) * link.latency_ns + (2 * share + 2) * bytes * link.ns_per_byte +
         (share + 1) * bytes * link.ns_per_reduced_byte;
}

double mesh_ns(const Link& link, double bytes, int64_t ranks) {
  if (ranks == 1) return 0;
  const auto p = static_cast<double>(ranks);
  return 2 * link.latency_ns + 2 / p * bytes * link.ns_per_byte +
         (p - 1) / p * bytes * link.ns_per_reduced_byte;
}

CollectivePrice price_all_reduce(const Preset& preset, int64_t bytes, int64_t ranks) {
  const Links links(preset);
  const auto n = static_cast<double>(bytes);
  if (ranks == 1) return {0, "one rank"};
  if (ranks <= kCardsOfAHalf)
    return rounded(preset, mesh_ns(links.hccs, n, ranks), fmt::format("mesh of {} cards", ranks));
  const int64_t of_server = std::min(ranks, kCardsOfAServer);
  if (ranks % of_server != 0 || of_server % 2 != 0) {
    const Link& slowest = ranks < kCardsOfAServer ? links.pcie : links.network;
    return rounded(preset, ring_ns(slowest, n, ranks), fmt::format("ring of {} cards", ranks));
  }
  const int64_t half = of_server / 2;
  const int64_t servers = ranks / of_server;
  double ns = mesh_ns(links.hccs, n, half);
  std::string algorithm = fmt::format("mesh of {} cards, halving-doubling over 2 halves", half);
  // A card has these parts of the sum after the reduce-scatter of its half, and of its server.
  const double of_half = n / static_cast<double>(half);
  const double of_card = n / static_cast<double>(of_server);
  ns += halving_doubling_ns(links.pcie, of_half, 2);
  if (servers == 1) return rounded(preset, ns, algorithm);
  const bool halving = is_power_of_two(servers);
  ns += halving ? halving_doubling_ns(links.network, of_card, servers)
                : ring_ns(links.network, of_card, servers);
  return rounded(preset, ns,
                 algorithm + fmt::format(", {} over {} servers",
                                         halving ? "halving-doubling" : "ring", servers));
}

}  // namespace keel::npu
