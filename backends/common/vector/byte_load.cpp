// Loads bytes as the floats that they count as.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "keel/backends/common/vector/byte_load.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

#include "keel/backends/common/vector/byte_operand.h"
#include "keel/backends/common/vector/float_loop-inl.h"
#include "keel/backends/common/vector/loaders-inl.h"

HWY_BEFORE_NAMESPACE();
namespace keel::vector::HWY_NAMESPACE {
namespace {

struct LoadAll {
  const uint8_t* from;
  size_t count;
  float* to;
  template <class Loader>
  HWY_INLINE void operator()(const Loader& loader) const {
    const hn::ScalableTag<float> d;
    const size_t lanes = hn::Lanes(d);
    size_t i = 0;
    for (; i + lanes <= count; i += lanes) hn::StoreU(loader.load(d, from + i), d, to + i);
    if (i < count) store_rest(load_part(loader, d, from + i, count - i), to + i, count - i);
  }
};

void load_bytes(const ByteMap& map, const uint8_t* from, size_t count, float* to) {
  with_bytes(&map, LoadAll{from, count, to});
}

}  // namespace

ByteLoad byte_load() { return &load_bytes; }

}  // namespace keel::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace keel::vector {
HWY_EXPORT(byte_load);
ByteLoad find_byte_load() { return HWY_DYNAMIC_DISPATCH(byte_load)(); }
}  // namespace keel::vector
#endif
