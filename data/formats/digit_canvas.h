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

  DigitCanvas() { distance2_.fill(kFar); }

  // Draws the segment a-b of a line of this radius in pixels. It becomes ink by fill().
  void add_segment(Point a, Point b, float radius);
  // Adds ink within `radius` pixels of the segments that came since the last call, with an edge one
  // pixel soft. They must have come with this radius.
  void fill(float radius);
  // Writes the pixels row by row: full ink has the value `strength`, and each byte of `randomness`
  // adds up to half of `noise` to its pixel, or takes it away.
  void write(const std::array<uint8_t, kPixels>& randomness, float strength, float noise,
             uint8_t* out) const;

  // Pixels [left, right] of the rows [top, bottom]; none at first.
  struct Box {
    int left = kSide;
    int right = -1;
    int top = kSide;
    int bottom = -1;
  };

 private:
  static constexpr float kFar = 1e30f;

  // The least square of a distance that a pixel has from the segments that are no ink yet. Ink
  // falls with it, so that what many segments give a pixel needs one root.
  alignas(64) std::array<float, kSide * kPitch> distance2_;
  alignas(64) std::array<float, kSide * kPitch> ink_{};
  Box drawn_;  // where segments lie that are no ink yet
};

}  // namespace keel

#endif  // KEEL_DATA_FORMATS_DIGIT_CANVAS_H
