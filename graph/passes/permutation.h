// Permutations of axes as transpositions have them: axis i of the result is axis perm[i] of the
// operand. Plain functions; any thread.
#ifndef KEEL_GRAPH_PASSES_PERMUTATION_H
#define KEEL_GRAPH_PASSES_PERMUTATION_H

#include <cstdint>
#include <optional>
#include <vector>

#include "keel/graph/ir/graph.h"

namespace keel {

using Permutation = std::vector<int64_t>;

// Returns that of an op that moves elements by permuting axes.
std::optional<Permutation> permutation_of(const Node& node);
// Returns what `outer` makes of a result of `inner`. REQUIRES equal lengths.
Permutation composed(const Permutation& inner, const Permutation& outer);
bool is_identity(const Permutation& perm) noexcept;
// Returns the shape that an operand has before `perm` whose elements broadcast to a result behind
// it from `shape`, where they are in the same order; nothing where they are not.
std::optional<Shape> shape_before(const Shape& shape, const Permutation& perm);

}  // namespace keel

#endif  // KEEL_GRAPH_PASSES_PERMUTATION_H
