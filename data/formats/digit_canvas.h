// DigitCanvas: the ink of one digit while it is drawn, a number in [0, 1] for each of 28 x 28
// pixels. Programs draw tens of thousands of digits before they begin, so that pixels go by lanes;
// each has the bits that it has on every processor. Owned by one thread.
#ifndef KEEL_DATA_FORMATS_DIGIT_CANVAS_H
#define KEEL_DATA_FORMATS_DIGIT_CANVAS_H

#include <array>
#include <cstdint>

namespace keel {

struct Point {
  float x = 0;
  float y = 0;
};

class DigitCanvas {
 public:
  static constexpr int kSide = 28;
  static constexpr int kPixels = kSide * kSide;
  // Floats from one row to the next: lanes that begin at its last pixel end before the next.
  static constexpr int kPitch = 40;

  // Adds ink within `radius` pixels of the segment a-b, with an edge one pixel soft.
  void add_segment(Point a, Point b, float radius);
  // Writes the pixels row by row: full ink has the value `strength`, and each byte of `randomness`
  // adds up to half of `noise` to its pixel, or takes it away.
  void write(const std::array<uint8_t, kPixels>& randomness, float strength, float noise,
             uint8_t* out) const;

 private:
  alignas(64) std::array<float, kSide * kPitch> ink_{};
};

}  // namespace keel

#endif  // KEEL_DATA_FORMATS_DIGIT_CANVAS_H
