#include "keel/backends/common/products/phased_product_kernel.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "keel/backends/common/cube/cube.h"
#include "keel/backends/common/float_status.h"
#include "keel/backends/common/product_epilogue.h"
#include "keel/backends/common/products/operand_load.h"
#include "keel/backends/common/products/padded_images.h"
#include "keel/backends/common/products/prepacked_weight.h"
#include "keel/backends/common/products/product_result.h"
#include "keel/backends/common/products/work_of_block.h"
#include "keel/backends/common/vector/element_kernels.h"
#include "keel/backends/common/vector/softmax_rows.h"
#include "keel/backends/common/window_copy.h"
#include "keel/core/base/checked.h"
#include "keel/core/base/parallel_for.h"
#include "keel/core/tensor/buffer.h"
#include "keel/ops/products/product_phases.h"

namespace keel {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);
constexpr int64_t kMostPhasedBlocks = 32;
// Bytes of the sums that are computed at a time, so that they stay in the second cache: of whole
// images, of which the copy of dy has no more bytes either, or of lines of one image.
constexpr int64_t kStripBytes = int64_t{128} << 10;

// A row of C, which has few columns: calls of the library would take longer than it.
void copy_row(const float* from, size_t columns, float* to) {
  constexpr size_t kAtOnce = 16;
  size_t done = 0;
  for (; done + kAtOnce <= columns; done += kAtOnce)
    std::memcpy(to + done, from + done, kAtOnce * sizeof(float));
  for (; done < columns; ++done) to[done] = from[done];
}

class PhasedKernel final : public Kernel {
 public:
  PhasedKernel(const AnchoredNode& fused, bool saturate_f16)
      : images_(fused.anchor().type().shape),
        outputs_at_(fused.node().inputs().size()),
        workspace_at_(outputs_at_ + fused.node().types().size()),
        result_(fused, images_[3], saturate_f16) {
    for (const ProductPhase& phase : product_phases(fused.anchor())) add_phase(fused, phase);
    a_at_ = fused.source(phases_.front().geometry.matrices.a.input).value();
    b_at_ = fused.source(phases_.front().geometry.matrices.b.input).value();
    share_copy();
    // The phases together have all pixels, and each writes its own, but for one without taps, whose
    // pixels stay cleared. Sums that are copied to their pixels, a stride apart, are written to
    // lines that clearing has brought to the caches; kernels that write pixels prefetch their lines
    // themselves. Copied are those of pairs and tiles of bf16, and of rows of dy that lie in one
    // set of the first cache.
    clears_ = std::any_of(phases_.begin(), phases_.end(), [](const Phase& phase) {
      return !phase.has_taps() || !phase.writes_pixels();
    });
    cut_strips();
    lay_out_scratch();
  }

  // A program passes no argument for a workspace of 0 bytes, so there is always one.
  size_t workspace_bytes() const {
    return std::max(Buffer::kAlignment, packed_ + static_cast<size_t>(blocks_) * scratch_);
  }
  bool reports_status() const { return result_.reports_status(); }
  std::vector<KernelPlan::InPlace> in_place() const { return result_.in_place(); }
  int phases() const override { return 2; }
  int blocks(int) const override { return blocks_; }

  void run(void* const* args, int phase, int block) const override {
    char* scratch = workspace(args) + packed_ + static_cast<size_t>(block) * scratch_;
    if (phase == 0) return pack_weights(args, block, scratch);
    uint32_t status = 0;
    for (int64_t i = strips_ * block / blocks_; i < strips_ * (block + 1) / blocks_; ++i)
      status |= compute(args, strip(i), scratch);
    if (reports_status()) raise_float_status(args[workspace_at_ + 1], status);
  }

