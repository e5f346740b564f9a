// Attention in blocks: some queries of one head against its keys, block of keys after block,
// forward and backward, so that scores exist for one pair of blocks at a time. Products of f32 with
// f32 sums; f16 and bf16 are widened when they are loaded. Queries lie along the lanes, so a
// query gets the same beside any others, but for values that are not finite: what one query of a
// call does not see has the weight 0 in its sums. Looked up once; calling neither allocates nor
// throws; any thread.
//
// The order of operations follows from the sizes alone: a score is summed over the features, a
// result over the keys of a block, and blocks, which begin at multiples of kAttentionKeys, are
// added up in their order.
#ifndef KEEL_BACKENDS_COMMON_VECTOR_ATTENTION_H
#define KEEL_BACKENDS_COMMON_VECTOR_ATTENTION_H

#include <cstddef>
#include <cstdint>

#include "keel/core/base/dtype.h"
#include "keel/core/base/export.h"

namespace keel::vector {

inline constexpr size_t kAttentionQueries = 64;  // the most that one call takes
inline constexpr size_t kAttentionKeys = 64;     // of a block

// The arguments of both directions. Rows lie together: [queries, features], [keys, features],
// [keys, outputs].
struct AttentionBlock {
  const void* queries = nullptr;  // the first of the call
  const void* keys = nullptr;     // key 0 of the head
  const void* values = nullptr;
  DType dtype = f32;  // of these three, and of the upstream gradient
  size_t features = 0, outputs = 0;
  size_t query_count = 0;
  int64_t key_begin = 0, key_end = 0;  // begins at a multiple of kAttentionKeys
  float scale = 1;
  // The first query sees the keys before this one, each following query one more; may be negative.
  bool causal = false;
  int64_t keys_before = 0;
  // Null, or the first query's look at key 0, and the steps to the next query and key.
  const bool* mask = nullptr;
  int64_t mask_query_step = 0, mask_key_step = 0;
  void* scratch = nullptr;  // aligned to floats
};

struct AttentionForwardCall : AttentionBlock {
  void* result = nullptr;  // [queries, outputs]
  DType result_dtype = f32;
  float* largest = nullptr;  // [queries]
  float* total = nullptr;
};

struct AttentionBackwardCall : AttentionBlock {
  const void* result = nullptr;
  DType result_dtype = f32;
  const void* upstream = nullptr;  // [queries, outputs]
  const float* largest = nullptr;
  const float* total = nullptr;
  void* dq = nullptr;  // written: the part of the keys in range
  DType dq_dtype = f32;
  float* dk = nullptr;  // of key_begin, added to
  float* dv = nullptr;
};

using AttentionForward = void (*)(const AttentionForwardCall& call);
using AttentionBackward = void (*)(const AttentionBackwardCall& call);
// For the host ISA in use.
KEEL_API AttentionForward find_attention_forward();
KEEL_API AttentionBackward find_attention_backward();

// Bytes of scratch that a call needs.
KEEL_API size_t attention_forward_scratch(size_t features, size_t outputs);
KEEL_API size_t attention_backward_scratch(size_t features, size_t outputs);

}  // namespace keel::vector

#endif  // KEEL_BACKENDS_COMMON_VECTOR_ATTENTION_H
