#include "keel/backends/common/products/winograd_kernel.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "keel/backends/common/cube/kernel_choice.h"
#include "keel/backends/common/float_status.h"
#include "keel/backends/common/product_epilogue.h"
#include "keel/backends/common/products/float_operand.h"
#include "keel/backends/common/products/product_result.h"
#include "keel/backends/common/products/winograd_tiles.h"
#include "keel/backends/common/products/winograd_weights.h"
#include "keel/backends/common/vector/element_kernels.h"
#include "keel/backends/common/vector/softmax_rows.h"
#include "keel/backends/common/vector/winograd.h"
#include "keel/core/base/checked.h"
#include "keel/ops/products/winograd.h"

namespace keel {
namespace {

// First all kernels go to their points, then each piece of tiles is brought, multiplied and taken
// back.
class WinogradKernel final : public Kernel {
 public:
  WinogradKernel(const AnchoredNode& fused, WinogradForm form, bool saturate_f16)
      : tiles_(form),
        form_(tiles_.form()),
        matrices_(fused.matrices()),
        points_(tiles_.points()),
        images_(fused, matrices_.a.input),
        weights_(fused, matrices_.b.input),
        outputs_at_(fused.node().inputs().size()),
        workspace_at_(outputs_at_ + fused.node().types().size()),
        transform_weights_(vector::find_winograd(vector::WinogradStep::kWeights, form_)),
        transform_results_(vector::find_winograd(vector::WinogradStep::kResults, form_)),
        multiply_(vector::find_point_products()),
        result_(fused, form_.columns, saturate_f16) {
    cut_pieces();
    kernels_ = PointMatrices(points_, form_.channels, form_.columns);
    input_ = PointMatrices(points_, lines_of_piece_ * form_.tiles[1], form_.channels);
    sums_ = PointMatrices(points_, lines_of_piece_ * form_.tiles[1], form_.columns);
    turned_ = PointMatrices(points_, 1, form_.channels);
    if (!weights_.is_plain()) {
      const int64_t taps = form_.taps * form_.taps * std::max(form_.channels, form_.columns);
      brought_ = align_up(static_cast<size_t>(taps) * sizeof(float), kWinogradAlignment);
    }
    brought_ = std::max(brought_, tiles_.line_bytes(images_));
    const int64_t pixels = lines_of_piece_ * form_.outputs[0] * form_.windows.axes[1].windows;
    if (!result_.is_sums()) {
      values_ =
          align_up(static_cast<size_t>(pixels * form_.columns) * sizeof(float), kWinogradAlignment);
    }
    scratch_ = input_bytes() + sums_.bytes() + values_ + result_.scratch_bytes(pixels) + brought_;
  }

  size_t workspace_bytes() const {
    return kernels_.bytes() + static_cast<size_t>(blocks_) * scratch_;
  }
  std::vector<KernelPlan::InPlace> in_place() const { return result_.in_place(); }
  bool reports_status() const { return result_.reports_status(); }
  int phases() const override { return 2; }
  int blocks(int) const override { return blocks_; }

  void run(void* const* args, int phase, int block) const override {
    char* scratch = workspace(args) + kernels_.bytes() + static_cast<size_t>(block) * scratch_;
    if (phase == 0) return prepare(args, block, scratch);
    uint32_t status = 0;
    const int64_t end = pieces_ * (block + 1) / blocks_;
    for (int64_t i = pieces_ * block / blocks_; i < end; ++i) {
      const Piece next = i + 1 < end ? piece(i + 1) : Piece{0, 0};
      status |= compute(args, piece(i), next, scratch);
    }
    if (reports_status()) raise_float_status(args[workspace_at_ + 1], status);
  }

 private:
  using Piece = WinogradTiles::Piece;
  Piece piece(int64_t number) const {
    const int64_t begin = number * lines_of_piece_;
    return {begin, std::min(begin + lines_of_piece_, form_.lines())};
  }

