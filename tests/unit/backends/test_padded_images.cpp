// A padded copy of images that several matrices of windows share: each finds the elements that it
// finds over the images, and reaches beyond no copy.
#include <algorithm>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/common/products/padded_images.h"

#include "drawn_steps_for_tests.h"

namespace keel {
namespace {

using testing::Draws;

// Some matrices over the same images, which differ in their windows.
std::vector<WindowRows> draw_matrices(Draws& draws) {
  WindowRows images;
  images.channels = draws.integer(1, 9);
  for (auto& axis : images.axes) axis.size = draws.integer(1, 9);
  images.axes[1].pitch = images.channels * draws.integer(1, 2);
  images.axes[0].pitch = images.axes[1].size * images.axes[1].pitch + draws.integer(0, 3);
  images.image_pitch = images.axes[0].size * images.axes[0].pitch + draws.integer(0, 5);
  std::vector<WindowRows> matrices(static_cast<size_t>(draws.integer(1, 4)), images);
  for (WindowRows& matrix : matrices) {
    for (auto& axis : matrix.axes) {
      axis.windows = draws.integer(1, 7);
      axis.taps = draws.integer(1, 4);
      axis.step = draws.integer(1, 3);
      axis.tap_step = draws.integer(1, 3);
      axis.first = draws.integer(-4, 4);
    }
  }
  return matrices;
}

// The element of a window's tap, which is zero beyond the image.
float element(const WindowRows& w, const float* images, int64_t image, const int64_t (&window)[2],
              const int64_t (&tap)[2], int64_t channel) {
  int64_t at = image * w.image_pitch + channel;
  for (size_t i = 0; i < 2; ++i) {
    const int64_t position = w.axes[i].position(window[i], tap[i]);
    if (position < 0 || position >= w.axes[i].size) return 0;
    at += position * w.axes[i].pitch;
  }
  return images[at];
}

template <class F>
void for_each_tap(const WindowRows& w, const F& f) {
  for (int64_t i = 0; i < w.axes[0].windows; ++i) {
    for (int64_t j = 0; j < w.axes[1].windows; ++j) {
      for (int64_t a = 0; a < w.axes[0].taps; ++a) {
        for (int64_t b = 0; b < w.axes[1].taps; ++b) {
          for (int64_t c = 0; c < w.channels; ++c) f({i, j}, {a, b}, c);
        }
      }
    }
  }
}

TEST_SUITE_BEGIN("unit");

TEST_CASE("a padded copy has the elements of all windows that share it") {
  Draws draws(71);
  for (int round = 0; round < 300; ++round) {
    const std::vector<WindowRows> matrices = draw_matrices(draws);
    const int64_t count = draws.integer(1, 3);
    std::vector<float> images(static_cast<size_t>(count * matrices.front().image_pitch));
    for (float& value : images) value = static_cast<float>(draws.integer(1, 1 << 20));
    const PaddedImages padded(matrices);
    std::vector<float> copy(static_cast<size_t>(padded.place(count, 0)), -1.0f);
    // All lines of some images, and the others in two parts.
    const int64_t whole = draws.integer(0, count), upper = draws.integer(0, padded.lines());
    if (whole > 0)
      padded.copy(images.data(), sizeof(float), {0, whole, 0, padded.lines()}, copy.data());
    for (int64_t image = whole; image < count; ++image) {
      padded.copy(images.data(), sizeof(float), {image, 1, 0, upper},
                  copy.data() + padded.place(image, 0));
      padded.copy(images.data(), sizeof(float), {image, 1, upper, padded.lines() - upper},
                  copy.data() + padded.place(image, upper));
    }
    bool any_padding = false;
    for (const WindowRows& matrix : matrices) {
      const WindowRows over_copy = padded.over_copy(matrix);
      REQUIRE(!over_copy.has_padding());
      any_padding = any_padding || matrix.has_padding();
      bool same = true;
      for (int64_t image = 0; image < count; ++image) {
        for_each_tap(matrix, [&](const int64_t(&window)[2], const int64_t(&tap)[2], int64_t c) {
          same = same && element(matrix, images.data(), image, window, tap, c) ==
                             element(over_copy, copy.data(), image, window, tap, c);
        });
      }
      CHECK(same);
    }
    CHECK(padded.has_padding() == any_padding);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace keel
