#include "keel/backends/common/cube/row_panels.h"

#include "keel/backends/common/cube/block_panels.h"

namespace keel {

RowPanels::RowPanels(const CubePlan& plan, const CubeArgs& args, char* packed)
    : plan_(plan),
      kernels_(*plan.kernels),
      args_(args),
      packed_(packed),
      stored_(is_stored_as_multiplied(plan, args)) {}

size_t RowPanels::stored_tiles(size_t count) const {
  return stored_ ? count / kernels_.rows * kernels_.rows : 0;
}

size_t RowPanels::stored_rows(size_t first, size_t count, size_t length) const {
  if (!stored_) return 0;
  const size_t whole = stored_tiles(count);
  const bool reaches = missing_rows(count - whole) <= first + whole;
  return reaches && whole_k(length) == length ? count : whole;
}

size_t RowPanels::missing_rows(size_t count) const {
  return round_up(count, kernels_.stored_multiple) - count;
}

PackCall RowPanels::operand(size_t k0, size_t length) const {
  PackCall rows = left_operand(plan_, args_);
  rows.k0 = k0;
  rows.length = length;
  rows.dst = packed_;
  return rows;
}

void RowPanels::pack(PackCall rows, size_t stored) const {
  if (stored < rows.count) {
    PackCall others = rows;
    others.first += stored;
    others.count -= stored;
    const size_t depth = round_up(rows.length, kernels_.k_multiple);
    others.dst = static_cast<char*>(rows.dst) + stored * depth * kernels_.packed_size;
    kernels_.pack_a(others);
  }
  const size_t whole = whole_k(rows.length);
  if (stored == 0 || whole == rows.length) return;
  rows.count = stored;
  rows.k0 += whole;
  rows.length -= whole;
  kernels_.pack_a(rows);
}

size_t RowPanels::whole_k(size_t length) const {
  if (length % kernels_.stored_k_multiple == 0) return length;
  return length / kernels_.k_multiple * kernels_.k_multiple;
}

char* RowPanels::packed(size_t row_of_block, size_t depth) const {
  return packed_ + row_of_block * depth * kernels_.packed_size;
}

void RowPanels::multiply(size_t row_of_block, const PanelOfB& panel, const TileResult& to) const {
  const size_t depth = round_up(panel.length, kernels_.k_multiple);
  kernels_.multiply(packed(row_of_block, depth), panel.b, panel.b_step, panel.length, to);
}

void RowPanels::multiply_stored(size_t row, size_t row_of_block, const PanelOfB& panel,
                                const TileResult& to) const {
  const bool columns = plan_.problem.transpose_a;
  StoredRows rows;
  rows.stride = columns ? 1 : args_.a_stride;
  rows.k_step = columns ? args_.a_stride : 1;
  const size_t at = row * rows.stride + panel.k0 * rows.k_step;
  rows.rows = static_cast<const char*>(args_.a) + at * kernels_.packed_size;
  if (whole_k(panel.length) != panel.length) rows.rest = packed(row_of_block, kernels_.k_multiple);
  kernels_.multiply_stored(rows, panel.b, panel.b_step, panel.length, to);
}

}  // namespace keel
