// VectorCall: one vector instruction over contiguous elements: what tile programs are made of. Each
// backend that runs them brings its own instructions, looked up by op name and dtypes when a
// program is compiled.
#ifndef KEEL_BACKENDS_COMMON_VECTOR_CALL_H
#define KEEL_BACKENDS_COMMON_VECTOR_CALL_H

#include <cstddef>
#include <cstdint>

namespace keel {

// REQUIRES: dst and every source hold n elements (a scalar source one) at addresses aligned to
// their element; dst is disjoint from each source or begins at the same address with the same
// element size. Nothing outside is touched.
struct VectorCall {
  void* dst = nullptr;
  const void* src[3] = {nullptr, nullptr, nullptr};
  bool scalar[3] = {false, false, false};  // the source is one element, used for all
  size_t n = 0;
  // The result is larger than the caches: stores may pass them by. The caller orders such stores
  // before handing the result on (a sequentially consistent fence does).
  bool streams = false;
  uint32_t* status = nullptr;  // where saturating instructions leave their sticky bit; may be null
};

using VectorInstruction = void (*)(const VectorCall& call);

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_VECTOR_CALL_H
