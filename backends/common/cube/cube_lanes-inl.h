// In the kernels for tall-skinny products each lane of a vector holds one element along k
// (FloatLanes), or two (PairLanes, cube_pairs-inl.h). Included once per Highway target.
//
// Lanes have
//   Element, kDepth     how operands are stored; how many elements along k a lane holds
//   kConverts           whether loading is work, so that it should not be done twice
//   along(from)         kFloatLanes * kDepth elements of k, of one row or column
//   along_part(from, n) the first n of them, the others zero; n > 0
//   across(from, next)  kFloatLanes rows or columns side by side at one k, and at the next if
//   kDepth
//                       is 2
//   across_last(from)   the same where there is no next
//   multiply_add(a, b, sum)
#if defined(KEEL_BACKENDS_COMMON_CUBE_CUBE_LANES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef KEEL_BACKENDS_COMMON_CUBE_CUBE_LANES_INL_H
#undef KEEL_BACKENDS_COMMON_CUBE_CUBE_LANES_INL_H
#else
#define KEEL_BACKENDS_COMMON_CUBE_CUBE_LANES_INL_H
#endif

#include <type_traits>

#include "hwy/highway.h"

#include "keel/backends/common/cube/cube_kernels.h"
#include "keel/backends/common/vector/loaders-inl.h"

HWY_BEFORE_NAMESPACE();
namespace keel::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace hv = vector::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using LaneVec = hn::Vec<FloatTag>;  // of 32-bit lanes, whatever they hold
constexpr size_t kFloatLanes = hn::MaxLanes(FloatTag());
constexpr size_t kNarrowStride = kNarrowColumns;  // of the tiles handed to finish_tile

template <class Loader>
struct FloatLanes {
  using Element = typename Loader::Element;
  static constexpr size_t kDepth = 1;
  static constexpr bool kConverts = !std::is_same_v<Loader, hv::FloatLoader>;

  HWY_INLINE LaneVec along(const Element* from) const { return loader.load(FloatTag(), from); }
  HWY_INLINE LaneVec along_part(const Element* from, size_t count) const {
    return hv::load_part(loader, FloatTag(), from, count);
  }
  HWY_INLINE LaneVec across(const Element* from, const Element*) const { return along(from); }
  HWY_INLINE LaneVec across_last(const Element* from) const { return along(from); }
  static HWY_INLINE LaneVec multiply_add(LaneVec a, LaneVec b, LaneVec sum) {
    return hn::MulAdd(a, b, sum);
  }

  Loader loader;
};

inline FloatLanes<hv::FloatLoader> plain_floats() { return {hv::FloatLoader(nullptr)}; }

}  // namespace keel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // KEEL_BACKENDS_COMMON_CUBE_CUBE_LANES_INL_H
