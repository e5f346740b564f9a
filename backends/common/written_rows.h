// WrittenRows: rows that the turns of a loop write to a stack (graph/autodiff/row_stack.h), each
// once. The lowering lets the kernel that makes such a row write it where it will lie, and leaves
// out what the stack was filled with where no row of that is left.
// Pure functions; any thread.
#ifndef KEEL_BACKENDS_COMMON_WRITTEN_ROWS_H
#define KEEL_BACKENDS_COMMON_WRITTEN_ROWS_H

#include <cstddef>
#include <vector>

#include "keel/graph/ir/graph.h"

namespace keel {

struct WrittenRow {
  const Node* node = nullptr;  // of the loop's body: what adds the row to the stack
  size_t stack = 0;            // the loop variable
  Value row;                   // the value whose bytes the row gets
  bool covers = false;         // all rows of the stack are written before the loop ends
};

// Returns the scatter_adds of a while's body that give a stack one more row in each turn, at the
// loop's count, and to which adding is the same as writing, to the last bit: the stack begins as -0
// throughout, or 0 for integers, and nobody else reads or writes it in the loop. Rows begin where
// kernels want their results to begin.
std::vector<WrittenRow> find_written_rows(const Node& loop);

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_WRITTEN_ROWS_H
