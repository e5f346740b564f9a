#include "keel/backends/common/products/winograd_weights.h"

#include <algorithm>
#include <bit>
#include <memory>

#include "keel/backends/common/float_status.h"
#include "keel/backends/common/products/float_operand.h"
#include "keel/backends/common/products/product_result.h"
#include "keel/backends/common/products/winograd_terms.h"
#include "keel/backends/common/products/winograd_tiles.h"
#include "keel/backends/common/vector/instructions.h"
#include "keel/core/base/checked.h"

namespace keel {
namespace {

// Each part of the images is cut into shares, whose number follows from the shapes of a part alone,
// and a share into pieces of tiles. First the shares are summed, each by itself, a piece after the
// other. Then those of each part are added up in order and taken back, and the parts are added as
// a tree.
class WinogradWeights final : public Kernel {
 public:
  WinogradWeights(const AnchoredNode& fused, const WinogradForm& form, bool saturate_f16)
      : tiles_(form),
        form_(tiles_.form()),
        terms_(form_, kChannelsAtOnce),
        matrices_(fused.matrices()),
        images_(fused, matrices_.a.input),
        upstream_operand_(fused, matrices_.b.input),
        outputs_at_(fused.node().inputs().size()),
        workspace_at_(outputs_at_ + fused.node().types().size()),
        transform_upstream_(vector::find_winograd(vector::WinogradStep::kUpstream, form_)),
        transform_gradient_(vector::find_winograd(vector::WinogradStep::kGradient, form_)),
        multiply_(vector::find_point_products()),
        add_(vector::find_instruction("add", f32, f32)),
        result_(fused, form_.columns, saturate_f16),
        lines_of_piece_(tiles_.lines_of(kTilesOfAPiece)),
        shares_(shares_of_part()),
        blocks_(tiles_.blocks(form_.parts * shares_, form_.parts * form_.lines())),
        input_(tiles_.points(), lines_of_piece_ * form_.tiles[1], form_.channels),
        upstream_(tiles_.points(), lines_of_piece_ * form_.tiles[1], form_.columns),
        sums_(tiles_.points(), form_.channels, form_.columns) {
    const int64_t rows = form_.taps * form_.taps * kChannelsAtOnce;
    values_ =
        align_up(static_cast<size_t>(rows * form_.columns) * sizeof(float), kWinogradAlignment);
    // Sums that wait for those of later parts.
    const auto waiting = std::bit_width(static_cast<size_t>(form_.parts - 1));
    met_at_ = static_cast<size_t>(waiting + 1) * values_;
    find_brought();
    scratch_ = std::max(input_.bytes() + upstream_.bytes() + brought_,
                        met_at_ + terms_.scratch_bytes() + result_.scratch_bytes(kChannelsAtOnce));
  }

  size_t workspace_bytes() const {
    return terms_at() + static_cast<size_t>(form_.parts) * terms_.bytes() +
           static_cast<size_t>(blocks_) * scratch_;
  }
  std::vector<KernelPlan::InPlace> in_place() const { return result_.in_place(); }
  bool reports_status() const { return result_.reports_status(); }
  int phases() const override { return 2; }
  int blocks(int) const override { return blocks_; }

  void run(void* const* args, int phase, int block) const override {
    char* scratch =
        workspace(args) + workspace_bytes() - static_cast<size_t>(blocks_ - block) * scratch_;
    if (phase == 0) return sum_shares(args, block, scratch);
    uint32_t status = 0;
    const int64_t end = form_.channels * (block + 1) / blocks_;
    for (int64_t c = form_.channels * block / blocks_; c < end; c += kChannelsAtOnce)
      status |= finish(args, {c, std::min(c + kChannelsAtOnce, end)}, scratch);
    if (reports_status()) raise_float_status(args[workspace_at_ + 1], status);
  }

 private:
  using Piece = WinogradTiles::Piece;
  using Channels = WinogradChannels;
  // The way back of some channels: arguments, and the scratch of the terms.
  struct Work {
    void* const* args;
    Channels channels;
    uint8_t* met;
  };

  // More shares are summed in less time by many threads, but have to be added up.
  int64_t shares_of_part() const {
    const int64_t tiles = form_.lines() * form_.tiles[1];
    const int64_t bytes = tiles_.points() * form_.channels * form_.columns * 4;
    int64_t shares = 1;
    while (2 * shares <= std::min(kMostShares, form_.lines()) &&
           2 * shares * bytes <= kBytesOfShares && 256 * shares * shares <= tiles)
      shares *= 2;
    return shares;
  }

  char* workspace(void* const* args) const { return static_cast<char*>(args[workspace_at_]); }
  float* share(void* const* args, int64_t part, int64_t number) const {
    const auto before = static_cast<size_t>(part * shares_ + number);
    return reinterpret_cast<float*>(workspace(args) + before * sums_.bytes());
  }
  size_t terms_at() const { return static_cast<size_t>(form_.parts * shares_) * sums_.bytes(); }
  uint8_t* terms(void* const* args, int64_t part) const {
    return reinterpret_cast<uint8_t*>(workspace(args)) + terms_at() +
           static_cast<size_t>(part) * terms_.bytes();
  }
  WinogradTerms::Elements images(void* const* args, int64_t part) const {
    return {images_, images_.at(args, matrices_.batch[0].a + part * matrices_.part_step.a)};
  }
  WinogradTerms::Elements upstream(void* const* args, int64_t part) const {
    return {upstream_operand_,
            upstream_operand_.at(args, matrices_.batch[0].b + part * matrices_.part_step.b)};
  }

