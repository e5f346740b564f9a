#include "keel/backends/common/cube/block_walk.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "keel/backends/common/cube/block_scratch.h"
#include "keel/backends/common/cube/cube_taps.h"
#include "keel/backends/common/cube/cube_windows.h"
#include "keel/backends/common/cube/placed_lines.h"
#include "keel/backends/common/cube/row_panels.h"
#include "keel/backends/common/cube/window_buffer.h"

namespace keel {
namespace {

// The walk over one rectangle of C: columns in blocks, k in panels, rows in blocks, register tiles.
class BlockWalk {
 public:
  BlockWalk(const CubePlan& plan, const CubeArgs& args, const CubeRange& range, void* scratch)
      : plan_(plan),
        kernels_(*plan.kernels),
        args_(args),
        range_(range),
        parts_(plan, range.m1 - range.m0, range.n1 - range.n0),
        scratch_(static_cast<char*>(scratch)),
        rows_(plan, args_, scratch_ + parts_.a),
        buffer_(plan, scratch_ + parts_.windows),
        tile_rows_(tile_rows(plan)),
        first_row_(plan.taps != nullptr ? range.m0 / tile_rows_ * tile_rows_ : range.m0),
        taps_(plan.taps.get()),
        lying_(plan.windows.get()),
        strip_lines_(strip_lines(plan, range.m1 - range.m0)),
        stores_panels_(has_stored_panels(plan, args, range)),
        stores_windows_(plan.problem.a_windows && lying_ == nullptr && !plan.problem.transpose_a &&
                        multiplies_stored(plan)) {}

  // Each piece goes to args.c; `finished`, if there is one, is called when it is there.
  void run(const PieceFinished* finished) {
    finished_ = finished;
    if (kernels_.begin != nullptr) kernels_.begin();
    const size_t k = plan_.problem.k;
    const size_t block = column_block(kernels_);
    for (size_t j = range_.n0; j < range_.n1; j += block) {
      const size_t cols = std::min(block, range_.n1 - j);
      if (finished_ != nullptr) {
        args_.c_stride = cols;
        args_.c_column = j;
        args_.c_row = range_.m0;
      }
      if (plan_.problem.parts == 1) {
        panels(j, cols, 0, k);
      } else if (adds_tiles_of_parts(plan_)) {
        panels_of_parts(j, cols);
      } else {
        add_parts(j, cols, 0, plan_.problem.parts, waiting());
      }
      if (finished_ != nullptr && !one_panel(plan_)) {
        (*finished_)({range_.m0, range_.m1, j, j + cols});
      }
    }
    if (kernels_.end != nullptr) kernels_.end();
  }

  // The sums of one panel of k go to args.c.
  void run_panel(size_t number) {
    alone_ = true;
    if (kernels_.begin != nullptr) kernels_.begin();
    const size_t of_part = panels_of_part(plan_), k = k_of_part();
    const size_t in_part = number % of_part * plan_.k_panel, block = column_block(kernels_);
    const size_t k0 = number / of_part * k + in_part;
    for (size_t j = range_.n0; j < range_.n1; j += block) {
      panel(j, std::min(block, range_.n1 - j), k0, std::min(plan_.k_panel, k - in_part));
    }
    if (kernels_.end != nullptr) kernels_.end();
  }

 private:
  bool is_first(size_t k0) const { return (k0 == first_k_ && !args_.adds) || alone_; }
  size_t k_of_part() const { return plan_.problem.k / plan_.problem.parts; }
  float* waiting() const { return reinterpret_cast<float*>(scratch_ + parts_.parts); }

  // The sums of k in [begin, end) go to args.c.
  void panels(size_t j, size_t cols, size_t begin, size_t end) {
    first_k_ = begin;
    for (size_t k0 = begin; k0 == begin || k0 < end; k0 += plan_.k_panel)
      panel(j, cols, k0, std::min(plan_.k_panel, end - k0));
  }