  // Into pieces whose transforms stay in the second cache, with products long enough for registers,
  // and these into blocks.
  void cut_pieces() {
    const size_t row =
        PointMatrices(1, 1, form_.channels).row + PointMatrices(1, 1, form_.columns).row;
    const auto row_bytes = static_cast<int64_t>(row * sizeof(float));
    lines_of_piece_ = tiles_.lines_of(std::max(kLeastTiles, kPieceBytes / (points_ * row_bytes)));
    pieces_ = (form_.lines() + lines_of_piece_ - 1) / lines_of_piece_;
    blocks_ = tiles_.blocks(pieces_, form_.lines());
  }

  // Of a block's scratch: room for the points of a piece, or before for those of a turned kernel.
  size_t input_bytes() const { return std::max(input_.bytes(), turned_.bytes()); }

  float* output(void* const* args) const { return static_cast<float*>(args[outputs_at_]); }
  char* workspace(void* const* args) const { return static_cast<char*>(args[workspace_at_]); }

  float* kernels(void* const* args) const { return reinterpret_cast<float*>(workspace(args)); }

  // Behind all else of a block's scratch: elements that are not multiplied as they are stored.
  float* brought(char* scratch) const {
    return reinterpret_cast<float*>(scratch + scratch_ - brought_);
  }

  // The block's share of the kernels. Lanes are columns of C, or channels that are summed, which
  // then go to a column of each point's matrix.
  void prepare(void* const* args, int block, char* scratch) const {
    const WinogradForm::Weights& w = form_.weights;
    const bool turned = w.across != 1;
    const int64_t lanes = turned ? form_.channels : form_.columns;
    const int64_t others = turned ? form_.columns : form_.channels;
    auto* points = reinterpret_cast<float*>(scratch);
    vector::WinogradLine call;
    call.channels = static_cast<size_t>(lanes);
    const int64_t end = others * (block + 1) / blocks_;
    for (int64_t other = others * block / blocks_; other < end; ++other) {
      const int64_t first = matrices_.batch[0].b + w.start + other * (turned ? w.across : w.depth);
      bring_kernel(weights_.at(args, first), lanes, brought(scratch), call.from);
      float* to = kernels(args) + static_cast<size_t>(other) * (turned ? 1 : kernels_.row);
      tiles_.set_points(turned ? turned_ : kernels_, turned ? points : to, call.to);
      transform_weights_(call);
      if (turned) turn(points, to);
    }
  }

  // The taps of a kernel, whose first lane is at `from`.
  void bring_kernel(const void* from, int64_t lanes, float* to,
                    vector::WinogradSide<const float>& side) const {
    const WinogradForm::Weights& w = form_.weights;
    if (weights_.is_plain()) {
      side.column = w.column;
      for (int64_t i = 0; i < form_.taps; ++i)
        side.rows[i] = static_cast<const float*>(from) + i * w.row;
      return;
    }
    side.column = lanes;
    for (int64_t i = 0; i < form_.taps; ++i) {
      side.rows[i] = to + i * form_.taps * lanes;
      for (int64_t j = 0; j < form_.taps; ++j)
        weights_.bring(from, i * w.row + j * w.column, lanes, to + (i * form_.taps + j) * lanes);
    }
  }

  // A column of each point's matrix.
  void turn(const float* from, float* to) const {
    for (size_t point = 0; point < kernels_.points; ++point) {
      for (size_t k = 0; k < static_cast<size_t>(form_.channels); ++k)
        to[point * kernels_.point + k * kernels_.row] = from[point * turned_.point + k];
    }
  }

  // The lines that the piece's results go to, and the images of the next piece, come from memory
  // while the points are multiplied.
  PrefetchList ahead_of(void* const* args, const WinogradTiles::Rows& rows,
                        const Piece& next) const {
    PrefetchList ahead;
    result_.add_ahead(args, rows.first, rows.count, ahead);
    if (next.begin == next.end) return ahead;
    tiles_.add_ahead(images_, images_.at(args, matrices_.batch[0].a), next, ahead);
    return ahead;
  }

