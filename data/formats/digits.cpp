#include "keel/data/formats/digits.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "keel/core/base/parallel_for.h"
#include "keel/core/base/random.h"
#include "keel/data/formats/digit_canvas.h"

namespace keel {
namespace {

constexpr int kDrawnSide = DigitCanvas::kSide;
constexpr int kDrawnPixels = DigitCanvas::kPixels;
constexpr int kDrawnClasses = 10;
constexpr int64_t kMaxCount = int64_t{1} << 24;
constexpr int64_t kChunk = 256;  // images drawn by one parallel chunk

// A quadratic curve in the unit square, y downwards; a straight line where `bend` lies between the
// ends.
struct Stroke {
  Point from;
  Point bend;
  Point to;
};

constexpr Stroke line(Point from, Point to) {
  return {from, {(from.x + to.x) / 2, (from.y + to.y) / 2}, to};
}

const std::vector<Stroke>& strokes_of(int digit) {
  static const std::array<std::vector<Stroke>, kDrawnClasses> kStrokes = {{
      {{{.50f, .05f}, {.84f, .05f}, {.84f, .50f}},
       {{.84f, .50f}, {.84f, .95f}, {.50f, .95f}},
       {{.50f, .95f}, {.16f, .95f}, {.16f, .50f}},
       {{.16f, .50f}, {.16f, .05f}, {.50f, .05f}}},
      {line({.34f, .24f}, {.53f, .05f}), line({.53f, .05f}, {.53f, .95f})},
      {{{.18f, .28f}, {.20f, .04f}, {.50f, .05f}},
       {{.50f, .05f}, {.88f, .06f}, {.79f, .35f}},
       {{.79f, .35f}, {.70f, .60f}, {.17f, .95f}},
       line({.17f, .95f}, {.85f, .95f})},
      {{{.19f, .15f}, {.42f, -.02f}, {.64f, .10f}},
       {{.64f, .10f}, {.88f, .36f}, {.42f, .46f}},
       {{.42f, .46f}, {.96f, .50f}, {.77f, .82f}},
       {{.77f, .82f}, {.52f, 1.04f}, {.17f, .86f}}},
      {line({.62f, .05f}, {.14f, .63f}), line({.14f, .63f}, {.88f, .63f}),
       line({.66f, .32f}, {.66f, .95f})},
      {line({.80f, .06f}, {.29f, .06f}),
       line({.29f, .06f}, {.24f, .45f}),
       {{.24f, .45f}, {.84f, .30f}, {.82f, .68f}},
       {{.82f, .68f}, {.76f, 1.02f}, {.17f, .89f}}},
      {{{.72f, .07f}, {.21f, .20f}, {.20f, .66f}},
       {{.20f, .66f}, {.21f, .96f}, {.50f, .95f}},
       {{.50f, .95f}, {.82f, .93f}, {.80f, .68f}},
       {{.80f, .68f}, {.75f, .40f}, {.50f, .44f}},
       {{.50f, .44f}, {.24f, .48f}, {.20f, .66f}}},
      {line({.15f, .07f}, {.85f, .07f}), {{.85f, .07f}, {.54f, .50f}, {.42f, .95f}}},
      {{{.50f, .05f}, {.80f, .06f}, {.76f, .27f}},
       {{.76f, .27f}, {.72f, .45f}, {.50f, .47f}},
       {{.50f, .47f}, {.17f, .52f}, {.18f, .74f}},
       {{.18f, .74f}, {.22f, .95f}, {.50f, .95f}},
       {{.50f, .95f}, {.80f, .95f}, {.82f, .74f}},
       {{.82f, .74f}, {.83f, .52f}, {.50f, .47f}},
       {{.50f, .47f}, {.26f, .42f}, {.24f, .27f}},
       {{.24f, .27f}, {.22f, .06f}, {.50f, .05f}}},
      {{{.80f, .32f}, {.78f, .05f}, {.50f, .05f}},
       {{.50f, .05f}, {.19f, .06f}, {.20f, .32f}},
       {{.20f, .32f}, {.24f, .59f}, {.50f, .56f}},
       {{.50f, .56f}, {.76f, .52f}, {.80f, .32f}},
       {{.80f, .32f}, {.80f, .66f}, {.62f, .95f}}},
  }};
  return kStrokes[static_cast<size_t>(digit)];
}

// The random numbers of one item, in order.
class Draws {
 public:
  explicit Draws(uint64_t key) : key_(key) {}
  uint32_t bits() {
    if (next_ % 4 == 0) block_ = random_block(key_, next_ / 4);
    return block_[next_++ % 4];
  }
  float between(float low, float high) { return low + (high - low) * uniform_float(bits()); }
  // Bell-shaped in (-spread, spread).
  float around_zero(float spread) {
    return (uniform_float(bits()) + uniform_float(bits()) - 1.0f) * spread;
  }

 private:
  uint64_t key_;
  uint64_t next_ = 0;
  std::array<uint32_t, 4> block_{};
};

// From the unit square to pixels.
class Placement {
 public:
  explicit Placement(Draws& draws) {
    // A rotation by its half-angle's tangent: exact arithmetic needs no sine.
    const float t = draws.around_zero(0.22f);
    const float cosine = (1 - t * t) / (1 + t * t);
    const float sine = 2 * t / (1 + t * t);
    const float shear = draws.around_zero(0.35f);
    const float width = draws.between(11.0f, 19.0f);
    const float height = draws.between(15.0f, 22.0f);
    xx_ = cosine * width;
    xy_ = (cosine * shear - sine) * height;
    yx_ = sine * width;
    yy_ = (sine * shear + cosine) * height;
    x_ = kDrawnSide / 2.0f - 0.5f + draws.around_zero(3.2f);
    y_ = kDrawnSide / 2.0f - 0.5f + draws.around_zero(3.2f);
  }
  Point operator()(Point p) const {
    const float u = p.x - 0.5f;
    const float v = p.y - 0.5f;
    return {x_ + xx_ * u + xy_ * v, y_ + yx_ * u + yy_ * v};
  }

