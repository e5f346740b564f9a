// Pooling of many shapes, with its gradient: every backend against `ref`, in both layouts, fused or
// not. max_pool2d moves numbers, so its results are equal to the bit.
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "keel/graph/autodiff/gradient.h"
#include "keel/ops/window_rules.h"

#include "drawn_steps_for_tests.h"
#include "ops_for_tests.h"
#include "support/strict_npu.h"

namespace keel {
namespace {

using testing::all_equal;
using testing::check_close;
using testing::Draws;
using testing::run_case;
using testing::StepCase;

// A pooling of images in NHWC; the other layout has the same numbers.
struct Pooling {
  Pair size, window, stride;
  std::string padding = "valid";
  std::vector<int64_t> pads = {};
  int64_t batch = 2, channels = 3;
};

const std::vector<Pooling>& pooling_corners() {
  static const std::vector<Pooling> all = {
      {.size = {5, 6}, .window = {1, 1}, .stride = {1, 1}},
      {.size = {5, 6}, .window = {1, 1}, .stride = {2, 3}},
      {.size = {7, 9}, .window = {2, 4}, .stride = {2, 2}, .padding = "same"},
      {.size = {7, 9},
       .window = {3, 4},
       .stride = {2, 1},
       .padding = "explicit",
       .pads = {2, 0, 1, 3}},
      {.size = {9, 11}, .window = {2, 1}, .stride = {4, 3}},
      {.size = {6, 6}, .window = {3, 3}, .stride = {1, 2}, .padding = "same", .batch = 0},
      {.size = {1, 8}, .window = {1, 3}, .stride = {1, 2}},
      {.size = {1, 8}, .window = {2, 3}, .stride = {1, 2}, .padding = "same"},
      {.size = {8, 1}, .window = {5, 1}, .stride = {3, 1}, .channels = 1},
      {.size = {1, 1}, .window = {1, 1}, .stride = {1, 1}, .batch = 1, .channels = 1},
      {.size = {6, 5}, .window = {6, 5}, .stride = {1, 1}, .channels = 33},
      {.size = {14, 14}, .window = {2, 2}, .stride = {2, 2}, .batch = 5, .channels = 70},
  };
  return all;
}

Pooling draw_pooling(Draws& draws) {
  Pooling p{.batch = draws.integer(0, 7) == 0 ? 0 : draws.integer(1, 3),
            .channels = draws.integer(0, 3) == 0 ? draws.integer(16, 40) : draws.integer(1, 9)};
  const int64_t kind = draws.integer(0, 2);
  p.padding = kind == 0 ? "valid" : kind == 1 ? "same" : "explicit";
  for (size_t i = 0; i < 2; ++i) {
    p.window[i] = draws.integer(1, 5);
    p.stride[i] = draws.integer(1, 6);
    int64_t pads = 0;
    if (kind == 2) {
      for (int side = 0; side < 2; ++side) {
        p.pads.push_back(draws.integer(0, p.window[i] - 1));
        pads += p.pads.back();
      }
    }
    const int64_t least = kind == 1 ? 1 : std::max<int64_t>(p.window[i] - pads, 1);
    p.size[i] = draws.integer(0, 4) == 0 ? least : least + draws.integer(0, 12);
  }
  return p;
}

enum class Kind { kMax, kMean, kMeanWithPadding };

// y, and the gradient of sum(y * y) for the images.
StepCase step_of(const Pooling& p, Kind kind, const char* layout, Draws& draws) {
  const Shape shape = image_shape(image_axes(layout), p.batch, p.size, p.channels);
  return {[=](Graph& g) {
            const Value x = g.input("x", f32, shape);
            const std::vector<int64_t> window = {p.window[0], p.window[1]};
            const std::vector<int64_t> stride = {p.stride[0], p.stride[1]};
            const Value y = kind == Kind::kMax
                                ? max_pool2d(x, {.window = window,
                                                 .stride = stride,
                                                 .padding = p.padding,
                                                 .pads = p.pads,
                                                 .layout = layout})
                                : avg_pool2d(x, {.window = window,
                                                 .stride = stride,
                                                 .padding = p.padding,
                                                 .pads = p.pads,
                                                 .layout = layout,
                                                 .count_padding = kind == Kind::kMeanWithPadding});
            return std::pair<Update, Values>{Update(), {y, gradients(sum(y * y), {x})[0]}};
          },
          {draws.tensor(shape)}};
}

void check_everywhere(const Pooling& p, Draws& draws) {
  for (const Kind kind : {Kind::kMax, Kind::kMean, Kind::kMeanWithPadding}) {
    for (const char* layout : {kChannelsLast, kChannelsFirst}) {
      const StepCase step = step_of(p, kind, layout, draws);
      CAPTURE(static_cast<int>(kind));
      CAPTURE(to_string(step.inputs[0].shape()));
      CAPTURE(to_string(Shape(p.window)));
      CAPTURE(to_string(Shape(p.stride)));
      CAPTURE(p.padding);
      CAPTURE(to_string(Shape(p.pads)));
      const auto expected = run_case(step, "ref:0", false);
      for (const char* where : {"npu:0", "cpu:0"}) {
        CAPTURE(std::string(where));
        const auto got = run_case(step, where, true);
        if (kind == Kind::kMax) CHECK(all_equal({got[0]}, {expected[0]}));
        // A mean is of at most 30 numbers below 1, and an element lies in at most 25 windows.
        check_close(got, expected, 1e-6);
        CHECK(all_equal(run_case(step, where, false), got));
      }
    }
  }
}

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("pooling: corners agree with ref both fused and unfused") {
  Draws draws(1);
  for (const Pooling& p : pooling_corners()) check_everywhere(p, draws);
}

TEST_CASE("pooling: fifty random shapes agree with ref both fused and unfused") {
  Draws draws(2);
  for (int i = 0; i < 50; ++i) {
    CAPTURE(i);
    check_everywhere(draw_pooling(draws), draws);
  }
}

TEST_CASE("pooling: blocks that begin and end inside of a window write their own lines alone") {
  Draws draws(3);
  // Blocks of lines, of which the strict npu has no others at hand; none begins where a window
  // does.
  const StepCase step =
      step_of({.size = {31, 64}, .window = {3, 3}, .stride = {3, 3}, .channels = 32}, Kind::kMax,
              kChannelsLast, draws);
  const auto strict = keel_test::strict_npu();
  Graph g;
  const auto [update, fetches] = step.build(g);
  Session session(g, Device(strict.get(), 0));
  const auto got = session.run(update, fetches, {{g.inputs()[0], step.inputs[0]}});
  const auto expected = run_case(step, "ref:0", false), plain = run_case(step, "npu:0", true);
  for (size_t i = 0; i < got.size(); ++i) {
    check_close({got[i]}, {expected[i]}, 1e-6);
    CHECK(all_equal({got[i]}, {plain[i]}));
  }
}

TEST_SUITE_END();

}  // namespace keel
