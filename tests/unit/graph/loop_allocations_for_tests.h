// Counts the allocations of a loop's launches.
#ifndef KEEL_TESTS_UNIT_GRAPH_LOOP_ALLOCATIONS_FOR_TESTS_H
#define KEEL_TESTS_UNIT_GRAPH_LOOP_ALLOCATIONS_FOR_TESTS_H

#include <cstdint>

#include <doctest/doctest.h>

#include "keel/graph/runtime/loop.h"

#include "unit/counted_allocations.h"

namespace keel::testing {

// Allocations of a launch of `steps` steps, producer and consumer included.
inline int64_t allocations_of(Loop& loop, int64_t steps) {
  return count_allocations([&] { CHECK(loop.run(steps).steps == steps); });
}

}  // namespace keel::testing

#endif  // KEEL_TESTS_UNIT_GRAPH_LOOP_ALLOCATIONS_FOR_TESTS_H