 private:
  struct Phase {
    ProductPhase geometry;
    CubePlan plan;        // of a product with taps; B is packed
    size_t packed = 0;    // where in the workspace B of the first group is
    size_t of_group = 0;  // bytes from there to that of the next one
    bool has_taps() const { return geometry.matrices.k > 0; }
    // Says whether its sums are written where its pixels lie; else they are copied there.
    bool writes_pixels() const { return cube_places_lines(plan); }
    int64_t line() const { return geometry.pixels.axes[1].windows; }  // its rows
  };
  // Lines [first, first + lines) of some images, or all lines of several.
  struct Strip {
    int64_t image = 0, images = 0;
    int64_t line = 0, lines = 0;
  };

  int64_t height() const { return images_[1]; }
  int64_t line_elements() const { return images_[2] * channels(); }
  int64_t channels() const { return images_[3]; }
  char* workspace(void* const* args) const { return static_cast<char*>(args[workspace_at_]); }

  void add_phase(const AnchoredNode& fused, const ProductPhase& geometry) {
    Phase& phase = phases_.emplace_back(Phase{geometry, {}, packed_, 0});
    if (!phase.has_taps()) return;
    CubeProblem problem = cube_problem(fused, geometry.matrices);
    // The taps of a phase are brought together before they are packed.
    problem.b_windows.reset();
    problem.packed_b = true;
    element_size_ = size_of(problem.a);
    phase.plan = plan_cube(problem);
    phase.of_group = align_up(cube_packed_bytes(phase.plan), Buffer::kAlignment);
    packed_ += phase.of_group * geometry.matrices.batch.size();
    work_ +=
        static_cast<int64_t>(problem.m * problem.n * problem.k * geometry.matrices.batch.size());
  }

  // Lets the windows of all phases lie on one padded copy of dy, which a strip makes once, if those
  // of any phase are padded. The copy is of floats: kernels that copy windows by themselves, widen
  // their elements as they do, or take 16-bit elements have no use for it.
  void share_copy() {
    std::vector<WindowRows> windows;
    for (const Phase& phase : phases_) {
      if (!phase.has_taps()) continue;
      if (!cube_multiplies_images(phase.plan)) return;
      windows.push_back(*phase.geometry.matrices.a.windows);
    }
    if (windows.empty()) return;
    const PaddedImages results(windows);
    if (!results.has_padding()) return;
    for (Phase& phase : phases_) {
      if (!phase.has_taps()) continue;
      CubeProblem problem = phase.plan.problem;
      problem.a_windows = results.over_copy(*phase.geometry.matrices.a.windows);
      phase.plan = cube_over(phase.plan, problem);
    }
    results_ = results;
  }

  // Into whole images, or lines of one: all phases of a strip read the same part of dy.
  void cut_strips() {
    const int64_t line_bytes = line_elements() * kFloatBytes;
    const int64_t image_bytes = line_bytes * height();
    const int64_t copied_bytes = results_ ? results_->place(1, 0) * kFloatBytes : 0;
    const int64_t worth = std::clamp<int64_t>(
        std::min<int64_t>(compute_threads(), work_ / kWorkOfABlock), 1, kMostPhasedBlocks);
    const int64_t share = (images_[0] + worth - 1) / worth;
    images_of_strip_ =
        std::clamp<int64_t>(kStripBytes / std::max(image_bytes, copied_bytes), 1, share);
    lines_of_strip_ = height();
    if (image_bytes > 2 * kStripBytes) {
      const int64_t step = phases_.front().geometry.pixels.axes[0].step;
      const int64_t lines = kStripBytes / line_bytes / step * step;
      lines_of_strip_ = std::clamp(lines, std::min(step, height()), height());
    }
    strips_of_image_ = (height() + lines_of_strip_ - 1) / lines_of_strip_;
    strips_ = (images_[0] + images_of_strip_ - 1) / images_of_strip_ * strips_of_image_;
    blocks_ = static_cast<int>(std::min(worth, strips_));
  }

