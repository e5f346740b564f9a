// Counts what the whole process allocates with operator new, which counted_allocations.cpp replaces
// in this binary.
#ifndef KEEL_TESTS_UNIT_COUNTED_ALLOCATIONS_H
#define KEEL_TESTS_UNIT_COUNTED_ALLOCATIONS_H

#include <cstdint>
#include <functional>

namespace keel::testing {

// False under the sanitizers that need the allocator for themselves.
bool can_count_allocations();

// Allocations by all threads while `call` runs.
int64_t count_allocations(const std::function<void()>& call);

// From now on every allocation of the calling thread fails. REQUIRES can_count_allocations().
void refuse_allocations_of_this_thread();

}  // namespace keel::testing

#endif  // KEEL_TESTS_UNIT_COUNTED_ALLOCATIONS_H