 private:
  float xx_ = 0, xy_ = 0, yx_ = 0, yy_ = 0, x_ = 0, y_ = 0;
};

void draw_stroke(DigitCanvas& canvas, const Stroke& stroke, float radius) {
  constexpr int kPieces = 6;
  Point last = stroke.from;
  for (int i = 1; i <= kPieces; ++i) {
    const float t = static_cast<float>(i) / kPieces;
    const float a = (1 - t) * (1 - t);
    const float b = 2 * t * (1 - t);
    const float c = t * t;
    const Point next{a * stroke.from.x + b * stroke.bend.x + c * stroke.to.x,
                     a * stroke.from.y + b * stroke.bend.y + c * stroke.to.y};
    canvas.add_segment(last, next, radius);
    last = next;
  }
}

Point jittered(Point p, Draws& draws) {
  constexpr float kJitter = 0.09f;
  return {p.x + draws.around_zero(kJitter), p.y + draws.around_zero(kJitter)};
}

// Strokes that meet keep meeting: an end is moved as the start of the stroke that begins there.
void draw_digit(DigitCanvas& canvas, int digit, Draws& draws) {
  const Placement place(draws);
  const float radius = draws.between(0.55f, 1.75f);
  std::vector<Stroke> strokes = strokes_of(digit);
  std::vector<Point> moved;
  for (const Stroke& stroke : strokes) moved.push_back(jittered(stroke.from, draws));
  const std::vector<Stroke>& original = strokes_of(digit);
  for (size_t i = 0; i < strokes.size(); ++i) {
    strokes[i].from = moved[i];
    strokes[i].bend = jittered(original[i].bend, draws);
    const auto follower = std::find_if(original.begin(), original.end(), [&](const Stroke& other) {
      return other.from.x == original[i].to.x && other.from.y == original[i].to.y;
    });
    strokes[i].to = follower == original.end()
                        ? jittered(original[i].to, draws)
                        : moved[static_cast<size_t>(follower - original.begin())];
  }
  for (const Stroke& s : strokes)
    draw_stroke(canvas, {place(s.from), place(s.bend), place(s.to)}, radius);
  canvas.fill(radius);
}

// A stray mark somewhere in every third image.
void draw_mark(DigitCanvas& canvas, Draws& draws) {
  if (draws.bits() % 3 != 0) return;
  const Point from{draws.between(1, 26), draws.between(1, 26)};
  const Point to{from.x + draws.around_zero(6), from.y + draws.around_zero(6)};
  const float radius = draws.between(0.4f, 1.0f);
  canvas.add_segment(from, to, radius);
  canvas.fill(radius);
}

void write_pixels(const DigitCanvas& canvas, Draws& draws, uint8_t* out) {
  const float strength = draws.between(150, 255);
  const float noise = draws.between(8, 44);
  std::array<uint8_t, kDrawnPixels> randomness{};
  for (size_t i = 0; i < kDrawnPixels; i += 4) {
    const uint32_t bits = draws.bits();
    for (size_t j = 0; j < 4; ++j) randomness[i + j] = static_cast<uint8_t>(bits >> (8 * j));
  }
  canvas.write(randomness, strength, noise, out);
}

uint8_t draw_item(uint64_t key, uint8_t* pixels) {
  Draws draws(key);
  DigitCanvas canvas;
  const auto digit = static_cast<int>(draws.bits() % kDrawnClasses);
  draw_digit(canvas, digit, draws);
  draw_mark(canvas, draws);
  write_pixels(canvas, draws, pixels);
  return static_cast<uint8_t>(digit);
}

LabelledImages draw_set(uint64_t key, int64_t count) {
  Tensor images(u8, {count, kDrawnPixels});
  Tensor labels(u8, {count});
  uint8_t* const pixels = images.data<uint8_t>().data();
  uint8_t* const classes = labels.data<uint8_t>().data();
  parallel_for(static_cast<int>((count + kChunk - 1) / kChunk), [&](int chunk) {
    const int64_t begin = chunk * kChunk;
    for (int64_t i = begin; i < std::min(count, begin + kChunk); ++i) {
      classes[i] = draw_item(fold_key(key, static_cast<uint64_t>(i)), pixels + i * kDrawnPixels);
    }
  });
  return {.images = images,
          .labels = labels,
          .height = kDrawnSide,
          .width = kDrawnSide,
          .classes = kDrawnClasses};
}

void check_count(int64_t count, const char* argument) {
  if (count >= 1 && count <= kMaxCount) return;
  throw Error({.op = "make_digits",
               .argument = argument,
               .expected = "1 to " + std::to_string(kMaxCount),
               .got = std::to_string(count),
               .kind = ErrorKind::kInvalidArgument});
}

}  // namespace

LabelledSplits make_digits(const DigitsOptions& options) {
  check_count(options.train_count, "train_count");
  check_count(options.test_count, "test_count");
  LabelledSplits splits;
  splits.train = draw_set(fold_key(options.seed, "digits/train"), options.train_count);
  splits.test = draw_set(fold_key(options.seed, "digits/test"), options.test_count);
  splits.origin = "built-in digits, drawn from seed " + std::to_string(options.seed);
  return splits;
}

}  // namespace keel