  Strip strip(int64_t number) const {
    const int64_t image = number / strips_of_image_ * images_of_strip_;
    const int64_t line = number % strips_of_image_ * lines_of_strip_;
    return {image, std::min(images_of_strip_, images_[0] - image), line,
            std::min(lines_of_strip_, height() - line)};
  }

  // A block's part of the workspace, or before for the taps that are packed.
  void lay_out_scratch() {
    size_t taps = 0;
    for (const Phase& phase : phases_) {
      if (!phase.has_taps()) continue;
      const CubeProblem& p = phase.plan.problem;
      taps = std::max(taps, p.n * p.k * size_of(p.b));
      const Rows rows = most_rows(phase);
      const auto count = static_cast<size_t>(rows.end - rows.begin);
      lines_ = std::max(lines_, count / static_cast<size_t>(phase.line()) * sizeof(size_t));
      cube_scratch_ = std::max(cube_scratch_, cube_scratch_bytes(phase.plan, count, p.n));
      if (phase.writes_pixels()) continue;
      sums_ = std::max(sums_, cube_piece_elements(phase.plan, count, p.n) * sizeof(float));
    }
    cube_scratch_ = align_up(cube_scratch_, Buffer::kAlignment);
    sums_ = align_up(sums_, Buffer::kAlignment);
    lines_ = align_up(lines_, Buffer::kAlignment);
    if (results_) copy_ = align_up(most_copied_elements() * sizeof(float), Buffer::kAlignment);
    const auto rows = static_cast<size_t>(images_of_strip_ * lines_of_strip_ * images_[2]);
    if (!result_.is_sums())
      values_ =
          align_up(rows * static_cast<size_t>(channels()) * sizeof(float), Buffer::kAlignment);
    behind_ = result_.scratch_bytes(static_cast<int64_t>(rows));
    scratch_ = std::max(cube_scratch_ + sums_ + values_ + behind_ + lines_ + copy_,
                        align_up(taps, Buffer::kAlignment));
  }
  // Both lie behind all else in a block's part.
  float* copy_in(char* scratch) const {
    return reinterpret_cast<float*>(scratch + scratch_ - copy_);
  }
  size_t* lines_in(char* scratch) const {
    return reinterpret_cast<size_t*>(scratch + scratch_ - copy_ - lines_);
  }
  size_t most_copied_elements() const {
    int64_t lines = 0;
    for (int64_t i = 0; i < strips_of_image_; ++i)
      lines = std::max(lines, copied_part(strip(i)).lines);
    return static_cast<size_t>(images_of_strip_ * lines * results_->line_elements());
  }

  // The block's share of all right operands.
  void pack_weights(void* const* args, int block, char* scratch) const {
    const auto groups = static_cast<int64_t>(phases_.front().geometry.matrices.batch.size());
    const int64_t all = static_cast<int64_t>(phases_.size()) * groups;
    for (int64_t i = all * block / blocks_; i < all * (block + 1) / blocks_; ++i) {
      const Phase& phase = phases_[static_cast<size_t>(i / groups)];
      const auto group = static_cast<size_t>(i % groups);
      if (!phase.has_taps()) continue;
      const CubeProblem& p = phase.plan.problem;
      const ProductMatrices& matrices = phase.geometry.matrices;
      const char* from = static_cast<const char*>(args[b_at_]) +
                         static_cast<size_t>(matrices.batch[group].b) * size_of(p.b);
      const MatrixPart whole{0, matrices.n, 0, matrices.k};
      copy_windows(*matrices.b.windows, from, size_of(p.b), whole, scratch, p.k);
      cube_pack(phase.plan, scratch, p.k, {0, p.k, 0, p.n}, packed(args, phase, group));
    }
  }
  char* packed(void* const* args, const Phase& phase, size_t group) const {
    return workspace(args) + phase.packed + group * phase.of_group;
  }

