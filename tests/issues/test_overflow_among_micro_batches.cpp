// One micro-batch that overflowed left NaN in the sums of gradients until its update was complete,
// so that files of such steps counted as broken.
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/autodiff/gradient.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/nn/nn.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;

// The gradient of w is the input of the step.
struct Slopes {
  Slopes() {
    const Values slopes = gradients(loss, {w});
    gathered = accumulate_gradients({w}, slopes, loss, 3, {.sound = all_finite(slopes)});
    update =
        apply_if(logical_and(gathered.complete, gathered.sound), sgd(1).apply({w}, gathered.means));
    update += gathered.update;
  }
  Graph g;
  Value w = g.state("w", zeros({1})), x = g.input("x", f32, {1});
  Value loss = sum(w * x + x);
  Accumulated gathered;
  Update update;
};

}  // namespace

TEST_CASE("sums over micro-batches stay finite where one of these overflowed") {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const char* where : {"ref", "cpu", "npu"}) {
    CAPTURE(where);
    Slopes s;
    Session session(s.g, device(where));
    const auto number = [&](const char* state) {
      return session.read(s.g.find_state(state)).at(0);
    };
    const auto step = [&](float slope) {
      session.run(s.update, Values{}, {{s.x, Tensor::full(f32, {1}, slope)}});
    };
    // Sums of slopes and of losses, how many were not sound, and w, behind each step.
    const std::vector<std::vector<double>> expected = {
        {1, 1, 0, 0},   {1, 1, 1, 0}, {0, 0, 0, 0},                    // 1, infinity, 2: left out
        {2, 2, 0, 0},   {6, 6, 0, 0}, {0, 0, 0, -3}, {5, -10, 0, -3},  // 2, 4, 3, then 5
        {5, -10, 1, -3}};
    size_t at = 0;
    for (const float slope : {1.0f, infinity, 2.0f, 2.0f, 4.0f, 3.0f, 5.0f, std::nanf("")}) {
      CAPTURE(at);
      step(slope);
      CHECK(number("w/gradient_sum") == expected[at][0]);
      CHECK(number("accumulated/loss") == expected[at][1]);
      CHECK(number("accumulated/unsound") == expected[at][2]);
      CHECK(number("w") == expected[at][3]);
      ++at;
    }
  }
}

TEST_CASE("what says which micro-batches count is one flag") {
  Graph g;
  const Value w = g.state("w", zeros({2})), flags = g.input("flags", boolean, {2});
  CHECK(keel_test::contains(keel_test::error_of([&] {
                              accumulate_gradients({w}, gradients(sum(w), {w}), 2,
                                                   {.sound = flags});
                            }),
                            "accumulate_gradients: sound: expected bool[], got bool[2]"));
}

TEST_SUITE_END();
