// `keel bench ranks`: what a sum over ranks costs, beside a copy of as many bytes; training steps
// by ranks; the modelled scaling over cards, beside published figures. Every rank of a job runs it;
// it is no suite of `keel bench all`, which is one process.
#ifndef KEEL_EXAMPLES_CLI_BENCH_RANKS_H
#define KEEL_EXAMPLES_CLI_BENCH_RANKS_H

#include <string>
#include <vector>

namespace keel_cli {

inline constexpr const char* kBenchRanksSummary =
    "sums over ranks, steps by ranks, scaling over cards: keel launch -n 2 -- keel bench ranks";

int run_bench_ranks(const std::vector<std::string>& words);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_BENCH_RANKS_H
