#include "keel/backends/common/vector/attention.h"

#include <algorithm>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "keel/backends/common/vector/attention.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

#include "keel/backends/common/vector/small_product-inl.h"
#include "keel/backends/common/vector/half_codec-inl.h"
#include "keel/backends/common/vector/host_isa.h"
#include "keel/backends/common/vector/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace keel::vector::HWY_NAMESPACE {
namespace {

using FloatTag = hn::ScalableTag<float>;
using Floats = hn::Vec<FloatTag>;

// Elements from one row of a block to the next: of what has queries along its rows, and of rows of
// features or outputs that are padded to whole vectors.
constexpr size_t kRow = kAttentionQueries;
constexpr size_t padded(size_t columns) { return (columns + 15) / 16 * 16; }
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLowest = std::numeric_limits<float>::lowest();

// Takes arrays of floats from a call's scratch, one behind the other.
class Scratch {
 public:
  explicit Scratch(void* base) : next_(static_cast<float*>(base)) {}
  float* take(size_t count) {
    float* taken = next_;
    next_ += padded(count);
    return taken;
  }

 private:
  float* next_;
};

// Returns `count` elements as f32, from `from` on: where they are, or widened in `room`.
HWY_INLINE const float* as_floats(const void* base, DType dtype, size_t from, size_t count,
                                  float* room) {
  if (dtype == f32) return static_cast<const float*>(base) + from;
  const auto* halves = static_cast<const uint16_t*>(base) + from;
  if (dtype == f16)
    HalfCodec::widen(halves, count, room);
  else
    BFloat16Codec::widen(halves, count, room);
  return room;
}

HWY_INLINE void narrow(const float* from, size_t count, DType dtype, void* to) {
  if (dtype == f16)
    HalfCodec::narrow<false>(from, count, static_cast<uint16_t*>(to));
  else
    BFloat16Codec::narrow<false>(from, count, static_cast<uint16_t*>(to));
}

// to[:, f] for each row: queries along the lanes, those that are not there zero.
HWY_INLINE void load_turned(const float* rows, size_t count, size_t columns, float* to) {
  if (count < kRow) {
    for (size_t j = 0; j < columns; ++j)
      std::fill(to + j * kRow + count, to + (j + 1) * kRow, 0.0f);
  }
  turn(rows, columns, count, columns, to, kRow);
}

// [columns, queries] back to rows of the result's dtype.
HWY_INLINE void store_turned(const float* from, size_t count, size_t columns, DType dtype, void* to,
                             float* room) {
  float* rows = dtype == f32 ? static_cast<float*>(to) : room;
  turn(from, kRow, columns, count, rows, columns);
  if (dtype != f32) narrow(rows, count * columns, dtype, to);
}

// Multiplies each row of [rows, queries] by a number for each query.
HWY_INLINE void scale_queries(float* x, size_t rows, size_t vectors, const float* factors) {
  const FloatTag d;
  const size_t lanes = hn::Lanes(d);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t v = 0; v < vectors; ++v) {
      float* at = x + r * kRow + v * lanes;
      hn::StoreU(hn::LoadU(d, at) * hn::LoadU(d, factors + v * lanes), d, at);
    }
  }
}

// The products of a call: what its queries see of one block of keys.
struct KeyBlock {
  size_t begin, count;
  const float *keys, *values;
};

class Blocks {
 public:
  explicit Blocks(const AttentionBlock& call)
      : call_(call),
        vectors_((call.query_count + hn::Lanes(FloatTag()) - 1) / hn::Lanes(FloatTag())) {}

  size_t vectors() const { return vectors_; }
  size_t lanes() const { return vectors_ * hn::Lanes(FloatTag()); }
  // Returns the end of the keys that any of the queries may see.
  int64_t key_end() const {
    if (!call_.causal) return call_.key_end;
    const int64_t seen = call_.keys_before + static_cast<int64_t>(call_.query_count) - 1;
    return std::clamp(seen, call_.key_begin, std::max(call_.key_begin, call_.key_end));
  }

  // scores[key, query] = -infinity where the query may not look. `seen` collects whether a query
  // saw anything, if it is not null.
  void hide(const KeyBlock& block, float* scores, bool* seen) const {
    if (call_.causal) hide_causal(block, scores);
    if (call_.mask != nullptr) hide_masked(block, scores, seen);
  }