  // The sums of parts [begin, end) go to args.c, all rows of the rectangle after the other.
  void add_parts(size_t j, size_t cols, size_t begin, size_t end, float* waiting) {
    const size_t k = k_of_part();
    if (end - begin == 1) return panels(j, cols, begin * k, end * k);
    const size_t middle = begin + (end - begin) / 2, rows = range_.m1 - range_.m0;
    add_parts(j, cols, begin, middle, waiting);
    const CubeArgs to = args_;
    args_.c = waiting;
    args_.c_stride = cols;
    args_.c_row = range_.m0;
    args_.c_column = j;
    add_parts(j, cols, middle, end, waiting + rows * cols);
    args_ = to;
    add_sums(kernels_, waiting, rows, cols,
             to.c + (range_.m0 - to.c_row) * to.c_stride + j - to.c_column, to.c_stride);
  }

  // All parts of k are packed, and added up tile by tile. Parts whose length is a multiple of
  // k_multiple need no padding and are packed as one.
  void panels_of_parts(size_t j, size_t cols) {
    const CubeProblem& p = plan_.problem;
    const size_t size = kernels_.packed_size, block = row_block(plan_);
    const bool as_one = k_of_part() % kernels_.k_multiple == 0;
    const size_t packs = as_one ? 1 : p.parts, length = p.k / packs;
    const size_t depth = round_up(length, kernels_.k_multiple);
    const size_t height = round_up(std::min(range_.m1 - range_.m0, block), kernels_.rows);
    const size_t width = round_up(cols, kernels_.cols);
    PartsCall call;
    call.parts = p.parts;
    call.length = k_of_part();
    call.a_step = (as_one ? call.length * kernels_.rows : height * depth) * size;
    call.b_step = (as_one ? call.length * kernels_.cols : width * depth) * size;
    call.waiting = waiting();
    call.additions = reinterpret_cast<const uint8_t*>(scratch_ + parts_.additions);
    list_additions(0, p.parts, reinterpret_cast<uint8_t*>(scratch_ + parts_.additions));
    panels_ = scratch_ + parts_.b;
    if (p.packed_b) {
      panels_ = static_cast<const char*>(args_.b) + packed_at(plan_, 0, j);
      call.b_step = packed_at(plan_, call.length, 0);
    }
    for (size_t pack = 0; !p.packed_b && pack < packs; ++pack) {
      PackCall right = right_operand(plan_, args_.b, args_.b_stride);
      right.first = j;
      right.count = cols;
      right.k0 = pack * length;
      right.length = length;
      right.dst = scratch_ + parts_.b + pack * width * depth * size;
      kernels_.pack_b(right);
    }
    for (size_t i = range_.m0; i < range_.m1; i += block) {
      const size_t count = std::min(block, range_.m1 - i);
      for (size_t pack = 0; pack < packs; ++pack) {
        PackCall left = rows_.operand(pack * length, length);
        left.first = i;
        left.count = count;
        left.dst = rows_.packed(pack * height, depth);
        rows_.pack(left, rows_.stored_tiles(count));
      }
      begin_piece(i);
      tiles_of_parts(call, i, count, j, cols, depth);
      end_piece(i, count, j, cols);
    }
  }

  // `depth` is the number of k in a packed row.
  void tiles_of_parts(PartsCall call, size_t i0, size_t rows, size_t j0, size_t cols,
                      size_t depth) const {
    const size_t stored = rows_.stored_tiles(rows), packed_step = call.a_step;
    const size_t b_depth =
        plan_.problem.packed_b ? round_up(call.length, kernels_.k_multiple) : depth;
    TileCall tile;
    auto* sums = reinterpret_cast<float*>(scratch_ + parts_.tile);
    tile.tile = sums;
    tile.tile_stride = kernels_.cols;
    tile.c_stride = args_.c_stride;
    for (size_t j = 0; j < cols; j += kernels_.cols) {
      tile.cols = std::min(kernels_.cols, cols - j);
      call.b = panels_ + j * b_depth * kernels_.packed_size;
      for (size_t i = 0; i < rows; i += kernels_.rows) {
        tile.rows = std::min(kernels_.rows, rows - i);
        tile.c = args_.c + (i0 + i - args_.c_row) * args_.c_stride + j0 + j - args_.c_column;
        prefetch_rows(tile);
        call.rows = tile.rows;
        call.a = rows_.packed(i, depth);
        call.k_step = 0;
        call.a_step = packed_step;
        if (i < stored) {
          call.a = static_cast<const char*>(args_.a) + (i0 + i) * kernels_.packed_size;
          call.k_step = args_.a_stride;
          call.a_step = call.length * call.k_step * kernels_.packed_size;
        }
        // The sums of a whole tile go to their place as they are.
        const bool whole = tile.rows == kernels_.rows && tile.cols == kernels_.cols;
        call.to = whole ? tile.c : sums;
        call.stride = whole ? tile.c_stride : kernels_.cols;
        kernels_.multiply_parts(call);
        if (!whole) kernels_.finish(tile);
      }
    }
  }

