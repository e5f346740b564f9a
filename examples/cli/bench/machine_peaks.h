// MachinePeaks: the loops of machine_limits.h on one thread or more, as contestants beside kernels.
#ifndef KEEL_EXAMPLES_CLI_BENCH_MACHINE_PEAKS_H
#define KEEL_EXAMPLES_CLI_BENCH_MACHINE_PEAKS_H

#include <cstddef>
#include <optional>

#include <keel/keel.h>

#include "cli/bench/bench.h"

namespace keel_cli {

// Says what a kernel does with memory: reads an array, copies one, or reads three, writes a fourth.
enum class Traffic { kRead, kCopy, kTriad };
const char* name_of(Traffic traffic) noexcept;

// Operations a second of multiply-adds in this dtype; nothing where the loops cannot reach it.
std::optional<Turn> compute_peak(keel::DType dtype, int threads);
// How often a second two threads write a line of the cache in turns. It says how near to each other
// the processors are that they run on; where they have to share one, they take turns on that, and
// it is a hundred times less.
Turn hand_overs();
// Bytes a second, with arrays of `bytes` together, shared by the threads. Past the caches, stores
// pass them by where that is faster.
Turn bandwidth(Traffic traffic, size_t bytes, int threads);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_BENCH_MACHINE_PEAKS_H
