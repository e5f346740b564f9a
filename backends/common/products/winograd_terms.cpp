#include "keel/backends/common/products/winograd_terms.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "keel/backends/common/products/winograd_tiles.h"
#include "keel/core/base/checked.h"

namespace keel {
namespace {

constexpr int64_t kImagesOfAByte = 8;
constexpr int64_t kBroughtAtOnce = 512;  // elements of an image

bool all_met(const uint8_t* met, size_t count) { return std::memchr(met, 0, count) == nullptr; }

}  // namespace

WinogradTerms::WinogradTerms(const WinogradForm& form)
    : windows_(form.windows),
      columns_(form.columns),
      images_(form.images),
      groups_((form.images + kImagesOfAByte - 1) / kImagesOfAByte),
      mark_(vector::find_nonzero_marks()),
      find_common_(vector::find_common_marks()) {
  const auto& [down, across] = windows_.axes;
  image_ = down.size * across.size * windows_.channels;
  result_ = down.windows * across.windows * columns_;
  right_at_ = align_up(static_cast<size_t>(groups_ * image_), kWinogradAlignment);
  right_bytes_ =
      align_up(static_cast<size_t>(groups_ * result_) + vector::kMarksBehind, kWinogradAlignment);
}

size_t WinogradTerms::scratch_bytes() const {
  return align_up(static_cast<size_t>(columns_) + vector::kMarksBehind, kWinogradAlignment);
}

size_t WinogradTerms::bring_bytes() {
  return static_cast<size_t>(kImagesOfAByte * kBroughtAtOnce) * sizeof(float);
}

void WinogradTerms::mark(const Elements& elements, int64_t group, int64_t step, int64_t count,
                         uint8_t* to, float* scratch) const {
  const int64_t first = group * kImagesOfAByte;
  vector::NonzeroMarks call;
  call.images = static_cast<size_t>(std::min(kImagesOfAByte, images_ - first));
  call.largest_zero = elements.operand.largest_zero();
  if (elements.operand.is_stored_float()) {
    call.first = static_cast<const float*>(elements.from) + first * step;
    call.step = step;
    call.count = static_cast<size_t>(count);
    call.to = to;
    return mark_(call);
  }
  call.first = scratch;
  call.step = kBroughtAtOnce;
  for (int64_t at = 0; at < count; at += kBroughtAtOnce) {
    const int64_t some = std::min(kBroughtAtOnce, count - at);
    for (size_t i = 0; i < call.images; ++i) {
      const auto image = static_cast<int64_t>(i);
      elements.operand.bring(elements.from, (first + image) * step + at, some,
                             scratch + image * kBroughtAtOnce);
    }
    call.count = static_cast<size_t>(some);
    call.to = to + at;
    mark_(call);
  }
}

void WinogradTerms::bring(const Elements& images, const Elements& upstream, int64_t group,
                          uint8_t* bits, float* scratch) const {
  mark(images, group, windows_.image_pitch, image_, bits + group * image_, scratch);
  mark(upstream, group, result_, result_, bits + right_at_ + static_cast<size_t>(group * result_),
       scratch);
}

WinogradTerms::Inside WinogradTerms::inside(const WindowRows::Axis& axis, int64_t tap) {
  const int64_t first = axis.position(0, tap);
  const int64_t begin = std::clamp<int64_t>(-first, 0, axis.windows);
  return {begin, std::clamp<int64_t>(axis.size - first, begin, axis.windows)};
}

void WinogradTerms::clear_row(const uint8_t* bits, int64_t tap, int64_t channel, float* values,
                              uint8_t* scratch) const {
  const auto& [down, across] = windows_.axes;
  const int64_t tap_down = tap / across.taps, tap_across = tap % across.taps;
  const Inside lines = inside(down, tap_down), line = inside(across, tap_across);
  const auto columns = static_cast<size_t>(columns_);
  std::memset(scratch, 0, columns);
  vector::CommonMarks call;
  call.left_step = windows_.channels;
  call.right_step = call.columns = columns;
  call.count = static_cast<size_t>(line.end - line.begin);
  call.common = scratch;
  // Begins with a line in the middle, where images have more to show than at their edges.
  const int64_t count = lines.end - lines.begin;
  bool passes_zeros = false;
  for (int64_t i = 0; call.count != 0 && i < groups_ * count; ++i) {
    const int64_t group = i / count, y = lines.begin + (i + count / 2) % count;
    const int64_t position =
        down.position(y, tap_down) * across.size + across.position(line.begin, tap_across);
    call.left = bits + group * image_ + position * windows_.channels + channel;
    call.right = bits + right_at_ + group * result_ + (y * across.windows + line.begin) * columns_;
    find_common_(call);
    if (all_met(scratch, columns)) return;
    if (passes_zeros) continue;
    for (size_t j = 0; j < columns; ++j)
      if (values[j] == 0) scratch[j] = 1;
    passes_zeros = true;
  }
  for (size_t j = 0; j < columns; ++j)
    if (scratch[j] == 0 && std::isfinite(values[j])) values[j] = 0;
}

}  // namespace keel