  void panel(size_t j, size_t cols, size_t k0, size_t length) {
    const CubeProblem& p = plan_.problem;
    panels_ = scratch_ + parts_.b;
    if (p.packed_b)
      panels_ = static_cast<const char*>(args_.b) + packed_at(plan_, k0, j);
    else if (stores_panels_)
      panels_ = static_cast<const char*>(args_.b) + (k0 * args_.b_stride + j) * sizeof(float);
    const size_t in_place = stores_panels_ ? cols / kernels_.cols * kernels_.cols : 0;
    if (!p.packed_b && in_place < cols) {
      PackCall right = right_operand(plan_, args_.b, args_.b_stride);
      right.first = j + in_place;
      right.count = cols - in_place;
      right.k0 = k0;
      right.length = length;
      right.dst = scratch_ + parts_.b;
      if (p.b_windows)
        buffer_.pack_columns(right);
      else
        kernels_.pack_b(right);
    }

    if (taps_ != nullptr) return panel_over_taps(j, cols, k0, length);
    if (lying_ == nullptr) return panel_of_rows(j, cols, k0, length);
    if (p.transpose_a) return panel_over_windows(j, cols, k0, length);
    panel_of_windows(j, cols, k0, length);
  }

  // Rows of A are windows.
  void panel_of_windows(size_t j, size_t cols, size_t k0, size_t length) {
    if (lying_->by_lines()) return panel_of_lines(j, cols, k0, length);
    run_count_ = lying_->list_runs(k0, length, 0, runs());
    const size_t rows = row_block(plan_);
    for (size_t i = range_.m0; i < range_.m1; i += rows) {
      const size_t count = std::min(rows, range_.m1 - i);
      bring_lines(i, count, range_.m1);
      list_rows(i, count);
      if (args_.c_lines != nullptr)
        placed_lines().list(i, count, round_up(count, kernels_.rows), places_of_c());
      begin_piece(i);
      tiles(i, count, j, cols, k0, length);
      end_piece(i, count, j, cols);
    }
  }

  // The same line by line of windows. Blocks end with a line where they are of whole ones.
  void panel_of_lines(size_t j, size_t cols, size_t k0, size_t length) {
    lying_->list_k(k0, length, places());
    const size_t rows = row_block(plan_), line = lying_->line_windows();
    const size_t before = rows % line == 0 ? range_.m0 % line : 0;
    for (size_t i = range_.m0, end = 0; i < range_.m1; i = end) {
      end = std::min(range_.m1, i + rows - (i == range_.m0 ? before : 0));
      bring_lines(i, end - i, range_.m1);
      begin_piece(i);
      size_t number = i / line;
      for (size_t row = i; row < end; ++number) {
        const size_t count = std::min(end, (number + 1) * line) - row;
        const size_t place = lying_->place_of_line(number, strip_.begin) +
                             (row - number * line) * lying_->line_step();
        multiply_line(place, count, row_of_c(row), j, cols, k0, length);
        row += count;
      }
      end_piece(i, end - i, j, cols);
    }
  }

  PlacedLines placed_lines() const { return {args_, lying_->line_windows()}; }
  float* row_of_c(size_t row) const {
    if (args_.c_lines != nullptr) return args_.c + placed_lines()(row);
    return args_.c + (row - args_.c_row) * args_.c_stride;
  }