  // `next` is what this block goes on with; empty at its end.
  uint32_t compute(void* const* args, const Piece& piece, const Piece& next, char* scratch) const {
    const WinogradTiles::Rows rows = tiles_.rows_of(piece);
    auto* input = reinterpret_cast<float*>(scratch);
    auto* sums = reinterpret_cast<float*>(scratch + input_bytes());
    tiles_.bring_images(images_, images_.at(args, matrices_.batch[0].a), piece, input_, input,
                        brought(scratch));
    multiply_({.points = input_.points,
               .a = input,
               .a_point = input_.point,
               .a_row = input_.row,
               .a_step = 1,
               .b = kernels(args),
               .b_point = kernels_.point,
               .b_row = kernels_.row,
               .c = sums,
               .c_point = sums_.point,
               .c_row = sums_.row,
               .m = static_cast<size_t>(tiles_.count(piece)),
               .n = static_cast<size_t>(form_.columns),
               .k = static_cast<size_t>(form_.channels),
               .adds = false,
               .ahead = ahead_of(args, rows, next)});
    if (result_.is_sums()) {
      take_back(sums, piece, output(args) + rows.first * form_.columns, rows.first);
      return 0;
    }
    char* behind = reinterpret_cast<char*>(sums) + sums_.bytes();
    auto* values = reinterpret_cast<float*>(behind);
    take_back(sums, piece, values, rows.first);
    return result_.finish(args, values, {rows.first, rows.count, 0, form_.columns},
                          behind + values_);
  }

  // Points become results; `to` begins with pixel `first` of all.
  void take_back(const float* sums, const Piece& piece, float* to, int64_t first) const {
    vector::WinogradLine call;
    call.channels = static_cast<size_t>(form_.columns);
    call.patches = form_.tiles[1];
    call.from.patch = static_cast<ptrdiff_t>(sums_.row);
    for (int64_t line = piece.begin; line < piece.end; ++line) {
      tiles_.set_points(sums_, sums, call.from);
      tiles_.set_pixels(line, to + (tiles_.pixels_of(line).first - first) * form_.columns, call.to);
      transform_results_(call);
      sums += static_cast<size_t>(form_.tiles[1]) * sums_.row;
    }
  }

  static constexpr int64_t kPieceBytes = int64_t{128} << 10, kLeastTiles = 24;

  const WinogradTiles tiles_;
  const WinogradForm& form_;
  ProductMatrices matrices_;
  int64_t points_;  // of a tile, both axes
  FloatOperand images_, weights_;
  size_t outputs_at_, workspace_at_;  // numbers of arguments
  vector::WinogradInstruction transform_weights_, transform_results_;
  vector::PointProductsInstruction multiply_;
  ProductResult result_;
  int64_t lines_of_piece_ = 1, pieces_ = 1;
  int blocks_ = 1;
  PointMatrices kernels_, input_, sums_, turned_;
  size_t values_ = 0, brought_ = 0, scratch_ = 0;  // bytes of a block
};

std::optional<WinogradForm> form_of(const AnchoredNode& node) {
  if (!node.is_product() || !node.why_no_matrices().empty()) return std::nullopt;
  const DType dtype = node.anchor().input(0).dtype();
  if (dtype == bf16 &&
      product_kernels().of(vector::ShapeClass::kSquare) == vector::ProductKernel::kTiles)
    return std::nullopt;
  return winograd_form(node.matrices(), dtype);
}

}  // namespace

bool has_winograd_form(const AnchoredNode& node) { return form_of(node).has_value(); }

Support supports_winograd(const AnchoredNode& node) {
  for (size_t i = 0; i < node.anchor().inputs().size(); ++i)
    if (Support s = FloatOperand::supports(node, i); !s.supported) return s;
  return supports_epilogue(node, vector::instruction_lookup(), vector::make_softmax_rows);
}

KernelPlan plan_winograd(const AnchoredNode& node, bool saturate_f16) {
  const WinogradForm form = *form_of(node);
  if (form.sums_windows) return plan_winograd_weights(node, form, saturate_f16);
  return plan_of(std::make_unique<WinogradKernel>(node, form, saturate_f16),
                 "transformed tiles of " + results_of_tile(form));
}

}  // namespace keel