 private:
  // Returns how many of the queries, from the first, may not look at a key.
  size_t hidden(int64_t key) const {
    if (!call_.causal) return 0;
    return static_cast<size_t>(
        std::clamp<int64_t>(key - call_.keys_before + 1, 0, static_cast<int64_t>(kRow)));
  }
  void hide_causal(const KeyBlock& block, float* scores) const {
    for (size_t j = 0; j < block.count; ++j) {
      const size_t count = std::min(lanes(), hidden(static_cast<int64_t>(block.begin + j)));
      std::fill(scores + j * kRow, scores + j * kRow + count, -kInfinity);
    }
  }
  void hide_masked(const KeyBlock& block, float* scores, bool* seen) const {
    const bool* mask = call_.mask + static_cast<int64_t>(block.begin) * call_.mask_key_step;
    for (size_t i = 0; i < call_.query_count; ++i) {
      const bool* row = mask + static_cast<int64_t>(i) * call_.mask_query_step;
      bool any = false;
      for (size_t j = 0; j < block.count; ++j, row += call_.mask_key_step) {
        float& score = scores[j * kRow + i];
        const bool shown = *row;
        score = shown ? score : -kInfinity;
        any = any || (shown && i >= hidden(static_cast<int64_t>(block.begin + j)));
      }
      if (seen != nullptr) seen[i] = seen[i] || any;
    }
  }

  const AttentionBlock& call_;
  size_t vectors_;
};

// ---- forward

// The exponentials of a block's scores, over them, and what they change of the running maximum and
// sum: `rescale` is what the results so far have to be multiplied by. Returns whether it is 1
// everywhere.
HWY_INLINE bool exponentials(float* scores, size_t keys, size_t vectors, float* largest,
                             float* total, float* rescale) {
  const FloatTag d;
  const size_t lanes = hn::Lanes(d);
  const auto one = hn::Set(d, 1.0f);
  bool same = true;
  for (size_t v = 0; v < vectors; ++v) {
    float* column = scores + v * lanes;
    const Floats before = hn::LoadU(d, largest + v * lanes);
    Floats top = before;
    for (size_t j = 0; j < keys; ++j) top = hn::Max(hn::LoadU(d, column + j * kRow), top);
    const Floats factor = exp(d, before - top);
    Floats sum = hn::LoadU(d, total + v * lanes) * factor;
    Floats added = hn::Zero(d);
    for (size_t j = 0; j < keys; ++j) {
      const Floats e = exp(d, hn::LoadU(d, column + j * kRow) - top);
      hn::StoreU(e, d, column + j * kRow);
      added = added + e;
    }
    hn::StoreU(top, d, largest + v * lanes);
    hn::StoreU(sum + added, d, total + v * lanes);
    hn::StoreU(factor, d, rescale + v * lanes);
    same = same && hn::AllTrue(d, factor == one);
  }
  return same;
}

