#include "keel/backends/common/cube/cube_taps.h"

#include <algorithm>

namespace keel {

CubeTaps::CubeTaps(const WindowRows& windows) : windows_(windows) {
  const WindowRows::Axis& across = axes()[1];
  for (int64_t tap = 0; tap < across.taps; ++tap) {
    Inside& inside = across_.emplace_back(Inside{0, across.windows});
    while (inside.begin < inside.end && !across.inside(across.position(inside.begin, tap)))
      ++inside.begin;
    while (inside.begin < inside.end && !across.inside(across.position(inside.end - 1, tap)))
      --inside.end;
  }
}

std::shared_ptr<const CubeTaps> CubeTaps::of(const CubePlan& plan) {
  const CubeProblem& p = plan.problem;
  const size_t rows = plan.kernels->tap_rows;
  if (!p.a_windows || !p.transpose_a || rows == 0) return {};
  if (p.a != f32 || p.b != f32 || p.round_to != f32 || p.transpose_b || p.b_windows) return {};
  if (static_cast<size_t>(p.a_windows->channels) % rows != 0) return {};
  return std::make_shared<const CubeTaps>(CubeTaps(*p.a_windows));
}

size_t CubeTaps::place_of(size_t row) const { return row % rows_of_tap(); }

size_t CubeTaps::list_runs(size_t tap, size_t first, size_t count, TapRun* runs) const {
  const auto& [down, across] = axes();
  const auto number = static_cast<int64_t>(tap);
  const int64_t tap_down = number / across.taps, tap_across = number % across.taps;
  const Inside& inside = across_[static_cast<size_t>(tap_across)];
  const auto window = static_cast<int64_t>(first), end = window + static_cast<int64_t>(count);
  int64_t line = window / across.windows;
  int64_t image = line / down.windows, i = line % down.windows;
  size_t listed = 0;
  for (; line * across.windows < end; ++line) {
    const int64_t before = line * across.windows;
    const int64_t from = std::max(before + inside.begin, window);
    const int64_t length = std::min(before + inside.end, end) - from;
    const int64_t y = down.position(i, tap_down);
    if (length > 0 && down.inside(y)) {
      const auto at =
          static_cast<size_t>(image * windows_.image_pitch + y * down.pitch +
                              across.position(from - before, tap_across) * across.pitch);
      const auto k = static_cast<size_t>(from - window);
      TapRun* last = listed == 0 ? nullptr : runs + listed - 1;
      if (last != nullptr && k == last->k + last->length &&
          at == last->at + last->length * k_step())
        last->length += static_cast<size_t>(length);
      else
        runs[listed++] = {at, k, static_cast<size_t>(length)};
    }
    if (++i < down.windows) continue;
    i = 0;
    ++image;
  }
  return listed;
}

size_t CubeTaps::windows_at_once(size_t columns) const {
  constexpr size_t kBytes = size_t{20} << 10, kLeast = 32, kMost = 128;
  const size_t of_window = (k_step() + columns) * sizeof(float);
  return std::clamp(kBytes / of_window, kLeast, kMost);
}

}  // namespace keel
