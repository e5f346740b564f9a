// RowPanels: the rows of A that a block's tiles multiply, where they are no windows: as they are
// stored, or packed. Belongs to one walk over a rectangle of C. Internal to this folder; any
// thread.
#ifndef KEEL_BACKENDS_COMMON_CUBE_ROW_PANELS_H
#define KEEL_BACKENDS_COMMON_CUBE_ROW_PANELS_H

#include <cstddef>

#include "keel/backends/common/cube/cube.h"
#include "keel/backends/common/cube/cube_kernels.h"

namespace keel {

// A panel of k, and the columns of B that a tile meets in it: packed, or rows b_step floats apart.
struct PanelOfB {
  size_t k0 = 0, length = 0;
  const char* b = nullptr;
  size_t b_step = 0;
};

class RowPanels {
 public:
  // `packed`: room for the panels of a block's rows.
  RowPanels(const CubePlan& plan, const CubeArgs& args, char* packed);

  // Counts those of a block's `count` rows that are in tiles which are multiplied whole where they
  // are stored.
  size_t stored_tiles(size_t count) const;
  // Counts all that are: the other rows, too, where the kernel can take them together with some
  // above. A may have no more rows than the rectangle, in which the block begins at row `first`.
  size_t stored_rows(size_t first, size_t count, size_t length) const;
  // Counts the rows missing to as many as the kernel multiplies where they are stored.
  size_t missing_rows(size_t count) const;

  // A as pack_a wants it, but for the rows, into the room for the block's first.
  PackCall operand(size_t k0, size_t length) const;
  // Packs a block of rows but for the first `stored`. These need only their last, incomplete group
  // of k packed; it is written where their panel would start. The other rows' panels lie where they
  // would without such rows.
  void pack(PackCall rows, size_t stored) const;
  char* packed(size_t row_of_block, size_t depth) const;

  // A tile of rows, from row_of_block on, times a panel: packed, or stored from `row` of A on.
  void multiply(size_t row_of_block, const PanelOfB& panel, const TileResult& to) const;
  void multiply_stored(size_t row, size_t row_of_block, const PanelOfB& panel,
                       const TileResult& to) const;

 private:
  size_t whole_k(size_t length) const;

  const CubePlan& plan_;
  const CubeKernels& kernels_;
  const CubeArgs& args_;
  char* const packed_;
  const bool stored_;  // as they are multiplied
};

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_CUBE_ROW_PANELS_H
