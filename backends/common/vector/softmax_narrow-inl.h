// Softmax of f32 rows with at most 16 columns: blocks of rows are transposed, so that a vector
// holds one column of many rows and every lane works. Included once per Highway target.
#if defined(KEEL_BACKENDS_COMMON_VECTOR_SOFTMAX_NARROW_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef KEEL_BACKENDS_COMMON_VECTOR_SOFTMAX_NARROW_INL_H
#undef KEEL_BACKENDS_COMMON_VECTOR_SOFTMAX_NARROW_INL_H
#else
#define KEEL_BACKENDS_COMMON_VECTOR_SOFTMAX_NARROW_INL_H
#endif

#include <algorithm>

#include "hwy/highway.h"

#include "keel/backends/common/vector/loaders-inl.h"
#include "keel/backends/common/vector/math-inl.h"
#include "keel/backends/common/vector/softmax.h"
#include "keel/backends/common/vector/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace keel::vector::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using BlockVec = hn::Vec<BlockTag>;
constexpr size_t kNarrowColumns = 16;

// kBlockSide rows as columns: column[c] holds element c of each row; absent rows are zero.
HWY_INLINE void load_columns(const float* from, size_t stride, size_t rows, size_t cols,
                             BlockVec* column) {
  const BlockTag d;
  const FloatLoader loader;
  for (size_t c = 0; c < cols; c += kBlockSide) {
    const size_t count = std::min(kBlockSide, cols - c);
    for (size_t r = 0; r < kBlockSide; ++r) {
      const float* at = from + r * stride + c;
      if (r >= rows) {
        column[c + r] = hn::Zero(d);
      } else {
        column[c + r] = count == kBlockSide ? hn::LoadU(d, at) : load_part(loader, d, at, count);
      }
    }
    transpose_block(column + c);
  }
}

HWY_INLINE void store_columns(BlockVec* column, size_t rows, size_t cols, float* to,
                              size_t stride) {
  const BlockTag d;
  for (size_t c = 0; c < cols; c += kBlockSide) {
    const size_t count = std::min(kBlockSide, cols - c);
    transpose_block(column + c);
    for (size_t r = 0; r < rows; ++r) {
      float* at = to + r * stride + c;
      count == kBlockSide ? hn::StoreU(column[c + r], d, at)
                          : store_part(d, column[c + r], at, count);
    }
  }
}

// Takes the rows' maxima off. A NaN anywhere in a row is its maximum.
HWY_INLINE void shift_by_maximum(BlockVec* column, size_t cols) {
  BlockVec top = column[0];
  for (size_t c = 1; c < cols; ++c) {
    top = hn::IfThenElse(hn::Or(top > column[c], hn::IsNaN(top)), top, column[c]);
  }
  for (size_t c = 0; c < cols; ++c) column[c] = column[c] - top;
}

HWY_INLINE BlockVec exponentials(const BlockVec* shifted, size_t cols, BlockVec* e) {
  const BlockTag d;
  BlockVec sum = hn::Zero(d);
  for (size_t c = 0; c < cols; ++c) {
    e[c] = exp(d, shifted[c]);
    sum = sum + e[c];
  }
  return sum;
}

inline void softmax_narrow(const SoftmaxCall& call) {
  const BlockTag d;
  const auto* from = static_cast<const float*>(call.src);
  auto* to = static_cast<float*>(call.dst);
  BlockVec column[kNarrowColumns];
  for (size_t r = 0; r < call.rows; r += kBlockSide) {
    const size_t rows = std::min(kBlockSide, call.rows - r);
    load_columns(from + r * call.stride, call.stride, rows, call.cols, column);
    shift_by_maximum(column, call.cols);
    const BlockVec sum = exponentials(column, call.cols, column);
    const BlockVec inverse = hn::Set(d, 1.0f) / sum;
    for (size_t c = 0; c < call.cols; ++c) column[c] = column[c] * inverse;
    store_columns(column, rows, call.cols, to + r * call.dst_stride, call.dst_stride);
  }
}

inline void log_softmax_narrow(const SoftmaxCall& call) {
  const BlockTag d;
  const auto* from = static_cast<const float*>(call.src);
  auto* to = static_cast<float*>(call.dst);
  BlockVec column[kNarrowColumns], e[kNarrowColumns];
  for (size_t r = 0; r < call.rows; r += kBlockSide) {
    const size_t rows = std::min(kBlockSide, call.rows - r);
    load_columns(from + r * call.stride, call.stride, rows, call.cols, column);
    shift_by_maximum(column, call.cols);
    const BlockVec log_sum = log(d, exponentials(column, call.cols, e));
    for (size_t c = 0; c < call.cols; ++c) column[c] = column[c] - log_sum;
    store_columns(column, rows, call.cols, to + r * call.dst_stride, call.dst_stride);
  }
}

// `label` gives the class of a row as int64.
template <class Labels>
void cross_entropy_narrow(const CrossEntropyCall& call, const Labels& label) {
  const BlockTag d;
  const hn::RebindToSigned<BlockTag> di;
  BlockVec column[kNarrowColumns], e[kNarrowColumns];
  HWY_ALIGN int32_t classes[kBlockSide] = {};
  const auto* logits = static_cast<const float*>(call.logits);
  auto* losses = static_cast<float*>(call.loss);
  auto* gradient = static_cast<float*>(call.gradient);
  const auto smoothing = static_cast<float>(call.smoothing);
  const BlockVec scale = hn::Set(d, static_cast<float>(call.scale));
  const BlockVec rest = hn::Set(d, smoothing / static_cast<float>(call.cols));
  const BlockVec kept = hn::Set(d, 1.0f - smoothing);
  for (size_t r = 0; r < call.rows; r += kBlockSide) {
    const size_t rows = std::min(kBlockSide, call.rows - r);
    for (size_t i = 0; i < rows; ++i) classes[i] = static_cast<int32_t>(label(r + i));
    load_columns(logits + r * call.stride, call.stride, rows, call.cols, column);
    shift_by_maximum(column, call.cols);
    const BlockVec sum = exponentials(column, call.cols, e);
    const BlockVec inverse = hn::Set(d, 1.0f) / sum;
    const auto wanted = hn::Load(di, classes);
    BlockVec at_label = hn::Zero(d), total = hn::Zero(d);
    for (size_t c = 0; c < call.cols; ++c) {
      const auto hit = hn::RebindMask(d, wanted == hn::Set(di, static_cast<int32_t>(c)));
      at_label = hn::IfThenElse(hit, column[c], at_label);
      total = total + column[c];
      const BlockVec q = rest + hn::IfThenElseZero(hit, kept);
      e[c] = (e[c] * inverse - q) * scale;
    }
    if (losses != nullptr) {
      BlockVec loss = log(d, sum) - kept * at_label;
      if (smoothing != 0.0f) loss = loss - rest * total;
      rows == kBlockSide ? hn::StoreU(loss, d, losses + r) : store_part(d, loss, losses + r, rows);
    }
    if (gradient != nullptr) {
      store_columns(e, rows, call.cols, gradient + r * call.gradient_stride, call.gradient_stride);
    }
  }
}

}  // namespace keel::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // KEEL_BACKENDS_COMMON_VECTOR_SOFTMAX_NARROW_INL_H
