// Timelines: the four ways to feed and launch a hundred steps, side by side: from each step by the
// host to all of them sunk. They are one training, bit for bit, whose batches are streamed. Pure
// but for the clock; one thread.
#ifndef KEEL_EXAMPLES_CLI_BENCH_LOOP_TIMELINES_H
#define KEEL_EXAMPLES_CLI_BENCH_LOOP_TIMELINES_H

#include <keel/core/base/json.h>
#include <keel/keel.h>

#include "cli/bench/bench.h"

namespace keel_cli {

// The steps whose launches, round trips and transfers are counted.
inline constexpr int64_t kTimelineSteps = 100;
// The first steps, which lanes are drawn of.
inline constexpr int64_t kStepsDrawn = 4;

// One object a timeline: its name, its counts, the split of its steps' wall time, and, where the
// device prices its tasks, what the modelled device takes (device clock) and its lanes in the first
// steps.
keel::Json measure_timelines(const BenchFlags& flags, const keel::LabelledImages& images);
// The same as a table for people.
void print_timelines(const keel::Json& timelines);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_BENCH_LOOP_TIMELINES_H
