#include "keel/backends/common/vector/pool_gradient.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "keel/backends/common/vector/pool_gradient.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

#include "keel/backends/common/vector/host_isa.h"

HWY_BEFORE_NAMESPACE();
namespace keel::vector::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// The taps of a window that lie on the image: [begin, end).
struct Taps {
  int64_t begin, end, first;  // `first`: the position of tap 0
};

HWY_INLINE Taps taps_of(const MaxGradientCall& call, int64_t window) {
  const int64_t first = window * call.stride - call.low;
  return {std::max<int64_t>(0, -first), std::min(call.taps, call.in - first), first};
}

// Channels [c, c + lanes of D) of one window.
template <class D>
HWY_INLINE void give(D d, const MaxGradientCall& call, const Taps& taps, size_t c,
                     const float* dy) {
  const hn::RebindToSigned<D> di;
  const auto at = [&](const float* line, int64_t tap) HWY_ATTR {
    return line + static_cast<size_t>(taps.first + tap) * call.channels + c;
  };
  auto largest = hn::LoadU(d, at(call.lines[0], taps.begin));
  auto place = hn::Zero(di);
  const auto of_a_line = static_cast<int32_t>(taps.end - taps.begin);
  int32_t number = 0;
  for (size_t l = 0; l < call.line_count; ++l) {
    for (int64_t t = taps.begin; t < taps.end; ++t, ++number) {
      const auto x = hn::LoadU(d, at(call.lines[l], t));
      const auto wins = hn::Or(x > largest, hn::AndNot(hn::IsNaN(largest), hn::IsNaN(x)));
      largest = hn::IfThenElse(wins, x, largest);
      place = hn::IfThenElse(hn::RebindMask(di, wins), hn::Set(di, number), place);
    }
  }
  const auto gradient = hn::LoadU(d, dy);
  int32_t given = static_cast<int32_t>(call.given) * of_a_line;
  float* line = call.dx + static_cast<size_t>(taps.first + taps.begin) * call.channels + c;
  for (size_t l = 0; l < call.given_count; ++l) {
    float* to = line;
    for (int64_t t = taps.begin; t < taps.end; ++t, ++given, to += call.channels) {
      const auto chosen = hn::RebindMask(d, place == hn::Set(di, given));
      const auto before = call.writes ? hn::Zero(d) : hn::LoadU(d, to);
      hn::StoreU(before + hn::IfThenElseZero(chosen, gradient), d, to);
    }
    line += static_cast<size_t>(call.in) * call.channels;
  }
}

void max_gradient(const MaxGradientCall& call) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  const size_t lanes = hn::Lanes(d);
  for (int64_t j = 0; j < call.windows; ++j) {
    const Taps taps = taps_of(call, j);
    const float* dy = call.dy + static_cast<size_t>(j) * call.channels;
    size_t c = 0;
    for (; c + lanes <= call.channels; c += lanes) give(d, call, taps, c, dy + c);
    for (; c < call.channels; ++c) give(one, call, taps, c, dy + c);
  }
}

}  // namespace

MaxGradientInstruction max_gradient_here() { return &max_gradient; }

}  // namespace keel::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace keel::vector {

HWY_EXPORT(max_gradient_here);

MaxGradientInstruction find_max_gradient() {
  host_isa();
  return HWY_DYNAMIC_DISPATCH(max_gradient_here)();
}

}  // namespace keel::vector
#endif
