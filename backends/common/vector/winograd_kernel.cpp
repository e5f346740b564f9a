#include "keel/backends/common/vector/winograd_kernel.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "keel/backends/common/float_status.h"
#include "keel/backends/common/product_epilogue.h"
#include "keel/backends/common/vector/element_kernels.h"
#include "keel/backends/common/vector/instructions.h"
#include "keel/backends/common/vector/softmax_rows.h"
#include "keel/backends/common/vector/winograd.h"
#include "keel/backends/common/vector/winograd_tiles.h"
#include "keel/backends/common/vector/winograd_weights.h"
#include "keel/core/base/checked.h"
#include "keel/ops/products/winograd.h"

namespace keel::vector {
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
        a_at_(fused.source(matrices_.a.input).value()),
        b_at_(fused.source(matrices_.b.input).value()),
        outputs_at_(fused.node().inputs().size()),
        workspace_at_(outputs_at_ + fused.node().types().size()),
        transform_weights_(find_winograd(WinogradStep::kWeights, form_)),
        transform_results_(find_winograd(WinogradStep::kResults, form_)),
        multiply_(find_point_products()),
        reports_status_(saturate_f16 && computes_f16(fused.node())) {
    cut_pieces();
    kernels_ = PointMatrices(points_, form_.channels, form_.columns);
    input_ = PointMatrices(points_, lines_of_piece_ * form_.tiles[1], form_.channels);
    sums_ = PointMatrices(points_, lines_of_piece_ * form_.tiles[1], form_.columns);
    turned_ = PointMatrices(points_, 1, form_.channels);
    scratch_ = input_bytes() + sums_.bytes();
    if (!fused.has_epilogue()) return;
    epilogue_.emplace(fused, instruction_lookup(saturate_f16), make_softmax_rows, form_.columns);
    const int64_t pixels = lines_of_piece_ * form_.outputs[0] * form_.windows.axes[1].windows;
    values_ =
        align_up(static_cast<size_t>(pixels * form_.columns) * sizeof(float), kWinogradAlignment);
    scratch_ += values_ +
                align_up(epilogue_->scratch_bytes(static_cast<size_t>(pixels)), kWinogradAlignment);
  }

  size_t workspace_bytes() const {
    return kernels_.bytes() + static_cast<size_t>(blocks_) * scratch_;
  }
  std::vector<KernelPlan::InPlace> in_place() const {
    return epilogue_ ? epilogue_->in_place() : std::vector<KernelPlan::InPlace>{};
  }
  bool reports_status() const { return reports_status_; }
  int phases() const override { return 2; }
  int blocks(int) const override { return blocks_; }

