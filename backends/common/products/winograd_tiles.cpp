#include "keel/backends/common/products/winograd_tiles.h"

#include <algorithm>
#include <array>

#include "keel/backends/common/products/work_of_block.h"
#include "keel/core/base/checked.h"
#include "keel/core/base/parallel_for.h"

namespace keel {
namespace {

constexpr int64_t kMostWinogradBlocks = 32;
constexpr size_t kMostPointsOfAxis = 8;

}  // namespace

PointMatrices::PointMatrices(int64_t points_of_tile, int64_t rows, int64_t columns)
    : points(static_cast<size_t>(points_of_tile)),
      row(align_up(static_cast<size_t>(columns), vector::kProductColumns)),
      point(static_cast<size_t>(rows) * row + vector::kProductColumns) {}

size_t PointMatrices::bytes() const {
  return align_up(points * point * sizeof(float), kWinogradAlignment);
}

std::string results_of_tile(const WinogradForm& form) {
  return std::to_string(form.outputs[0]) + " x " + std::to_string(form.outputs[1]) + " results";
}

WinogradTiles::WinogradTiles(WinogradForm form)
    : form_(form), transform_(vector::find_winograd(vector::WinogradStep::kInput, form_)) {}

int64_t WinogradTiles::lines_of(int64_t tiles) const {
  return std::clamp<int64_t>(tiles / form_.tiles[1], 1, form_.lines());
}

int WinogradTiles::blocks(int64_t pieces, int64_t lines) const {
  const int64_t work = lines * form_.tiles[1] * points() * form_.channels * form_.columns;
  return static_cast<int>(std::clamp<int64_t>(
      std::min({pieces, work / kWorkOfABlock, static_cast<int64_t>(compute_threads())}), 1,
      kMostWinogradBlocks));
}

int64_t WinogradTiles::line_elements() const {
  const WindowRows::Axis& across = form_.windows.axes[1];
  return (across.size - 1) * across.pitch + form_.channels;
}

size_t WinogradTiles::line_bytes(const FloatOperand& images) const {
  if (images.is_plain()) return 0;
  return align_up(static_cast<size_t>(form_.points(0) * line_elements()) * sizeof(float),
                  kWinogradAlignment);
}

void WinogradTiles::bring_images(const FloatOperand& images, const void* from, const Piece& piece,
                                 const PointMatrices& at, float* to, float* lines) const {
  const auto& [down, across] = form_.windows.axes;
  const int64_t elements = line_elements();
  // The lines that are at hand, told by their first element: tiles below each other share some.
  std::array<int64_t, kMostPointsOfAxis> held;
  held.fill(-1);
  vector::WinogradLine call;
  call.channels = static_cast<size_t>(form_.channels);
  call.patches = form_.tiles[1];
  call.from.column = across.pitch;
  call.from.patch = across.pitch * form_.outputs[1];
  call.from.first = across.first;
  call.from.size = across.size;
  call.to.patch = static_cast<ptrdiff_t>(at.row);
  for (int64_t line = piece.begin; line < piece.end; ++line) {
    const int64_t image = line / form_.tiles[0] * form_.windows.image_pitch;
    for (int64_t i = 0; i < form_.points(0); ++i) {
      const int64_t y = down.first + line % form_.tiles[0] * form_.outputs[0] + i;
      call.from.rows[i] = nullptr;
      if (!down.inside(y)) continue;
      const int64_t first = image + y * down.pitch, place = y % form_.points(0);
      const float* row = lines + place * elements;
      int64_t& there = held[static_cast<size_t>(place)];
      if (images.is_plain() || there != first)
        row = images.bring(from, first, elements, lines + place * elements);
      there = first;
      call.from.rows[i] = row + across.first * across.pitch;
    }
    set_points(at, to, call.to);
    transform_(call);
    to += static_cast<size_t>(form_.tiles[1]) * at.row;
  }
}

WinogradTiles::Rows WinogradTiles::rows_of(const Piece& piece) const {
  const int64_t first = pixels_of(piece.begin).first;
  const Pixels last = pixels_of(piece.end - 1);
  return {first, last.first + last.rows * form_.windows.axes[1].windows - first};
}

int64_t WinogradTiles::place_under(int64_t line, int64_t row) const {
  const WindowRows::Axis& down = form_.windows.axes[0];
  const int64_t y = down.first + line % form_.tiles[0] * form_.outputs[0] + row;
  return line / form_.tiles[0] * form_.windows.image_pitch +
         std::clamp<int64_t>(y, 0, down.size) * down.pitch;
}

void WinogradTiles::add_ahead(const FloatOperand& images, const void* from, const Piece& piece,
                              PrefetchList& ahead) const {
  const int64_t rows = form_.points(0);
  int64_t begin = place_under(piece.begin, 0);
  if (piece.begin > 0) begin = std::max(begin, place_under(piece.begin - 1, rows));
  images.add_ahead(from, begin, place_under(piece.end - 1, rows), ahead);
}

WinogradTiles::Pixels WinogradTiles::pixels_of(int64_t line) const {
  const auto& [down, across] = form_.windows.axes;
  const int64_t y = line % form_.tiles[0] * form_.outputs[0];
  return {(line / form_.tiles[0] * down.windows + y) * across.windows,
          std::min(form_.outputs[0], down.windows - y)};
}

}  // namespace keel
