// The modelled scaling of trainings over 1 to 1,024 cards (backends/npu/cost/scaling.h), for
// `keel bench ranks`: printed, and as JSON. Pure but for what is printed.
#ifndef KEEL_EXAMPLES_CLI_BENCH_RANKS_SCALING_H
#define KEEL_EXAMPLES_CLI_BENCH_RANKS_SCALING_H

#include <keel/core/base/json.h>

namespace keel_cli {

// `trainings`: as of measure_rank_trainings. Returns the tables `modelled_scaling` and
// `published_scaling`.
keel::Json model_scaling(const keel::Json& trainings);
void print_scaling(const keel::Json& tables);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_BENCH_RANKS_SCALING_H
