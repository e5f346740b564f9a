// A resize to the nearest element divided by its scale in f64, where a scale such as 1.6 is a
// little more than it is meant to be, so that positions fell short of whole numbers; and by a
// rounded quotient where the file gives sizes.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/keel.h"

#include "support/onnx_op.h"

namespace keel {
namespace {

using namespace keel_test;

using Elements = std::vector<double>;

OnnxOp resize(int64_t in, const std::string& position, const std::string& rounding) {
  return {.op = "Resize",
          .operands = {{"x", onnx_counting({1, 1, in})}, {}},
          .attributes = {onnx_text("coordinate_transformation_mode", position),
                         onnx_text("nearest_mode", rounding)},
          .opset = 13};
}

Elements scaled(int64_t in, float scale, const std::string& position, const std::string& rounding) {
  OnnxOp op = resize(in, position, rounding);
  op.operands.push_back({"scales", Tensor::of<float>({3}, {1, 1, scale}), true});
  return elements_of(op.run());
}

Elements sized(int64_t in, int64_t out, const std::string& position, const std::string& rounding) {
  OnnxOp op = resize(in, position, rounding);
  op.operands.push_back({});
  op.operands.push_back({"sizes", onnx_int64({3}, {1, 1, out}), true});
  return elements_of(op.run());
}

}  // namespace

TEST_SUITE_BEGIN("issues");

// Expected: ONNX Runtime 1.30. 8 / 1.6 is 5, and 3 / 0.3 is 10.
TEST_CASE("a resize by a scale takes the elements that its positions in f32 name") {
  const Elements upwards{0, 0, 1, 1, 2, 3, 3, 4, 5, 5, 6, 6, 7, 8, 8, 9};
  CHECK(scaled(10, 1.6f, "asymmetric", "floor") == upwards);
  const Tensor scales = Tensor::of<float>({3}, {1, 1, 1.6f});
  CHECK(elements_of(OnnxOp{.op = "Upsample",
                           .operands = {{"x", onnx_counting({1, 1, 10})}, {"s", scales, true}},
                           .opset = 9}
                        .run()) == upwards);
  CHECK(scaled(40, 0.3f, "asymmetric", "floor") ==
        Elements{0, 3, 6, 10, 13, 16, 20, 23, 26, 29, 33, 36});
  CHECK(scaled(40, 0.35f, "asymmetric", "ceil") ==
        Elements{0, 3, 6, 9, 12, 15, 18, 20, 23, 26, 29, 32, 35, 38});
  CHECK(scaled(40, 0.35f, "half_pixel", "round_prefer_floor") ==
        Elements{1, 4, 7, 9, 12, 15, 18, 21, 24, 27, 29, 32, 35, 38});
  CHECK(scaled(7, 0.6f, "half_pixel_symmetric", "round_prefer_floor") == Elements{0, 2, 4, 5});
  CHECK(scaled(7, 1.7f, "half_pixel_symmetric", "ceil") ==
        Elements{1, 1, 2, 2, 3, 3, 4, 5, 5, 6, 6});
}

// The elements are whole quotients: 9 * 14 / 18 is 7.
TEST_CASE("a resize to a size takes the elements that its exact positions name") {
  for (const int64_t in : {7, 14, 22, 49}) {
    for (int64_t out = 1; out < 130; ++out) {
      CAPTURE(in);
      CAPTURE(out);
      Elements down, up, halves;
      for (int64_t i = 0; i < out; ++i) {
        down.push_back(static_cast<double>(i * in / out));
        up.push_back(static_cast<double>(std::min(in - 1, (i * in + out - 1) / out)));
        halves.push_back(static_cast<double>((2 * i + 1) * in / (2 * out)));
      }
      CHECK(sized(in, out, "asymmetric", "floor") == down);
      CHECK(sized(in, out, "asymmetric", "ceil") == up);
      CHECK(sized(in, out, "tf_half_pixel_for_nn", "floor") == halves);
    }
  }
}

TEST_SUITE_END();

}  // namespace keel