  // Elements that are not multiplied as they are stored: lines of the images and of the gradient of
  // the results under a line of tiles, or what the bits are made of.
  void find_brought() {
    if (images_.is_plain() && upstream_operand_.is_plain()) return;
    lines_ = tiles_.line_bytes(images_);
    const int64_t slopes = form_.outputs[0] * form_.windows.axes[1].windows * form_.columns;
    brought_ = lines_;
    if (!upstream_operand_.is_plain())
      brought_ += align_up(static_cast<size_t>(slopes) * sizeof(float), kWinogradAlignment);
    if (!images_.is_stored_float() || !upstream_operand_.is_stored_float())
      brought_ = std::max(brought_, WinogradTerms::bring_bytes());
  }
  float* brought(char* scratch) const {
    return reinterpret_cast<float*>(scratch + input_.bytes() + upstream_.bytes());
  }

  // The block's part of the shares and of the terms. The terms of a share's images are brought just
  // before it, so that it finds the elements in a cache.
  void sum_shares(void* const* args, int block, char* scratch) const {
    const int64_t groups = form_.parts * terms_.groups(), sums = form_.parts * shares_;
    const int64_t end_of_groups = groups * (block + 1) / blocks_;
    int64_t group = groups * block / blocks_;
    const auto bring_until = [&](int64_t end) {
      for (; group < std::min(end, end_of_groups); ++group)
        bring_terms(args, group / terms_.groups(), group % terms_.groups(), brought(scratch));
    };
    for (int64_t i = sums * block / blocks_; i < sums * (block + 1) / blocks_; ++i) {
      const int64_t last_line = form_.lines() * (i % shares_ + 1) / shares_ - 1;
      bring_until(i / shares_ * terms_.groups() + terms_.group_of(last_line / form_.tiles[0]) + 1);
      sum_share(args, i / shares_, i % shares_, scratch);
    }
    bring_until(end_of_groups);
  }

  void bring_terms(void* const* args, int64_t part, int64_t group, float* scratch) const {
    terms_.bring(images(args, part), upstream(args, part), group, terms(args, part), scratch);
  }

  void sum_share(void* const* args, int64_t part, int64_t number, char* scratch) const {
    auto* input = reinterpret_cast<float*>(scratch);
    auto* slopes = reinterpret_cast<float*>(scratch + input_.bytes());
    float* const lines = brought(scratch);
    const WinogradTerms::Elements from = images(args, part), dy = upstream(args, part);
    const int64_t first = form_.lines() * number / shares_;
    const int64_t end = form_.lines() * (number + 1) / shares_;
    for (int64_t line = first; line < end; line += lines_of_piece_) {
      const Piece piece{line, std::min(line + lines_of_piece_, end)};
      tiles_.bring_images(from.operand, from.from, piece, input_, input, lines);
      bring_upstream(dy.from, piece, slopes, lines + lines_ / sizeof(float));
      const Piece next{piece.end, std::min(piece.end + lines_of_piece_, end)};
      multiply_({.points = input_.points,
                 .a = input,
                 .a_point = input_.point,
                 .a_row = 1,
                 .a_step = input_.row,
                 .b = slopes,
                 .b_point = upstream_.point,
                 .b_row = upstream_.row,
                 .c = share(args, part, number),
                 .c_point = sums_.point,
                 .c_row = sums_.row,
                 .m = static_cast<size_t>(form_.channels),
                 .n = static_cast<size_t>(form_.columns),
                 .k = static_cast<size_t>(tiles_.count(piece)),
                 .adds = line != first,
                 .ahead = ahead_of(from, dy, next)});
    }
  }

  // The images of a piece and their gradients come from memory while the points of the piece before
  // it are multiplied.
  PrefetchList ahead_of(const WinogradTerms::Elements& images, const WinogradTerms::Elements& dy,
                        const Piece& piece) const {
    PrefetchList ahead;
    if (piece.begin >= piece.end) return ahead;
    tiles_.add_ahead(images.operand, images.from, piece, ahead);
    const WinogradTiles::Rows rows = tiles_.rows_of(piece);
    dy.operand.add_ahead(dy.from, rows.first * form_.columns,
                         (rows.first + rows.count) * form_.columns, ahead);
    return ahead;
  }