  // Multiplies `count` rows that are windows of one line, of which the first lies at `place`. Their
  // products go to rows of C from `to` on.
  void multiply_line(size_t place, size_t count, float* to, size_t j0, size_t cols, size_t k0,
                     size_t length) const {
    const EvenLine line{static_cast<const float*>(lines()) + place, lying_->line_step(), count,
                        places(), length};
    auto* sums = reinterpret_cast<float*>(scratch_ + parts_.tile);
    TileCall tile{.tile = sums, .tile_stride = kernels_.cols, .rows = count, .first = is_first(k0)};
    tile.c_stride = args_.c_stride;
    for (size_t j = 0; j < cols; j += kernels_.cols) {
      const char* b = panels_ + j * length * kernels_.packed_size;
      tile.cols = std::min(kernels_.cols, cols - j);
      tile.c = to + j0 + j - args_.c_column;
      if (tile.first && tile.cols == kernels_.cols) {
        kernels_.multiply_line(line, b, tile.c, tile.c_stride);
        continue;
      }
      kernels_.multiply_line(line, b, sums, kernels_.cols);
      kernels_.finish(tile);
    }
  }

  // k runs over windows, of which some at a time meet all rows of A. Sums stay with their tiles
  // from the first to the last.
  void panel_over_windows(size_t j, size_t cols, size_t k0, size_t length) {
    const size_t rows = row_block(plan_);
    const size_t at_once = windows_at_once(plan_);
    const bool one_block = range_.m1 - range_.m0 <= rows;
    if (one_block) list_rows(range_.m0, range_.m1 - range_.m0);
    for (size_t done = 0; done < length; done += at_once) {
      const size_t count = std::min(at_once, length - done);
      bring_lines(k0 + done, count, k0 + length);
      run_count_ = lying_->list_runs(k0 + done, count, strip_.begin, runs());
      const bool last = done + count == length;
      for (size_t i = range_.m0; i < range_.m1; i += rows) {
        const size_t of_block = std::min(rows, range_.m1 - i);
        if (!one_block) list_rows(i, of_block);
        add_tiles(i, of_block, cols, length, done);
        if (!last) continue;
        begin_piece(i);
        finish_tiles(i, of_block, j, cols, k0);
        end_piece(i, of_block, j, cols);
      }
    }
  }

  // The same tap by tap.
  void panel_over_taps(size_t j, size_t cols, size_t k0, size_t length) {
    const size_t end_of_tiles = round_up(range_.m1, tile_rows_);
    const size_t kept = (end_of_tiles - first_row_) * round_up(cols, kernels_.cols);
    std::fill_n(kept_sums(first_row_, 0, cols), kept, 0.0f);
    const size_t at_once = taps_->windows_at_once(kernels_.cols);
    for (size_t done = 0; done < length; done += at_once) {
      const size_t count = std::min(at_once, length - done);
      for (size_t i = first_row_; i < range_.m1;) {
        const size_t tap = taps_->tap_of(i);
        const size_t end = std::min(end_of_tiles, (tap + 1) * taps_->rows_of_tap());
        const size_t listed = taps_->list_runs(tap, k0 + done, count, tap_runs());
        add_tap(i, end, listed, cols, length, done);
        i = end;
      }
    }
    const size_t rows = row_block(plan_);
    for (size_t i = range_.m0; i < range_.m1; i += rows) {
      const size_t of_block = std::min(rows, range_.m1 - i);
      begin_piece(i);
      finish_tiles(i, of_block, j, cols, k0);
      end_piece(i, of_block, j, cols);
    }
  }

  // Adds the windows that are listed to the whole tiles of rows [first, end), which are one tap's.
  void add_tap(size_t first, size_t end, size_t listed, size_t cols, size_t length,
               size_t done) const {
    TapRows tap;
    tap.k_step = taps_->k_step();
    tap.b_step = stores_panels_ ? args_.b_stride : kernels_.cols;
    tap.runs = tap_runs();
    tap.run_count = listed;
    for (size_t j = 0; j < cols; j += kernels_.cols) {
      const size_t at = stores_panels_ ? j + done * args_.b_stride : j * length + done * tap.b_step;
      tap.b = reinterpret_cast<const float*>(panels_) + at;
      for (size_t i = first; i < end; i += tile_rows_) {
        tap.a = static_cast<const float*>(args_.a) + taps_->place_of(i);
        kernels_.add_tap(tap, kept_sums(i, j, cols));
      }
    }
  }

