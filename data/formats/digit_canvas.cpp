#include "keel/data/formats/digit_canvas.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "keel/data/formats/digit_canvas.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace keel::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
// Segments are short: more lanes would be idle.
using Tag = hn::CappedTag<float, 8>;
static_assert(DigitCanvas::kPitch >= DigitCanvas::kSide + 8 && DigitCanvas::kPitch % 8 == 0);

int clamped(float pixel) { return std::clamp(static_cast<int>(pixel), 0, DigitCanvas::kSide - 1); }

void add_segment(float* distance2, DigitCanvas::Box& drawn, Point a, Point b, float radius) {
  const Tag d;
  const float reach = radius + 0.5f;
  const float dx = b.x - a.x;
  const float dy = b.y - a.y;
  const float length2 = std::max(dx * dx + dy * dy, 1e-6f);
  const int left = clamped(std::min(a.x, b.x) - reach);
  const int right = clamped(std::max(a.x, b.x) + reach + 1);
  const int top = clamped(std::min(a.y, b.y) - reach);
  const int bottom = clamped(std::max(a.y, b.y) + reach + 1);
  drawn.left = std::min(drawn.left, left);
  drawn.right = std::max(drawn.right, right);
  drawn.top = std::min(drawn.top, top);
  drawn.bottom = std::max(drawn.bottom, bottom);
  const auto zero = hn::Zero(d), one = hn::Set(d, 1), ramp = hn::Iota(d, 0);
  const auto lanes = static_cast<int>(hn::Lanes(d));
  for (int y = top; y <= bottom; ++y) {
    const float py = static_cast<float>(y) - a.y;
    for (int x = left; x <= right; x += lanes) {
      const auto px = hn::Sub(hn::Add(ramp, hn::Set(d, static_cast<float>(x))), hn::Set(d, a.x));
      const auto projected = hn::Add(hn::Mul(px, hn::Set(d, dx)), hn::Set(d, py * dy));
      const auto along = hn::Min(hn::Max(hn::Div(projected, hn::Set(d, length2)), zero), one);
      const auto ex = hn::Sub(px, hn::Mul(along, hn::Set(d, dx)));
      const auto ey = hn::Sub(hn::Set(d, py), hn::Mul(along, hn::Set(d, dy)));
      float* at = distance2 + y * DigitCanvas::kPitch + x;
      const auto fresh = hn::Add(hn::Mul(ex, ex), hn::Mul(ey, ey));
      hn::StoreU(hn::Min(hn::LoadU(d, at), fresh), d, at);
    }
  }
}

void fill_box(float* ink, const float* distance2, const DigitCanvas::Box& box, float radius) {
  const Tag d;
  const float reach = radius + 0.5f;
  for (int y = box.top; y <= box.bottom; ++y) {
    for (int x = box.left; x <= box.right; x += static_cast<int>(hn::Lanes(d))) {
      const int at = y * DigitCanvas::kPitch + x;
      const auto squares = hn::LoadU(d, distance2 + at);
      const auto fresh = hn::Min(hn::Set(d, 1), hn::Sub(hn::Set(d, reach), hn::Sqrt(squares)));
      const auto inside = hn::Lt(squares, hn::Set(d, reach * reach));
      const auto inked = hn::Max(hn::LoadU(d, ink + at), hn::IfThenElseZero(inside, fresh));
      hn::StoreU(inked, d, ink + at);
    }
  }
}

void write_row(const float* ink, const uint8_t* randomness, float strength, float noise,
               uint8_t* out) {
  const Tag d;
  const hn::RebindToSigned<Tag> integers;
  const hn::Rebind<uint8_t, Tag> bytes;
  alignas(64) uint8_t row[DigitCanvas::kPitch] = {};
  std::memcpy(row, randomness, DigitCanvas::kSide);
  for (size_t x = 0; x < DigitCanvas::kSide; x += hn::Lanes(d)) {
    const auto drawn = hn::ConvertTo(d, hn::PromoteTo(integers, hn::LoadU(bytes, row + x)));
    const auto grain = hn::Sub(hn::Div(drawn, hn::Set(d, 255)), hn::Set(d, 0.5f));
    const auto value = hn::Add(hn::Mul(hn::Load(d, ink + x), hn::Set(d, strength)),
                               hn::Mul(grain, hn::Set(d, noise)));
    const auto shifted = hn::Add(value, hn::Set(d, 0.5f));
    const auto pixels = hn::Min(hn::Max(shifted, hn::Zero(d)), hn::Set(d, 255));
    hn::StoreU(hn::DemoteTo(bytes, hn::ConvertTo(integers, pixels)), bytes, row + x);
  }
  std::memcpy(out, row, DigitCanvas::kSide);
}

void write_rows(const float* ink, const uint8_t* randomness, float strength, float noise,
                uint8_t* out) {
  for (int y = 0; y < DigitCanvas::kSide; ++y) {
    const int first = y * DigitCanvas::kSide;
    write_row(ink + y * DigitCanvas::kPitch, randomness + first, strength, noise, out + first);
  }
}

}  // namespace
}  // namespace keel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace keel {

HWY_EXPORT(add_segment);
HWY_EXPORT(fill_box);
HWY_EXPORT(write_rows);

void DigitCanvas::add_segment(Point a, Point b, float radius) {
  HWY_DYNAMIC_DISPATCH(add_segment)(distance2_.data(), drawn_, a, b, radius);
}

void DigitCanvas::fill(float radius) {
  HWY_DYNAMIC_DISPATCH(fill_box)(ink_.data(), distance2_.data(), drawn_, radius);
  distance2_.fill(kFar);
  drawn_ = {};
}

void DigitCanvas::write(const std::array<uint8_t, kPixels>& randomness, float strength, float noise,
                        uint8_t* out) const {
  HWY_DYNAMIC_DISPATCH(write_rows)(ink_.data(), randomness.data(), strength, noise, out);
}

}  // namespace keel
#endif  // HWY_ONCE