  void bring_upstream(const void* dy, const Piece& piece, float* to, float* lines) const {
    vector::WinogradLine call;
    call.channels = static_cast<size_t>(form_.columns);
    call.patches = form_.tiles[1];
    call.to.patch = static_cast<ptrdiff_t>(upstream_.row);
    const int64_t line_elements = form_.windows.axes[1].windows * form_.columns;
    for (int64_t line = piece.begin; line < piece.end; ++line) {
      const WinogradTiles::Pixels pixels = tiles_.pixels_of(line);
      const float* slopes = upstream_operand_.bring(dy, pixels.first * form_.columns,
                                                    pixels.rows * line_elements, lines);
      tiles_.set_pixels(line, slopes, call.from);
      tiles_.set_points(upstream_, to, call.to);
      transform_upstream_(call);
      to += static_cast<size_t>(form_.tiles[1]) * upstream_.row;
    }
  }

  // Returns the status bits raised.
  uint32_t finish(void* const* args, const Channels& channels, char* scratch) const {
    auto* values = reinterpret_cast<float*>(scratch);
    const Work work{args, channels, reinterpret_cast<uint8_t*>(scratch + met_at_)};
    add_parts(work, 0, form_.parts, values);
    const int64_t of_tap = channels.count() * form_.columns;
    char* behind = scratch + scratch_ - result_.scratch_bytes(kChannelsAtOnce);
    uint32_t status = 0;
    for (int64_t tap = 0; tap < form_.taps * form_.taps; ++tap, values += of_tap) {
      const int64_t row = tap * form_.channels + channels.begin;
      if (result_.is_sums()) {
        float* to = static_cast<float*>(args[outputs_at_]) + matrices_.batch[0].c;
        std::copy_n(values, of_tap, to + row * form_.columns);
      } else {
        status |= result_.finish(args, values, {row, channels.count(), 0, form_.columns}, behind);
      }
    }
    return status;
  }

  // The sums of parts [begin, end) go to `to`, those of later ones on the way behind it.
  void add_parts(const Work& work, int64_t begin, int64_t end, float* to) const {
    if (end - begin == 1) return take_back(work, begin, to);
    const int64_t middle = begin + (end - begin) / 2;
    float* other = to + values_ / sizeof(float);
    add_parts(work, begin, middle, to);
    add_parts(work, middle, end, other);
    const int64_t rows = form_.taps * form_.taps * work.channels.count();
    add(other, static_cast<size_t>(rows * form_.columns), to);
  }

  // The gradient of one part, [taps, channels, columns].
  void take_back(const Work& work, int64_t part, float* to) const {
    const Channels& channels = work.channels;
    add_shares(work.args, part, channels);
    vector::WinogradLine call;
    call.channels = static_cast<size_t>(form_.columns);
    call.to.column = channels.count() * form_.columns;
    const uint8_t* bits = terms(work.args, part);
    for (int64_t c = channels.begin; c < channels.end; ++c) {
      const float* points = share(work.args, part, 0) + static_cast<size_t>(c) * sums_.row;
      tiles_.set_points(sums_, points, call.from);
      float* row = to + (c - channels.begin) * form_.columns;
      for (int64_t i = 0; i < form_.taps; ++i)
        call.to.rows[i] = row + i * form_.taps * call.to.column;
      transform_gradient_(call);
    }
    for (int64_t tap = 0; tap < form_.taps * form_.taps; ++tap)
      terms_.clear(bits, tap, channels, to + tap * call.to.column, work.met);
  }

  void add_shares(void* const* args, int64_t part, const Channels& channels) const {
    const size_t count = static_cast<size_t>(channels.count()) * sums_.row;
    for (size_t point = 0; point < sums_.points; ++point) {
      const size_t at = point * sums_.point + static_cast<size_t>(channels.begin) * sums_.row;
      for (int64_t number = 1; number < shares_; ++number)
        add(share(args, part, number) + at, count, share(args, part, 0) + at);
    }
  }

  void add(const float* from, size_t count, float* to) const {
    VectorCall call;
    call.n = count;
    call.dst = to;
    call.src[0] = to;
    call.src[1] = from;
    add_(call);
  }

  static constexpr int64_t kTilesOfAPiece = 24, kChannelsAtOnce = 8, kMostShares = 16;
  static constexpr int64_t kBytesOfShares = int64_t{8} << 20;  // of a part

  const WinogradTiles tiles_;
  const WinogradForm& form_;  // of one part
  const WinogradTerms terms_;
  ProductMatrices matrices_;
  FloatOperand images_, upstream_operand_;
  size_t outputs_at_, workspace_at_;  // numbers of arguments
  vector::WinogradInstruction transform_upstream_, transform_gradient_;
  vector::PointProductsInstruction multiply_;
  VectorInstruction add_;
  ProductResult result_;
  int64_t lines_of_piece_, shares_;  // of a part
  int blocks_;
  PointMatrices input_, upstream_, sums_;
  // Counts bytes: a gradient of some channels, what lies before the terms' scratch, all scratch.
  size_t values_ = 0, met_at_ = 0, scratch_ = 0;
  // Counts bytes of what is brought, and of the images' lines in it.
  size_t brought_ = 0, lines_ = 0;
};

}  // namespace

KernelPlan plan_winograd_weights(const AnchoredNode& node, const WinogradForm& form,
                                 bool saturate_f16) {
  return plan_of(std::make_unique<WinogradWeights>(node, form, saturate_f16),
                 "transformed tiles of the gradients of " + results_of_tile(form));
}

}  // namespace keel