  // Makes the lines of images that windows [first, first + count) need, and of those up to `end`
  // as many as there is room for.
  void bring_lines(size_t first, size_t count, size_t end) {
    if (!lying_->copies()) return;
    const CubeWindows::Lines wanted = lying_->lines_of(first, count);
    if (wanted.begin >= strip_.begin && wanted.end <= strip_.end) return;
    const int64_t behind = lying_->lines_of(first, end - first).end;
    strip_ = {wanted.begin, std::min(behind, wanted.begin + strip_lines_)};
    lying_->copy_lines(args_.a, args_.bytes, strip_, strip());
  }

  bool ends_pieces() const { return finished_ != nullptr && one_panel(plan_); }
  void begin_piece(size_t i) {
    if (ends_pieces()) args_.c_row = i;
  }
  void end_piece(size_t i, size_t count, size_t j, size_t cols) const {
    if (ends_pieces()) (*finished_)({i, i + count, j, j + cols});
  }

  void panel_of_rows(size_t j, size_t cols, size_t k0, size_t length) {
    const CubeProblem& p = plan_.problem;
    PackCall pack = rows_.operand(k0, length);
    const size_t rows = row_block(plan_);
    for (size_t i = range_.m0; i < range_.m1; i += rows) {
      const size_t count = std::min(rows, range_.m1 - i);
      pack.first = i;
      pack.count = count;
      if (p.a_windows)
        buffer_.pack_rows(pack, stores_windows_);
      else
        rows_.pack(pack, rows_.stored_rows(i - range_.m0, count, length));
      begin_piece(i);
      tiles(i, count, j, cols, k0, length);
      end_piece(i, count, j, cols);
    }
  }

  TapRun* tap_runs() const { return reinterpret_cast<TapRun*>(scratch_ + parts_.runs); }
  CubeRun* runs() const { return reinterpret_cast<CubeRun*>(scratch_ + parts_.runs); }
  size_t* places() const { return reinterpret_cast<size_t*>(scratch_ + parts_.places); }
  size_t* places_of_c() const { return reinterpret_cast<size_t*>(scratch_ + parts_.places_of_c); }
  void* strip() const { return scratch_ + parts_.strip; }
  const void* lines() const { return lying_->copies() ? strip() : args_.a; }

  // Where the windows of a block lie, the last one again up to a whole tile.
  void list_rows(size_t first, size_t count) const {
    lying_->list_rows(first, count, strip_.begin, places());
    std::fill(places() + count, places() + round_up(count, kernels_.rows), places()[count - 1]);
  }

  SpreadRows spread_rows(size_t i) const {
    return {.a = lines(),
            .rows = places() + i,
            .k_step = lying_->k_step(),
            .runs = runs(),
            .run_count = run_count_};
  }

  // Multiplies rows of A from row i of the block on. Where they are `stored`, and no windows, the
  // first is row `row` of A.
  void multiply(size_t i, const PanelOfB& panel, const TileResult& to, bool stored,
                size_t row) const {
    if (lying_ != nullptr) {
      return kernels_.multiply_spread(spread_rows(i), panel.b, to.rows, false, to.to, to.stride);
    }
    if (!stores_windows_)
      return stored ? rows_.multiply_stored(row, i, panel, to) : rows_.multiply(i, panel, to);
    const size_t depth = round_up(panel.length, kernels_.k_multiple);
    StoredRows rows;
    rows.stride = window_stride(depth, kernels_.packed_size);
    rows.rows = scratch_ + parts_.windows + i * rows.stride * kernels_.packed_size;
    kernels_.multiply_stored(rows, panel.b, panel.b_step, depth, to);
  }