  // Returns the part of the padded copy of dy that the windows of a strip reach.
  PaddedImages::Part copied_part(const Strip& strip) const {
    PaddedImages::Part part{strip.image, strip.images, 0, results_->lines()};
    if (strip.lines == height()) return part;
    int64_t begin = part.lines, end = 0;
    for (const Phase& phase : phases_) {
      const Rows rows = rows_of(phase, {0, 1, strip.line, strip.lines});
      if (!phase.has_taps() || rows.begin >= rows.end) continue;
      const auto& down = phase.plan.problem.a_windows->axes[0];
      begin = std::min(begin, down.position(rows.begin / phase.line(), 0));
      end = std::max(end, down.position(rows.end / phase.line() - 1, down.taps - 1) + 1);
    }
    part.line = std::min(begin, end);
    part.lines = end - part.line;
    return part;
  }

  // Rows of a phase's C.
  struct Rows {
    int64_t begin = 0, end = 0;
  };
  static Rows rows_of(const Phase& phase, const Strip& strip) {
    const WindowRows::Axis& down = phase.geometry.pixels.axes[0];
    const auto before = [&](int64_t line) {  // lines of the phase
      return std::clamp<int64_t>((line - down.first + down.step - 1) / down.step, 0, down.windows);
    };
    const int64_t last = strip.image + strip.images - 1;
    return {(strip.image * down.windows + before(strip.line)) * phase.line(),
            (last * down.windows + before(strip.line + strip.lines)) * phase.line()};
  }
  // As many as a strip has at most.
  Rows most_rows(const Phase& phase) const {
    const auto& [down, across] = phase.geometry.pixels.axes;
    const int64_t lines = std::min(down.windows, (lines_of_strip_ + down.step - 1) / down.step);
    return {0, images_of_strip_ * lines * across.windows};
  }

  uint32_t compute(void* const* args, const Strip& strip, char* scratch) const {
    const int64_t row = (strip.image * height() + strip.line) * images_[2];
    const int64_t rows = strip.images * strip.lines * images_[2];
    float* to = result_.is_sums() ? static_cast<float*>(args[outputs_at_]) + row * channels()
                                  : reinterpret_cast<float*>(scratch + cube_scratch_ + sums_);
    // Element 0 of the images, were all of them there.
    float* const images = to - row * channels();
    if (clears_) std::memset(to, 0, static_cast<size_t>(rows * channels()) * sizeof(float));
    for (size_t group = 0; group < phases_.front().geometry.matrices.batch.size(); ++group) {
      const void* results = bring_results(args, group, strip, scratch);
      for (const Phase& phase : phases_)
        multiply(args, phase, group, rows_of(phase, strip), results, images, scratch);
    }
    if (result_.is_sums()) return 0;
    return result_.finish(args, to, {row, rows, 0, channels()},
                          scratch + cube_scratch_ + sums_ + values_);
  }

  // Returns where the group's part of dy begins: that of the copy for this strip, if there is one.
  const void* bring_results(void* const* args, size_t group, const Strip& strip,
                            char* scratch) const {
    const auto start = static_cast<size_t>(phases_.front().geometry.matrices.batch[group].a);
    const char* stored = static_cast<const char*>(args[a_at_]) + start * element_size_;
    if (!results_) return stored;
    const PaddedImages::Part part = copied_part(strip);
    float* copy = copy_in(scratch);
    results_->copy(stored, element_size_, part, copy);
    // This is where line 0 of the first image would be.
    return copy - results_->place(part.image, part.line);
  }