  void run(void* const* args, int phase, int block) const override {
    char* scratch = workspace(args) + kernels_.bytes() + static_cast<size_t>(block) * scratch_;
    if (phase == 0) return prepare(args, block, reinterpret_cast<float*>(scratch));
    uint32_t status = 0;
    for (int64_t i = pieces_ * block / blocks_; i < pieces_ * (block + 1) / blocks_; ++i)
      status |= compute(args, piece(i), scratch);
    raise(args, status);
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

  void raise(void* const* args, uint32_t status) const {
    if (reports_status_) raise_float_status(args[workspace_at_ + 1], status);
  }

  const float* images(void* const* args) const {
    return static_cast<const float*>(args[a_at_]) + matrices_.batch[0].a;
  }
  const float* right(void* const* args) const {
    return static_cast<const float*>(args[b_at_]) + matrices_.batch[0].b;
  }
  float* output(void* const* args) const { return static_cast<float*>(args[outputs_at_]); }
  char* workspace(void* const* args) const { return static_cast<char*>(args[workspace_at_]); }

  float* kernels(void* const* args) const { return reinterpret_cast<float*>(workspace(args)); }

  // The block's share of the kernels. Lanes are columns of C, or channels that are summed, which
  // then go to a column of each point's matrix.
  void prepare(void* const* args, int block, float* scratch) const {
    const WinogradForm::Weights& w = form_.weights;
    const bool turned = w.across != 1;
    const int64_t lanes = turned ? form_.channels : form_.columns;
    const int64_t others = turned ? form_.columns : form_.channels;
    WinogradLine call;
    call.channels = static_cast<size_t>(lanes);
    call.from.column = w.column;
    const int64_t end = others * (block + 1) / blocks_;
    for (int64_t other = others * block / blocks_; other < end; ++other) {
      const float* from = right(args) + w.start + other * (turned ? w.across : w.depth);
      for (int64_t i = 0; i < form_.taps; ++i) call.from.rows[i] = from + i * w.row;
      float* to = kernels(args) + static_cast<size_t>(other) * (turned ? 1 : kernels_.row);
      tiles_.set_points(turned ? turned_ : kernels_, turned ? scratch : to, call.to);
      transform_weights_(call);
      if (turned) turn(scratch, to);
    }
  }

  // A column of each point's matrix.
  void turn(const float* from, float* to) const {
    for (size_t point = 0; point < kernels_.points; ++point) {
      for (size_t k = 0; k < static_cast<size_t>(form_.channels); ++k)
        to[point * kernels_.point + k * kernels_.row] = from[point * turned_.point + k];
    }
  }

  uint32_t compute(void* const* args, const Piece& piece, char* scratch) const {
    auto* input = reinterpret_cast<float*>(scratch);
    auto* sums = reinterpret_cast<float*>(scratch + input_bytes());
    tiles_.bring_images(images(args), piece, input_, input);
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
               .adds = false});
    const int64_t row = tiles_.pixels_of(piece.begin).first;
    const WinogradTiles::Pixels last = tiles_.pixels_of(piece.end - 1);
    const int64_t rows = last.first + last.rows * form_.windows.axes[1].windows - row;
    if (!epilogue_) {
      take_back(sums, piece, output(args) + row * form_.columns, row);
      return 0;
    }
    char* behind = reinterpret_cast<char*>(sums) + sums_.bytes();
    auto* values = reinterpret_cast<float*>(behind);
    take_back(sums, piece, values, row);
    const TileRectangle where{row, rows, 0, form_.columns};
    return epilogue_->run(args, values, where, form_.columns, behind + values_);
  }

  // Points become results; `to` begins with pixel `first` of all.
  void take_back(const float* sums, const Piece& piece, float* to, int64_t first) const {
    WinogradLine call;
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

  static constexpr int64_t kPieceBytes = int64_t{384} << 10, kLeastTiles = 32;

  const WinogradTiles tiles_;
  const WinogradForm& form_;
  ProductMatrices matrices_;
  int64_t points_;                                  // of a tile, both axes
  size_t a_at_, b_at_, outputs_at_, workspace_at_;  // numbers of arguments
  WinogradInstruction transform_weights_, transform_results_;
  PointProductsInstruction multiply_;
  bool reports_status_;
  std::optional<ProductEpilogue> epilogue_;
  int64_t lines_of_piece_ = 1, pieces_ = 1;
  int blocks_ = 1;
  PointMatrices kernels_, input_, sums_, turned_;
  size_t values_ = 0, scratch_ = 0;  // bytes of a block
};

std::optional<WinogradForm> form_of(const AnchoredNode& node) {
  if (!node.is_product() || !node.why_no_matrices().empty()) return std::nullopt;
  return winograd_form(node.matrices(), node.anchor().input(0).dtype());
}

}  // namespace

bool has_winograd_form(const AnchoredNode& node) { return form_of(node).has_value(); }

Support supports_winograd(const AnchoredNode& node) {
  for (size_t i = 0; i < node.anchor().inputs().size(); ++i) {
    if (!node.source(i) || node.has_prologue(i)) {
      return {false, "transformed tiles of a convolution are made of operands as they are stored"};
    }
  }
  return supports_epilogue(node, instruction_lookup(), make_softmax_rows);
}

KernelPlan plan_winograd(const AnchoredNode& node, bool saturate_f16) {
  const WinogradForm form = *form_of(node);
  if (form.sums_windows) return plan_winograd_weights(node, form, saturate_f16);
  return plan_of(std::make_unique<WinogradKernel>(node, form, saturate_f16),
                 "transformed tiles of " + results_of_tile(form));
}

}  // namespace keel::vector