void attention_forward(const AttentionForwardCall& call) {
  const Blocks blocks(call);
  const size_t features = call.features, outputs = call.outputs, count = call.query_count;
  Scratch scratch(call.scratch);
  float* queries = scratch.take(features * kRow);
  float* sums = scratch.take(outputs * kRow);
  float* scores = scratch.take(kAttentionKeys * kRow);
  float* wide_rows = scratch.take(features * kRow);
  float* wide_values = scratch.take(outputs * kRow);
  HWY_ALIGN float largest[kRow], total[kRow], factors[kRow];
  bool seen[kRow] = {};
  std::fill_n(largest, kRow, kLowest);
  std::fill_n(total, kRow, 0.0f);
  std::fill_n(factors, kRow, call.scale);
  std::fill_n(sums, outputs * kRow, 0.0f);
  load_turned(as_floats(call.queries, call.dtype, 0, count * features, wide_rows), count, features,
              queries);
  scale_queries(queries, features, blocks.vectors(), factors);
  const auto end = static_cast<size_t>(blocks.key_end());
  for (auto at = static_cast<size_t>(call.key_begin); at < end; at += kAttentionKeys) {
    KeyBlock block{at, std::min(kAttentionKeys, end - at), nullptr, nullptr};
    block.keys = as_floats(call.keys, call.dtype, at * features, block.count * features, wide_rows);
    block.values =
        as_floats(call.values, call.dtype, at * outputs, block.count * outputs, wide_values);
    multiply<false>({block.keys, features, 1, queries, kRow, scores, kRow, block.count,
                     blocks.lanes(), features});
    blocks.hide(block, scores, seen);
    const bool same = exponentials(scores, block.count, blocks.vectors(), largest, total, factors);
    if (!same && at != static_cast<size_t>(call.key_begin))
      scale_queries(sums, outputs, blocks.vectors(), factors);
    multiply<true>(
        {block.values, 1, outputs, scores, kRow, sums, kRow, outputs, blocks.lanes(), block.count});
  }
  for (size_t i = 0; i < kRow; ++i) factors[i] = 1.0f / total[i];
  scale_queries(sums, outputs, blocks.vectors(), factors);
  for (size_t i = 0; i < count; ++i) {
    const bool before = !call.causal || call.keys_before + static_cast<int64_t>(i) > 0;
    const bool any = call.mask != nullptr ? seen[i] : before && call.key_end > 0;
    for (size_t o = 0; !any && o < outputs; ++o) sums[o * kRow + i] = 0;
    call.largest[i] = largest[i];
    call.total[i] = total[i];
  }
  store_turned(sums, count, outputs, call.result_dtype, call.result, wide_values);
}

// ---- backward

// A query's numbers from the forward call: the largest score, one over the sum, and the mean of the
// slopes, sum(upstream * result).
struct Rows {
  HWY_ALIGN float largest[kRow];
  HWY_ALIGN float inverse[kRow];
  HWY_ALIGN float mean[kRow];
};

void load_rows(const AttentionBackwardCall& call, const float* upstream, const float* result,
               size_t vectors, Rows& rows) {
  const FloatTag d;
  const size_t lanes = hn::Lanes(d);
  std::fill_n(rows.largest, kRow, 0.0f);
  std::fill_n(rows.inverse, kRow, 0.0f);
  for (size_t i = 0; i < call.query_count; ++i) {
    rows.largest[i] = call.largest[i];
    // Nothing to look at: all weights are 0.
    rows.inverse[i] = call.total[i] == 0 ? 0 : 1.0f / call.total[i];
  }
  for (size_t v = 0; v < vectors; ++v) {
    Floats sum = hn::Zero(d);
    for (size_t o = 0; o < call.outputs; ++o) {
      const size_t at = o * kRow + v * lanes;
      sum = hn::MulAdd(hn::LoadU(d, upstream + at), hn::LoadU(d, result + at), sum);
    }
    hn::StoreU(sum, d, rows.mean + v * lanes);
  }
}

// scores become weights, and slopes of the weights slopes of the scores. A weight of 0 passes
// nothing.
HWY_INLINE void weigh(float* scores, float* slopes, size_t keys, size_t vectors, const Rows& rows) {
  const FloatTag d;
  const size_t lanes = hn::Lanes(d);
  for (size_t v = 0; v < vectors; ++v) {
    const Floats largest = hn::Load(d, rows.largest + v * lanes);
    const Floats inverse = hn::Load(d, rows.inverse + v * lanes);
    const Floats mean = hn::Load(d, rows.mean + v * lanes);
    for (size_t j = 0; j < keys; ++j) {
      const size_t at = j * kRow + v * lanes;
      const Floats weight = exp(d, hn::LoadU(d, scores + at) - largest) * inverse;
      const Floats slope = weight * (hn::LoadU(d, slopes + at) - mean);
      hn::StoreU(weight, d, scores + at);
      hn::StoreU(hn::IfThenZeroElse(weight == hn::Zero(d), slope), d, slopes + at);
    }
  }
}

// Rows of `columns`, padded with zeros to whole vectors.
HWY_INLINE void pad_rows(const float* from, size_t rows, size_t columns, float factor, float* to) {
  const size_t row = padded(columns);
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) to[i * row + j] = from[i * columns + j] * factor;
    std::fill(to + i * row + columns, to + (i + 1) * row, 0.0f);
  }
}

