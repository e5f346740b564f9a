// Sums over parts: what ops with an attribute `parts` share. Such an op sums along the first axis
// of its operands. Each of so many equal, consecutive parts of that axis gives what the op gives of
// it alone, in the result's dtype, and these results are added as a balanced tree:
// (0 + 1) + (2 + 3). Pure functions; any thread.
#ifndef KEEL_OPS_SUMS_PART_SUMS_H
#define KEEL_OPS_SUMS_PART_SUMS_H

#include <cstdint>
#include <functional>

#include "keel/graph/ir/op_def.h"

namespace keel {

// Says whether sums of this dtype may have parts: sums of 16 bits would be rounded once more.
bool has_part_sums(DType dtype) noexcept;

// Throws Error where it refuses the dtype of a result.
void require_part_sums(const InferContext& c, DType result);

// Throws Error for parts below 1; where there are several, for inputs whose first axis they do not
// divide, and for results that has_part_sums refuses.
void require_parts(const InferContext& c, int64_t parts, DType result);

// Calls the reference for each part, and adds up what it gives. REQUIRES one output.
void reference_of_parts(const ReferenceContext& c, int64_t parts,
                        const std::function<void(const ReferenceContext&)>& reference);

// Returns values[0] to the last, added as that tree.
Value tree_sum(const Values& values, CallSite site);

}  // namespace keel

#endif  // KEEL_OPS_SUMS_PART_SUMS_H
