#include "keel/backends/common/vector/winograd_tiles.h"

#include <algorithm>
#include <utility>

#include "keel/core/base/checked.h"
#include "keel/core/base/parallel_for.h"

namespace keel::vector {
namespace {

constexpr int64_t kMostBlocks = 32;
constexpr int64_t kWorkOfABlock = int64_t{1} << 18;  // multiply-adds worth handing over

}  // namespace

PointMatrices::PointMatrices(int64_t points_of_tile, int64_t rows, int64_t columns)
    : points(static_cast<size_t>(points_of_tile)),
      row(align_up(static_cast<size_t>(columns), kProductColumns)),
      point(static_cast<size_t>(rows) * row + kProductColumns) {}

size_t PointMatrices::bytes() const {
  return align_up(points * point * sizeof(float), kWinogradAlignment);
}

std::string results_of_tile(const WinogradForm& form) {
  return std::to_string(form.outputs[0]) + " x " + std::to_string(form.outputs[1]) + " results";
}

WinogradTiles::WinogradTiles(WinogradForm form)
    : form_(form), transform_(find_winograd(WinogradStep::kInput, form_)) {}

int64_t WinogradTiles::lines_of(int64_t tiles) const {
  return std::clamp<int64_t>(tiles / form_.tiles[1], 1, form_.lines());
}

int WinogradTiles::blocks(int64_t pieces, int64_t lines) const {
  const int64_t work = lines * form_.tiles[1] * points() * form_.channels * form_.columns;
  return static_cast<int>(std::clamp<int64_t>(
      std::min({pieces, work / kWorkOfABlock, static_cast<int64_t>(compute_threads())}), 1,
      kMostBlocks));
}

void WinogradTiles::bring_images(const float* images, const Piece& piece, const PointMatrices& at,
                                 float* to) const {
  const auto& [down, across] = form_.windows.axes;
  WinogradLine call;
  call.channels = static_cast<size_t>(form_.channels);
  call.patches = form_.tiles[1];
  call.from.column = across.pitch;
  call.from.patch = across.pitch * form_.outputs[1];
  call.from.first = across.first;
  call.from.size = across.size;
  call.to.patch = static_cast<ptrdiff_t>(at.row);
  for (int64_t line = piece.begin; line < piece.end; ++line) {
    const float* image = images + line / form_.tiles[0] * form_.windows.image_pitch;
    for (int64_t i = 0; i < form_.points(0); ++i) {
      const int64_t y = down.first + line % form_.tiles[0] * form_.outputs[0] + i;
      call.from.rows[i] =
          down.inside(y) ? image + y * down.pitch + across.first * across.pitch : nullptr;
    }
    set_points(at, to, call.to);
    transform_(call);
    to += static_cast<size_t>(form_.tiles[1]) * at.row;
  }
}

WinogradTiles::Pixels WinogradTiles::pixels_of(int64_t line) const {
  const auto& [down, across] = form_.windows.axes;
  const int64_t y = line % form_.tiles[0] * form_.outputs[0];
  return {(line / form_.tiles[0] * down.windows + y) * across.windows,
          std::min(form_.outputs[0], down.windows - y)};
}

}  // namespace keel::vector