  void multiply(void* const* args, const Phase& phase, size_t group, const Rows& rows,
                const void* results, float* images, char* scratch) const {
    if (rows.begin >= rows.end || !phase.has_taps()) return;
    const ProductMatrices& matrices = phase.geometry.matrices;
    const ProductMatrices::Starts& at = matrices.batch[group];
    const CubeRange all{static_cast<size_t>(rows.begin), static_cast<size_t>(rows.end), 0,
                        static_cast<size_t>(matrices.n)};
    CubeArgs cube;
    cube.a = results;
    cube.b = packed(args, phase, group);
    if (phase.writes_pixels()) {
      size_t* lines = lines_in(scratch);
      for (int64_t row = rows.begin; row < rows.end; row += phase.line())
        *lines++ = static_cast<size_t>(phase.geometry.place_of(row));
      cube.c = images + at.c;
      cube.c_stride = static_cast<size_t>(matrices.c_stride);
      cube.c_row = all.m0;
      cube.c_lines = lines_in(scratch);
      return cube_block(phase.plan, cube, all, scratch);
    }
    auto* sums = reinterpret_cast<float*>(scratch + cube_scratch_);
    cube_pieces(phase.plan, cube, all, scratch, sums,
                [&](const CubeRange& piece) { store(phase, piece, sums, images + at.c); });
  }

  // A piece of C to its pixels.
  static void store(const Phase& phase, const CubeRange& piece, const float* sums, float* images) {
    const auto& [down, across] = phase.geometry.pixels.axes;
    const size_t columns = piece.n1 - piece.n0;
    const int64_t step = across.step * across.pitch, to_next_line = down.step * down.pitch;
    auto left = static_cast<int64_t>(piece.m1 - piece.m0);
    const int64_t line = static_cast<int64_t>(piece.m0) / across.windows;
    int64_t i = line % down.windows, j = static_cast<int64_t>(piece.m0) % across.windows;
    float* to = images + phase.geometry.place_of(static_cast<int64_t>(piece.m0)) + piece.n0;
    for (float* at = to; left > 0; at = to) {
      const int64_t count = std::min(across.windows - j, left);
      for (int64_t r = 0; r < count; ++r, at += step, sums += columns) copy_row(sums, columns, at);
      left -= count;
      to += to_next_line - j * step;
      j = 0;
      if (++i < down.windows) continue;
      i = 0;
      to += phase.geometry.pixels.image_pitch - down.windows * to_next_line;
    }
  }

  Shape images_;
  size_t a_at_ = 0, b_at_ = 0, outputs_at_, workspace_at_;  // numbers of arguments
  ProductResult result_;
  std::vector<Phase> phases_;
  size_t element_size_ = sizeof(float);  // of dy
  std::optional<PaddedImages> results_;  // dy as all phases read it, where it is copied
  bool clears_ = false;                  // the pixels of a strip before they are written
  int64_t work_ = 0;                     // multiply-adds
  int64_t images_of_strip_ = 1, lines_of_strip_ = 1, strips_of_image_ = 1, strips_ = 1;
  int blocks_ = 1;
  // Bytes: of all packed operands, and behind them of a block.
  size_t packed_ = 0, cube_scratch_ = 0, sums_ = 0, values_ = 0, behind_ = 0, lines_ = 0, copy_ = 0;
  size_t scratch_ = 0;
};

}  // namespace

bool has_phases(const AnchoredNode& fused) { return why_no_phases(fused.anchor()).empty(); }

Support supports_phases(const AnchoredNode& fused) {
  const DType dtype = fused.anchor().input(0).dtype();
  if (dtype != f32 && dtype != f16 && dtype != bf16) {
    return {false,
            std::string("the cube has no ") + name_of(dtype) + "; it multiplies f32, f16 and bf16"};
  }
  for (size_t i = 0; i < fused.anchor().inputs().size(); ++i) {
    const auto source = fused.source(i);
    if (source && fused.has_prologue(i) && fused.stored(i).dtype() == u8)
      return {false, "phases of a stride are multiplied of floats alone"};
    if (Support s = supports_load(fused, i); !s.supported) return s;
  }
  if (!fused.row_wise().empty()) return {false, "rows of the images are those of several phases"};
  return supports_epilogue(fused, vector::instruction_lookup(), vector::make_softmax_rows);
}

KernelPlan plan_phases(const AnchoredNode& fused, bool saturate_f16) {
  return plan_of(std::make_unique<PhasedKernel>(fused, saturate_f16));
}

}  // namespace keel
