// Softmax of rows with at most 16 columns: blocks of rows are transposed, so that a vector holds
// one column of many rows and every lane works. Included once per Highway target.
#if defined(KEEL_BACKENDS_NPU_ISA_SOFTMAX_NARROW_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef KEEL_BACKENDS_NPU_ISA_SOFTMAX_NARROW_INL_H
#undef KEEL_BACKENDS_NPU_ISA_SOFTMAX_NARROW_INL_H
#else
#define KEEL_BACKENDS_NPU_ISA_SOFTMAX_NARROW_INL_H
#endif

#include <algorithm>

#include "hwy/highway.h"

#include "keel/backends/npu/isa/cube_load-inl.h"
#include "keel/backends/npu/isa/softmax.h"
#include "keel/backends/npu/isa/transpose-inl.h"
#include "keel/backends/npu/isa/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace keel::npu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using BlockVec = hn::Vec<BlockTag>;
constexpr size_t kNarrowColumns = 16;

// kBlockSide rows as columns: column[c] holds element c of each row; absent rows are zero.
HWY_INLINE void load_columns(const float* from, size_t stride, size_t rows, size_t cols,
                             BlockVec* column) {
  const BlockTag d;
  const FloatLoader loader(nullptr);
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

HWY_INLINE void store_part(BlockVec v, float* to, size_t count) {
  const BlockTag d;
#if HWY_TARGET <= HWY_AVX2
  hn::BlendedStore(v, hn::FirstN(d, count), d, to);
#else
  float lanes[hn::MaxLanes(BlockTag())];
  hn::StoreU(v, d, lanes);
  std::memcpy(to, lanes, count * sizeof(float));
#endif
}

HWY_INLINE void store_columns(BlockVec* column, size_t rows, size_t cols, float* to,
                              size_t stride) {
  const BlockTag d;
  for (size_t c = 0; c < cols; c += kBlockSide) {
    const size_t count = std::min(kBlockSide, cols - c);
    transpose_block(column + c);
    for (size_t r = 0; r < rows; ++r) {
      float* at = to + r * stride + c;
      count == kBlockSide ? hn::StoreU(column[c + r], d, at) : store_part(column[c + r], at, count);
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
  BlockVec column[kNarrowColumns];
  for (size_t r = 0; r < call.rows; r += kBlockSide) {
    const size_t rows = std::min(kBlockSide, call.rows - r);
    load_columns(call.src + r * call.stride, call.stride, rows, call.cols, column);
    shift_by_maximum(column, call.cols);
    const BlockVec sum = exponentials(column, call.cols, column);
    const BlockVec inverse = hn::Set(d, 1.0f) / sum;
    for (size_t c = 0; c < call.cols; ++c) column[c] = column[c] * inverse;
    store_columns(column, rows, call.cols, call.dst + r * call.dst_stride, call.dst_stride);
  }
}

inline void log_softmax_narrow(const SoftmaxCall& call) {
  const BlockTag d;
  BlockVec column[kNarrowColumns], e[kNarrowColumns];
  for (size_t r = 0; r < call.rows; r += kBlockSide) {
    const size_t rows = std::min(kBlockSide, call.rows - r);
    load_columns(call.src + r * call.stride, call.stride, rows, call.cols, column);
    shift_by_maximum(column, call.cols);
    const BlockVec log_sum = log(d, exponentials(column, call.cols, e));
    for (size_t c = 0; c < call.cols; ++c) column[c] = column[c] - log_sum;
    store_columns(column, rows, call.cols, call.dst + r * call.dst_stride, call.dst_stride);
  }
}

// `label` gives the class of a row as int64.
template <class Labels>
void cross_entropy_narrow(const CrossEntropyCall& call, const Labels& label) {
  const BlockTag d;
  const hn::RebindToSigned<BlockTag> di;
  BlockVec column[kNarrowColumns], e[kNarrowColumns];
  HWY_ALIGN int32_t classes[kBlockSide] = {};
  const float spread = call.smoothing / static_cast<float>(call.cols);
  const BlockVec rest = hn::Set(d, spread), kept = hn::Set(d, 1.0f - call.smoothing);
  for (size_t r = 0; r < call.rows; r += kBlockSide) {
    const size_t rows = std::min(kBlockSide, call.rows - r);
    for (size_t i = 0; i < rows; ++i) classes[i] = static_cast<int32_t>(label(r + i));
    load_columns(call.logits + r * call.stride, call.stride, rows, call.cols, column);
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
      e[c] = (e[c] * inverse - q) * hn::Set(d, call.scale);
    }
    if (call.loss != nullptr) {
      BlockVec loss = log(d, sum) - kept * at_label;
      if (call.smoothing != 0.0f) loss = loss - rest * total;
      rows == kBlockSide ? hn::StoreU(loss, d, call.loss + r)
                         : store_part(loss, call.loss + r, rows);
    }
    if (call.gradient != nullptr) {
      store_columns(e, rows, call.cols, call.gradient + r * call.gradient_stride,
                    call.gradient_stride);
    }
  }
}

}  // namespace keel::npu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // KEEL_BACKENDS_NPU_ISA_SOFTMAX_NARROW_INL_H
