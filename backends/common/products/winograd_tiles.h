// WinogradTiles: where the tiles of a convolution lie (ops/products/winograd.h), and how elements
// of the images come to their points. What the kernels of a convolution and of the gradient of its
// weights share. Internal to this folder; immutable; any thread.
#ifndef KEEL_BACKENDS_COMMON_PRODUCTS_WINOGRAD_TILES_H
#define KEEL_BACKENDS_COMMON_PRODUCTS_WINOGRAD_TILES_H

#include <cstddef>
#include <cstdint>
#include <string>

#include "keel/backends/common/kernel.h"
#include "keel/backends/common/products/float_operand.h"
#include "keel/backends/common/vector/winograd.h"
#include "keel/ops/products/winograd.h"

namespace keel {

inline constexpr size_t kWinogradAlignment = 64;

// A matrix for each point of a tile, in a workspace. Between two matrices lies a line of the cache
// more than they need, since a transform writes all points of an element at once: at a distance of
// 4096 bytes these would share the few places that a cache has for them.
struct PointMatrices {
  PointMatrices() = default;
  PointMatrices(int64_t points_of_tile, int64_t rows, int64_t columns);
  size_t bytes() const;
  size_t points = 0, row = 0, point = 0;  // their number; elements from one to the next
};

// Returns the size of a tile as a launch names it: "2 x 4 results".
std::string results_of_tile(const WinogradForm& form);

class WinogradTiles {
 public:
  // Lines of tiles [begin, end).
  struct Piece {
    int64_t begin, end;
  };
  // The pixels that a line of tiles has over the windows: the first one, and rows of pixels.
  struct Pixels {
    int64_t first, rows;
  };

  // Rows of C, or of dy, which are pixels in their order.
  struct Rows {
    int64_t first, count;
  };

  explicit WinogradTiles(WinogradForm form);

  const WinogradForm& form() const { return form_; }
  int64_t points() const { return form_.points(); }
  int64_t count(const Piece& piece) const { return (piece.end - piece.begin) * form_.tiles[1]; }
  // Returns how many lines of tiles, at least one, have about so many tiles.
  int64_t lines_of(int64_t tiles) const;
  // Returns how many blocks are worth computing `lines` lines of tiles, which are cut into
  // `pieces`.
  int blocks(int64_t pieces, int64_t lines) const;

  // The windows' elements under the piece's tiles, each at its points. `from` is where the images
  // begin; `lines` has room for line_bytes(images).
  void bring_images(const FloatOperand& images, const void* from, const Piece& piece,
                    const PointMatrices& at, float* to, float* lines) const;
  // Returns what the lines of the images under a line of tiles need where they are not multiplied
  // as they lie in memory.
  size_t line_bytes(const FloatOperand& images) const;
  Pixels pixels_of(int64_t line) const;
  Rows rows_of(const Piece& piece) const;
  // Adds the elements that the piece needs and the one before it does not.
  void add_ahead(const FloatOperand& images, const void* from, const Piece& piece,
                 PrefetchList& ahead) const;

  // Patches whose elements are points, the first one's at `first`.
  template <class T>
  void set_points(const PointMatrices& at, T* first, vector::WinogradSide<T>& side) const {
    side.column = static_cast<ptrdiff_t>(at.point);
    for (int64_t i = 0; i < form_.points(0); ++i)
      side.rows[i] = first + static_cast<size_t>(i * form_.points(1)) * at.point;
  }
  // Patches whose elements are pixels over the windows: as many rows as a tile has results down,
  // of which a line of tiles at the end of an image may have fewer.
  template <class T>
  void set_pixels(int64_t line, T* first, vector::WinogradSide<T>& side) const {
    const int64_t width = form_.windows.axes[1].windows;
    side.column = form_.columns;
    side.patch = form_.columns * form_.outputs[1];
    side.size = width;
    const int64_t rows = pixels_of(line).rows;
    for (int64_t i = 0; i < form_.outputs[0]; ++i)
      side.rows[i] = i < rows ? first + i * width * form_.columns : nullptr;
  }

 private:
  // Returns where row `row` of the images under a line of tiles begins; in the padding, where the
  // image begins or ends.
  int64_t place_under(int64_t line, int64_t row) const;
  // Elements from the first of a line of the images to behind its last.
  int64_t line_elements() const;

  WinogradForm form_;
  vector::WinogradInstruction transform_;
};

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_PRODUCTS_WINOGRAD_TILES_H