  PanelOfB panel_of_columns(size_t j, size_t cols, size_t k0, size_t length) const {
    PanelOfB panel{k0, length, panels_, kernels_.cols};
    if (!stores_panels_) {
      panel.b += j * round_up(length, kernels_.k_multiple) * kernels_.packed_size;
    } else if (cols == kernels_.cols) {
      panel.b += j * kernels_.packed_size;
      panel.b_step = args_.b_stride;
    } else {
      panel.b = scratch_ + parts_.b;
    }
    return panel;
  }

  void tiles(size_t i0, size_t rows, size_t j0, size_t cols, size_t k0, size_t length) {
    const size_t stored = rows_.stored_rows(i0 - range_.m0, rows, length);
    const size_t missing = rows_.missing_rows(rows % kernels_.rows);
    TileCall tile{.tile_stride = kernels_.cols, .first = is_first(k0)};
    tile.c_stride = args_.c_stride;
    for (size_t j = 0; j < cols; j += kernels_.cols) {
      tile.cols = std::min(kernels_.cols, cols - j);
      const PanelOfB panel = panel_of_columns(j, tile.cols, k0, length);
      for (size_t i = 0; i < rows; i += kernels_.rows) {
        tile.rows = std::min(kernels_.rows, rows - i);
        if (args_.c_lines != nullptr) {
          tile.c = args_.c + j0 + j - args_.c_column;
          place_tile(i, panel, tile);
          continue;
        }
        tile.c = args_.c + (i0 + i - args_.c_row) * args_.c_stride + j0 + j - args_.c_column;
        // Pieces are written again and again, and stay near.
        if (!ends_pieces()) prefetch_rows(tile);
        multiply_tile(i0, i, i < stored, tile.rows < kernels_.rows ? missing : 0, panel, tile);
      }
    }
  }

  // A tile whose rows of C have places of their own, counted from tile.c on. The list of places is
  // filled up with the last row's, which the kernel then writes again with the same sums.
  void place_tile(size_t i, const PanelOfB& panel, TileCall tile) const {
    const size_t* const places = places_of_c() + i;
    float* const c = tile.c;
    for (size_t r = 0; r < tile.rows; ++r) prefetch_row(c + places[r], tile.cols);
    SpreadRows rows = spread_rows(i);
    if (tile.first && tile.cols == kernels_.cols) {
      rows.to_rows = places;
      return kernels_.multiply_spread(rows, panel.b, tile.rows, false, c, 0);
    }
    auto* sums = reinterpret_cast<float*>(scratch_ + parts_.tile);
    kernels_.multiply_spread(rows, panel.b, tile.rows, false, sums, kernels_.cols);
    const size_t count = std::exchange(tile.rows, 1);
    for (size_t r = 0; r < count; ++r) {
      tile.tile = sums + r * kernels_.cols;
      tile.c = c + places[r];
      kernels_.finish(tile);
    }
  }

  // The kernel multiplies stored rows only with as many as are `missing`: where A is stored, those
  // above them, and in the buffer of windows the zeros below.
  void multiply_tile(size_t i0, size_t i, bool stored, size_t missing, const PanelOfB& panel,
                     TileCall tile) const {
    const size_t above = stored ? missing : 0, row = i0 + i - above;
    const bool all_rows = tile.rows == kernels_.rows || (stored && above <= i);
    const bool all_columns =
        tile.cols == kernels_.cols || (lying_ == nullptr && kernels_.stores_any_columns);
    TileResult to{tile.c, tile.c_stride, tile.rows, tile.cols};
    if (stored || stores_windows_) to.rows += missing;
    // The first sums may go to their place as they are, and those above once more.
    if (tile.first && all_rows && all_columns) {
      to.to -= above * to.stride;
      return multiply(i, panel, to, stored, row);
    }
    auto* sums = reinterpret_cast<float*>(scratch_ + parts_.tile);
    to.to = sums;
    to.stride = kernels_.cols;
    if (kernels_.stores_any_columns) to.cols = kernels_.cols;  // whole vectors are stored faster
    multiply(i, panel, to, stored, row);
    tile.tile = sums + above * kernels_.cols;
    kernels_.finish(tile);
  }

