#include "keel/ops/products/winograd.h"

#include <algorithm>
#include <array>
#include <span>

namespace keel {
namespace {

// Fewer channels make products so short that the transforms cost more than they save.
constexpr int64_t kLeastChannels = 12;

// A line of tiles is brought at once: where it has more bytes than this, caches do not keep it.
constexpr int64_t kMostBytesOfALine = int64_t{8} << 20;

// Sums over fewer tiles cost less than the way back from their points, and those of more channels
// than this leave no room in the caches for tiles: in bytes of all points.
constexpr int64_t kLeastSummedTiles = 48;
constexpr int64_t kMostBytesOfSums = int64_t{4} << 20;

// Results of a tile, down and across. The larger ones save up to 7 of 16 multiplications with 3
// taps, a third with 5.
using ResultsOfTile = std::array<int64_t, 2>;
constexpr ResultsOfTile kTilesOf3Taps[] = {{2, 2}, {4, 4}}, kTilesOf5Taps[] = {{2, 2}, {2, 4}};

std::span<const ResultsOfTile> results_of_tiles(int64_t taps) {
  if (taps == 3) return kTilesOf3Taps;
  return kTilesOf5Taps;
}

bool slides_by_one(const WindowRows::Axis& axis, int64_t taps) {
  return axis.taps == taps && axis.step == 1 && axis.tap_step == 1;
}

// Windows that a tap is inside of the images in, summed over taps: only these are terms of a sum
// over windows.
int64_t terms_inside(const WindowRows::Axis& axis) {
  int64_t terms = 0;
  for (int64_t tap = 0; tap < axis.taps; ++tap) {
    const int64_t first = axis.position(0, tap);
    terms += std::max<int64_t>(
        0, std::min(axis.windows, axis.size - first) - std::max<int64_t>(0, -first));
  }
  return terms;
}

WinogradForm::Weights weights_of(const ProductMatrices::Operand& b, int64_t taps, int64_t depth) {
  if (!b.windows) {
    return {
        .row = taps * depth * b.stride, .column = depth * b.stride, .depth = b.stride, .across = 1};
  }
  const auto& [tap, across] = b.windows->axes;
  const int64_t pitch = tap.tap_step * tap.pitch;
  return {.start = tap.first * tap.pitch,
          .row = taps * pitch,
          .column = pitch,
          .depth = 1,
          .across = across.pitch};
}

// Multiplications of an image, for each channel and column. Tiles at its end are whole ones.
int64_t multiplications(const WinogradForm& form) {
  return form.tiles[0] * form.tiles[1] * form.points();
}

// Returns the form with tiles of so many results, where these are worth computing.
std::optional<WinogradForm> with_tiles(WinogradForm form, const ResultsOfTile& outputs) {
  const auto& axes = form.windows.axes;
  form.outputs = outputs;
  for (size_t i = 0; i < 2; ++i) form.tiles[i] = (axes[i].windows + outputs[i] - 1) / outputs[i];
  const int64_t by_terms = form.sums_windows
                               ? terms_inside(axes[0]) * terms_inside(axes[1])
                               : axes[0].windows * axes[1].windows * form.taps * form.taps;
  if (4 * multiplications(form) > 3 * by_terms) return std::nullopt;
  const int64_t points = form.tiles[1] * form.points();
  if (points > kMostBytesOfALine / 4 / (form.channels + form.columns)) return std::nullopt;
  if (form.sums_windows) {
    if (form.lines() * form.tiles[1] < kLeastSummedTiles ||
        form.points() * form.channels > kMostBytesOfSums / 4 / form.columns) {
      return std::nullopt;
    }
  }
  return form;
}

}  // namespace

std::optional<WinogradForm> winograd_form(const ProductMatrices& p, DType dtype) {
  if (!(dtype == f32 || dtype == f16 || dtype == bf16)) return std::nullopt;
  if (p.direct || !p.a.windows || p.batch.size() != 1) return std::nullopt;
  WinogradForm form;
  form.sums_windows = p.a.transposed;
  form.parts = p.parts;
  form.windows = *p.a.windows;
  const auto& [down, across] = form.windows.axes;
  form.taps = across.taps;
  if (form.taps != 3 && form.taps != 5) return std::nullopt;
  if (!slides_by_one(down, form.taps) || !slides_by_one(across, form.taps)) return std::nullopt;
  const int64_t pixels = down.windows * across.windows;
  form.images = form.sums_windows ? p.k / p.parts / pixels : p.m / pixels;
  form.channels = form.windows.channels;
  form.columns = p.n;
  if (std::min(form.channels, form.columns) < kLeastChannels || p.c_stride != p.n) {
    return std::nullopt;
  }
  if (!form.sums_windows) form.weights = weights_of(p.b, form.taps, form.channels);
  std::optional<WinogradForm> best;
  for (const ResultsOfTile& outputs : results_of_tiles(form.taps)) {
    const auto other = with_tiles(form, outputs);
    if (other && (!best || multiplications(*other) < multiplications(*best))) best = other;
  }
  return best;
}

}  // namespace keel
