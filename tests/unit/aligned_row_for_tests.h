// Rows of tests about rows that lie aligned one behind another.
#ifndef KEEL_TESTS_UNIT_ALIGNED_ROW_FOR_TESTS_H
#define KEEL_TESTS_UNIT_ALIGNED_ROW_FOR_TESTS_H

#include <cstdint>

namespace keel::testing {

// So many elements of 4 bytes fill whole rows of aligned memory.
inline constexpr int64_t kAlignedRow = 16;

}  // namespace keel::testing

#endif  // KEEL_TESTS_UNIT_ALIGNED_ROW_FOR_TESTS_H
