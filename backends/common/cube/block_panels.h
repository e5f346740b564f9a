// How products are cut for register tiles: rows and columns in blocks, k in panels, and where the
// panels of a packed operand lie, or of one that is read where it is stored. Internal to this
// folder; any thread.
#ifndef KEEL_BACKENDS_COMMON_CUBE_BLOCK_PANELS_H
#define KEEL_BACKENDS_COMMON_CUBE_BLOCK_PANELS_H

#include <cstddef>
#include <cstdint>

#include "keel/backends/common/cube/cube.h"
#include "keel/backends/common/cube/cube_kernels.h"

namespace keel {

// Rows of A packed at a time, about: with their sums they stay in L2.
inline constexpr size_t kRowBlock = 64;
// Columns of B packed at a time.
inline constexpr size_t kColumnBlock = 1024;

constexpr size_t round_up(size_t value, size_t step) { return (value + step - 1) / step * step; }

// About kRowBlock rows in whole register tiles, as even as the rows of A allow, or whole lines of
// windows where rows are multiplied by lines.
size_t row_block(const CubePlan& plan);
// kColumnBlock and what is missing to whole register tiles.
size_t column_block(const CubeKernels& kernels);
// Counts the panels that a part of k is cut into.
size_t panels_of_part(const CubePlan& plan);
// Lists for each part of [begin, end) how many additions of the tree (ops/sums/part_sums.h) can be
// done once its sum is known: 0, 1, 0 and 2 for four parts.
void list_additions(size_t begin, size_t end, uint8_t* additions);
// Says whether blocks of rows are finished one after the other; else each is added to panel by
// panel.
bool one_panel(const CubePlan& plan);

// B and A as pack_b and pack_a want them, but for what is to be packed.
PackCall right_operand(const CubePlan& plan, const void* b, size_t stride);
PackCall left_operand(const CubePlan& plan, const CubeArgs& args);
// Where in a packed copy the panels of column j begin, for the panel of k at k0: the panels of k
// follow each other, in each those of columns.
size_t packed_at(const CubePlan& plan, size_t k0, size_t j);

// Says whether the kernel can read A as it is stored; and whether it had better.
bool multiplies_stored(const CubePlan& plan);
bool is_stored_as_multiplied(const CubePlan& plan, const CubeArgs& args);
// Says whether B is not packed because few rows of A meet it: packing takes a good part of the time
// then, and reading rows that lie apart takes little more than reading panels.
bool is_better_left_stored(const CubePlan& plan);
// Says whether the kernel reads a rectangle's columns of B where they are, but for those of a last
// tile that is not whole: its panels are what is stored, or parts of its rows.
bool has_stored_panels(const CubePlan& plan, const CubeArgs& args, const CubeRange& range);

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_CUBE_BLOCK_PANELS_H
