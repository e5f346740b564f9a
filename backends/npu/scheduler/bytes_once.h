// Bytes that vector work has from global memory, each once. A kernel may read some of them again:
// cores pay for that each time, but the bytes of a launch and the roof of the memory count them
// once. Results, and products on the cube, count as often as they are moved. Pure functions; any
// thread.
#ifndef KEEL_BACKENDS_NPU_SCHEDULER_BYTES_ONCE_H
#define KEEL_BACKENDS_NPU_SCHEDULER_BYTES_ONCE_H

#include "keel/backends/npu/cost/price.h"
#include "keel/graph/ir/node.h"

namespace keel::npu {

// Returns the bytes of the values that the node reads, each once, and of the table that it has in
// its attributes: a task reads no more than that from others.
int64_t bytes_of_distinct_operands(const Node& node);

// Gives the price of vector work so many bytes that come in, where it has more, and takes the rest
// from the roof of the memory.
void count_once(const Preset& preset, const VectorWork& work, int64_t bytes_in, TaskPrice& price);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_SCHEDULER_BYTES_ONCE_H
