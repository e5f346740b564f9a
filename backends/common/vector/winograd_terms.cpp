#include "keel/backends/common/vector/winograd_terms.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "keel/backends/common/vector/winograd_tiles.h"
#include "keel/core/base/checked.h"

namespace keel::vector {
namespace {

constexpr int64_t kImagesOfAByte = 8;

bool all_met(const uint8_t* met, size_t count) { return std::memchr(met, 0, count) == nullptr; }

}  // namespace

WinogradTerms::WinogradTerms(const WinogradForm& form)
    : windows_(form.windows),
      columns_(form.columns),
      images_(form.images),
      groups_((form.images + kImagesOfAByte - 1) / kImagesOfAByte),
      mark_(find_nonzero_marks()),
      find_common_(find_common_marks()) {
  const auto& [down, across] = windows_.axes;
  image_ = down.size * across.size * windows_.channels;
  result_ = down.windows * across.windows * columns_;
  right_at_ = align_up(static_cast<size_t>(groups_ * image_), kWinogradAlignment);
  right_bytes_ =
      align_up(static_cast<size_t>(groups_ * result_) + kMarksBehind, kWinogradAlignment);
}

size_t WinogradTerms::scratch_bytes() const {
  return align_up(static_cast<size_t>(columns_) + kMarksBehind, kWinogradAlignment);
}

void WinogradTerms::bring(const float* images, const float* upstream, int64_t group,
                          uint8_t* bits) const {
  const int64_t first = group * kImagesOfAByte;
  NonzeroMarks call;
  call.images = static_cast<size_t>(std::min(kImagesOfAByte, images_ - first));
  call.first = images + first * windows_.image_pitch;
  call.step = windows_.image_pitch;
  call.count = static_cast<size_t>(image_);
  call.to = bits + group * image_;
  mark_(call);
  call.first = upstream + first * result_;
  call.step = result_;
  call.count = static_cast<size_t>(result_);
  call.to = bits + right_at_ + static_cast<size_t>(group * result_);
  mark_(call);
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
  CommonMarks call;
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

}  // namespace keel::vector
