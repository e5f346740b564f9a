// An epsilon that the norm's dtype does not hold was refused as the literal of an addition, and by
// some layers in the name of the function that they call.
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/nn/nn.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"

TEST_SUITE_BEGIN("nn");

namespace {

using namespace keel;
using keel_test::contains;
using keel_test::error_of;

struct Wrong {
  double epsilon;
  const char* message;
};
// The largest f32 is 3.4028...e38.
const Wrong kWrong[] = {
    {1e39, "epsilon: expected a number that fits f32, got 1e+39"},
    {-1, "epsilon: expected a finite number >= 0, got -1 "},
    {std::nan(""), "epsilon: expected a finite number >= 0, got nan"},
    {std::numeric_limits<double>::infinity(), "epsilon: expected a finite number >= 0, got inf"}};

}  // namespace

TEST_CASE("layers refuse a wrong epsilon in their own names and make no state") {
  for (const Wrong& wrong : kWrong) {
    CAPTURE(wrong.epsilon);
    const double epsilon = wrong.epsilon;
    Graph g;
    const Scope at = Scope(g) / "net";
    const std::pair<const char*, std::string> errors[] = {
        {"layer norm net: ", error_of([&] { LayerNorm(at, 4, epsilon); })},
        {"rms norm net: ", error_of([&] { RmsNorm(at, 4, epsilon); })},
        {"batch norm net: ", error_of([&] { BatchNorm(at, 4, {.epsilon = epsilon}); })},
        {"group norm net: ", error_of([&] { GroupNorm(at, 2, 4, {.epsilon = epsilon}); })}};
    for (const auto& named : errors) {
      const std::string& error = named.second;
      CHECK_MESSAGE(error.starts_with(named.first + std::string(wrong.message)), error);
      CHECK_MESSAGE(contains(error, "test_epsilon_of_norms.cpp:"), error);
    }
    CHECK_NOTHROW(LayerNorm(at, 4));  // no name is taken
  }
}

TEST_CASE("functions that normalise refuse a wrong epsilon by its name") {
  for (const Wrong& wrong : kWrong) {
    CAPTURE(wrong.epsilon);
    Graph g;
    const Value x = g.input("x", f32, {2, 4}), one = g.input("one", f32, {4});
    const NormOptions rows{.epsilon = wrong.epsilon};
    const ChannelNormOptions channels{.epsilon = wrong.epsilon, .channel_axis = 1};
    const std::pair<const char*, std::string> errors[] = {
        {"layer_norm: ", error_of([&] { layer_norm(x, rows); })},
        {"rms_norm: ", error_of([&] { rms_norm(x, rows); })},
        {"batch_norm: ", error_of([&] { batch_norm(x, one, one, channels); })},
        {"batch_norm_inference: ",
         error_of([&] { batch_norm_inference(x, one, one, one, one, channels); })},
        {"group_norm: ", error_of([&] { group_norm(x, 2, one, one, channels); })}};
    for (const auto& named : errors) {
      const std::string& error = named.second;
      CHECK_MESSAGE(error.starts_with(named.first + std::string(wrong.message)), error);
    }
  }
}

TEST_CASE("a norm of doubles takes an epsilon beyond f32") {
  Graph g;
  const BatchNorm norm(Scope(g) / "norm", 1, {.epsilon = 1e40, .dtype = f64});
  // (1e20 - 0) / sqrt(1 + 1e40)
  const Value y = norm(g.constant(Tensor::full(f64, {2, 1}, 1e20)), Mode::kEvaluation);
  Session session(g, device("cpu"));
  CHECK(session.run(y).at(0) == doctest::Approx(1).epsilon(1e-12));
  CHECK_NOTHROW(GroupNorm(Scope(g) / "groups", 1, 1, {.epsilon = 1e40, .dtype = f64}));
}

TEST_SUITE_END();
