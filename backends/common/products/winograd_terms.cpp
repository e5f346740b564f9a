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

}  // namespace

WinogradTerms::WinogradTerms(const WinogradForm& form, int64_t most_channels)
    : windows_(form.windows),
      columns_(form.columns),
      images_(form.images),
      groups_((form.images + kImagesOfAByte - 1) / kImagesOfAByte),
      most_channels_(most_channels),
      mark_(vector::find_nonzero_marks()),
      find_common_(vector::find_common_marks()) {
  const auto& [down, across] = windows_.axes;
  image_ = down.size * across.size * windows_.channels;
  result_ = down.windows * across.windows * columns_;
  right_at_ = align_up(static_cast<size_t>(groups_ * image_), kWinogradAlignment);
  right_bytes_ =
      align_up(static_cast<size_t>(groups_ * result_) + vector::kMarksBehind, kWinogradAlignment);
}

size_t WinogradTerms::met_row() const {
  return align_up(static_cast<size_t>(columns_) + vector::kMarksBehind, kWinogradAlignment);
}
size_t WinogradTerms::scratch_bytes() const {
  return static_cast<size_t>(most_channels_) * met_row();
}

int64_t WinogradTerms::group_of(int64_t image) { return image / kImagesOfAByte; }

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

void WinogradTerms::clear(const uint8_t* bits, int64_t tap, const WinogradChannels& channels,
                          float* values, uint8_t* scratch) const {
  const WindowRows::Axis &down = windows_.axes[0], &across = windows_.axes[1];
  const int64_t tap_down = tap / across.taps, tap_across = tap % across.taps;
  const Inside lines = inside(down, tap_down), line = inside(across, tap_across);
  vector::CommonMarks call;
  call.left_step = windows_.channels;
  call.right_step = columns_;
  call.left_line = down.step * across.size * windows_.channels;
  call.right_line = across.windows * columns_;
  call.count = static_cast<size_t>(line.count());
  call.rows = static_cast<size_t>(channels.count());
  call.columns = static_cast<size_t>(columns_);
  call.common = scratch;
  call.common_row = met_row();
  std::memset(scratch, 0, call.rows * call.common_row);
  const auto each = [&](const auto& body) {
    for (size_t row = 0; row < call.rows; ++row)
      for (size_t j = 0; j < call.columns; ++j)
        body(values[row * call.columns + j], scratch[row * call.common_row + j]);
  };
  const auto find = [&](int64_t group, const Inside& some) {
    if (some.count() == 0) return false;
    const int64_t position =
        down.position(some.begin, tap_down) * across.size + across.position(line.begin, tap_across);
    call.left = bits + group * image_ + position * windows_.channels + channels.begin;
    call.right =
        bits + right_at_ + group * result_ + (some.begin * across.windows + line.begin) * columns_;
    call.lines = static_cast<size_t>(some.count());
    return find_common_(call);
  };
  // Begins with a line in the middle, where images have more to show than at their edges.
  const int64_t middle = lines.begin + lines.count() / 2;
  const bool has_terms = lines.count() > 0 && line.count() > 0;
  for (int64_t group = 0; has_terms && group < groups_; ++group) {
    int64_t from = middle;
    if (group == 0) {
      if (find(group, {from, from + 1})) return;
      ++from;
      each([](float value, uint8_t& met) { met = value == 0 ? 1 : met; });
    }
    if (find(group, {from, lines.end}) || find(group, {lines.begin, middle})) return;
  }
  each([](float& value, uint8_t met) { value = met == 0 && std::isfinite(value) ? 0 : value; });
}

}  // namespace keel