  // The sums of the tile at row i of A and column j, counted from the rectangle's first on, where
  // those of all tiles are kept.
  float* kept_sums(size_t i, size_t j, size_t cols) const {
    auto* sums = reinterpret_cast<float*>(scratch_ + parts_.tile);
    return sums + (i - first_row_) * round_up(cols, kernels_.cols) + j * tile_rows_;
  }

  // Adds the windows that are listed, which begin at `done` of the panel's `length`.
  void add_tiles(size_t i0, size_t rows, size_t cols, size_t length, size_t done) const {
    for (size_t j = 0; j < cols; j += kernels_.cols) {
      const char* b = panels_ + (j * length + done * kernels_.cols) * kernels_.packed_size;
      for (size_t i = 0; i < rows; i += tile_rows_) {
        float* sums = kept_sums(i0 + i, j, cols);
        const size_t count = std::min(tile_rows_, rows - i);
        kernels_.multiply_spread(spread_rows(i), b, count, done != 0, sums, kernels_.cols);
      }
    }
  }

  // Brings the kept sums of rows [i0, i0 + rows) to C, which may begin and end within a tile.
  void finish_tiles(size_t i0, size_t rows, size_t j0, size_t cols, size_t k0) const {
    TileCall tile{.tile_stride = kernels_.cols, .first = is_first(k0), .c_stride = args_.c_stride};
    for (size_t j = 0; j < cols; j += kernels_.cols) {
      tile.cols = std::min(kernels_.cols, cols - j);
      for (size_t i = i0; i < i0 + rows; i += tile.rows) {
        const size_t in_tile = (i - first_row_) % tile_rows_;
        tile.rows = std::min(tile_rows_ - in_tile, i0 + rows - i);
        tile.tile = kept_sums(i - in_tile, j, cols) + in_tile * kernels_.cols;
        tile.c = args_.c + (i - args_.c_row) * args_.c_stride + j0 + j - args_.c_column;
        kernels_.finish(tile);
      }
    }
  }

  // The multiplication that comes first hides the way from memory.
  static void prefetch_rows(const TileCall& tile) {
    for (size_t i = 0; i < tile.rows; ++i) prefetch_row(tile.c + i * tile.c_stride, tile.cols);
  }
  static void prefetch_row(const float* row, size_t columns) {
    constexpr size_t kLine = 64 / sizeof(float);
    for (size_t j = 0; j < columns; j += kLine) __builtin_prefetch(row + j, 1);
  }

  const CubePlan& plan_;
  const CubeKernels& kernels_;
  CubeArgs args_;
  const CubeRange& range_;
  const BlockScratch parts_;
  char* scratch_;
  const RowPanels rows_;
  const WindowBuffer buffer_;
  const size_t tile_rows_;
  const size_t first_row_;     // of the first tile: those of taps begin before the rectangle
  const CubeTaps* taps_;       // windows of A that are multiplied where they lie, tap by tap
  const CubeWindows* lying_;   // the same in other ways
  const int64_t strip_lines_;  // of the images, for which there is room
  CubeWindows::Lines strip_;   // that are there
  size_t run_count_ = 0;       // of k's that are multiplied
  const bool stores_panels_;   // B, as its kernel can read it
  const bool stores_windows_;  // the buffer for windows of A, likewise
  size_t first_k_ = 0;         // that goes to C as it is
  bool alone_ = false;         // no panel is added to what the one before left in C
  const PieceFinished* finished_ = nullptr;
  const char* panels_ = nullptr;  // of B, from the block's first column on
};

}  // namespace

size_t walk_scratch_bytes(const CubePlan& plan, size_t rows, size_t cols) {
  return BlockScratch(plan, rows, cols).total;
}

void walk_block(const CubePlan& plan, const CubeArgs& args, const CubeRange& range, void* scratch,
                const PieceFinished* finished) {
  BlockWalk(plan, args, range, scratch).run(finished);
}

void walk_panel(const CubePlan& plan, const CubeArgs& args, const CubeRange& range, size_t panel,
                void* scratch) {
  BlockWalk(plan, args, range, scratch).run_panel(panel);
}

}  // namespace keel