void attention_backward(const AttentionBackwardCall& call) {
  const Blocks blocks(call);
  const size_t features = call.features, outputs = call.outputs, count = call.query_count;
  Scratch scratch(call.scratch);
  float* queries = scratch.take(features * kRow);  // scaled, along the lanes, and in rows
  float* query_rows = scratch.take(padded(features) * kRow);
  float* upstream = scratch.take(outputs * kRow);
  float* upstream_rows = scratch.take(padded(outputs) * kRow);
  float* dq = scratch.take(features * kRow);
  float* weights = scratch.take(kAttentionKeys * kRow);
  float* slopes = scratch.take(kAttentionKeys * kRow);
  float* wide_rows = scratch.take(features * kRow);
  float* wide_values = scratch.take(outputs * kRow);
  float* result = scratch.take(outputs * kRow);
  HWY_ALIGN float factors[kRow];
  Rows rows;
  std::fill_n(factors, kRow, call.scale);
  {
    const float* q = as_floats(call.queries, call.dtype, 0, count * features, wide_rows);
    load_turned(q, count, features, queries);
    pad_rows(q, count, features, call.scale, query_rows);
    scale_queries(queries, features, blocks.vectors(), factors);
    const float* y = as_floats(call.result, call.result_dtype, 0, count * outputs, wide_values);
    load_turned(y, count, outputs, result);
    const float* g = as_floats(call.upstream, call.dtype, 0, count * outputs, wide_values);
    load_turned(g, count, outputs, upstream);
    pad_rows(g, count, outputs, 1.0f, upstream_rows);
    load_rows(call, upstream, result, blocks.vectors(), rows);
  }
  std::fill_n(dq, features * kRow, 0.0f);
  const auto begin = static_cast<size_t>(call.key_begin);
  const auto end = static_cast<size_t>(blocks.key_end());
  for (size_t at = begin; at < end; at += kAttentionKeys) {
    KeyBlock block{at, std::min(kAttentionKeys, end - at), nullptr, nullptr};
    block.keys = as_floats(call.keys, call.dtype, at * features, block.count * features, wide_rows);
    block.values =
        as_floats(call.values, call.dtype, at * outputs, block.count * outputs, wide_values);
    multiply<false>({block.keys, features, 1, queries, kRow, weights, kRow, block.count,
                     blocks.lanes(), features});
    blocks.hide(block, weights, nullptr);
    multiply<false>({block.values, outputs, 1, upstream, kRow, slopes, kRow, block.count,
                     blocks.lanes(), outputs});
    weigh(weights, slopes, block.count, blocks.vectors(), rows);
    multiply<true>({weights, kRow, 1, upstream_rows, padded(outputs),
                    call.dv + (at - begin) * outputs, outputs, block.count, outputs, count});
    multiply<true>({slopes, kRow, 1, query_rows, padded(features),
                    call.dk + (at - begin) * features, features, block.count, features, count});
    multiply<true>(
        {block.keys, 1, features, slopes, kRow, dq, kRow, features, blocks.lanes(), block.count});
  }
  scale_queries(dq, features, blocks.vectors(), factors);
  store_turned(dq, count, features, call.dq_dtype, call.dq, wide_rows);
}

}  // namespace

AttentionForward attention_forward_here() { return &attention_forward; }
AttentionBackward attention_backward_here() { return &attention_backward; }

}  // namespace keel::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace keel::vector {
namespace {

// Returns the bytes of an array with so many columns, padded to whole vectors, for all queries.
constexpr size_t row_bytes(size_t columns) {
  return (columns + 15) / 16 * 16 * kAttentionQueries * sizeof(float);
}

}  // namespace

HWY_EXPORT(attention_forward_here);
HWY_EXPORT(attention_backward_here);

AttentionForward find_attention_forward() {
  host_isa();
  return HWY_DYNAMIC_DISPATCH(attention_forward_here)();
}
AttentionBackward find_attention_backward() {
  host_isa();
  return HWY_DYNAMIC_DISPATCH(attention_backward_here)();
}

size_t attention_forward_scratch(size_t features, size_t outputs) {
  return 2 * row_bytes(features) + 2 * row_bytes(outputs) + row_bytes(kAttentionKeys);
}
size_t attention_backward_scratch(size_t features, size_t outputs) {
  return 4 * row_bytes(features) + 4 * row_bytes(outputs) + 2 * row_bytes(kAttentionKeys);
}

}  // namespace keel::vector
#endif
