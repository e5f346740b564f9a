// Functions that are made of ops failed in the name of the op inside, or blamed another argument.
#include <functional>
#include <limits>
#include <string>

#include <doctest/doctest.h>

#include "keel/keel.h"

#include "support/error_of.h"

namespace keel {
namespace {

// The message of `use`, on line `used`, begins with `words` and ends with that line.
void check_message_begins(int used, const std::string& words, const std::function<void()>& use) {
  const std::string error = keel_test::error_of(use);
  INFO(error);
  CHECK(error.starts_with(words));
  CHECK(error.ends_with("(" + std::string(__FILE__) + ":" + std::to_string(used) + ")"));
}

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("losses name themselves and the argument that is wrong") {
  Graph g;
  const Value x = g.input("x", f32, {}), whole = g.input("whole", i32, {2});
  const CallSite here = CallSite::here();
  const int line = __LINE__ - 1;
  check_message_begins(line,
                       "kl_divergence: log_probabilities: expected shape [..., classes], got f32[]",
                       [&] { kl_divergence(x, x, here); });
  check_message_begins(line,
                       "huber: expected at least one Value among the operands, got numbers only",
                       [&] { huber(1.5, 2.5, 1, here); });
  check_message_begins(line, "huber: target: expected a float dtype, got i32",
                       [&] { huber(1, whole, 1, here); });
  check_message_begins(line, "huber: prediction: expected a float dtype, got i32",
                       [&] { huber(whole, 1, 1, here); });
}

TEST_CASE("global pooling names itself for images that its reduction refuses") {
  Graph g;
  const Value flags = g.input("flags", boolean, {1, 2, 2, 1}),
              whole = g.input("w", i32, {1, 2, 2, 1});
  const Value empty = g.input("empty", f32, {1, 0, 2, 1});
  const CallSite here = CallSite::here();
  const int line = __LINE__ - 1;
  check_message_begins(
      line, "global_max_pool2d: x: ", [&] { global_max_pool2d(flags, "NHWC", false, here); });
  check_message_begins(
      line, "global_max_pool2d: x: ", [&] { global_max_pool2d(empty, "NHWC", false, here); });
  check_message_begins(
      line, "global_avg_pool2d: x: ", [&] { global_avg_pool2d(whole, "NHWC", false, here); });
}

TEST_CASE("stack and split_sizes name themselves") {
  Graph g;
  const Value x = g.input("x", f32, {2, 3});
  const std::string expected = "stack: axis: expected an axis from -3 to 2 of the result, got 5";
  check_message_begins(__LINE__, expected, [&] { stack({x, x}, 5); });
  CHECK(stack({x, x}, -1).shape() == Shape{2, 3, 2});
  const CallSite here = CallSite::here();
  const int line = __LINE__ - 1;
  check_message_begins(
      line, "split_sizes: sizes: expected sizes >= 0 that add up to 3, got a sum of 4", [&] {
        split_sizes(x, {2, 2}, 1, here);
      });
  check_message_begins(line, "split_sizes: axis: ", [&] { split_sizes(x, {2, 2}, 2, here); });
  check_message_begins(line, "split: axis: ", [&] { split(x, 2, 2, here); });
}

TEST_CASE("clip_by_value names itself and takes what clip_by_global_norm takes") {
  Graph g;
  const Value whole = g.input("whole", i32, {2}), x = g.input("x", f32, {2});
  const CallSite here = CallSite::here();
  const int line = __LINE__ - 1;
  check_message_begins(line, "clip_by_value: gradient 1: expected a float dtype, got i32", [&] {
    clip_by_value({x, whole}, 1.5, here);
  });
  check_message_begins(line, "clip_by_value: expected at least one gradient, got none",
                       [&] { clip_by_value({}, 1.5, here); });
  check_message_begins(line, "clip_by_global_norm: expected at least one gradient, got none",
                       [&] { clip_by_global_norm({}, 1.5, here); });
}

TEST_CASE("dropout whose scale leaves the dtype names itself and the rate") {
  Graph g;
  const Value x = g.input("x", f16, {2});
  const CallSite here = CallSite::here();
  const int line = __LINE__ - 1;
  const size_t before = g.size();
  check_message_begins(
      line, "dropout: rate: expected one whose scale 1 / (1 - rate) fits f16, got 0.99999",
      [&] { dropout(x, 0.99999, true, here); });
  CHECK(g.size() == before);
  CHECK(dropout(x, 0.99999, false, here) == x);
  CHECK_NOTHROW(dropout(x, 0.9999, true, here));
  CHECK_NOTHROW(dropout(cast(x, f32), 0.99999, true, here));
}

TEST_CASE("recurrent layers name themselves where they refuse recompute_every") {
  Graph g;
  const Value x = g.input("x", f32, {2, 3, 4});
  const Lstm lstm_layer(Scope(g) / "forward", 4, 5);
  const Gru gru_layer(Scope(g) / "back", 4, 5);
  const CallSite here = CallSite::here();
  const int line = __LINE__ - 1;
  check_message_begins(line, "lstm: recompute_every: expected at least 1, got 0",
                       [&] { lstm_layer(x, {.recompute_every = 0}, here); });
  check_message_begins(line, "gru: recompute_every: expected at least 1, got -1",
                       [&] { gru_layer(x, {.recompute_every = -1}, here); });
  CHECK_NOTHROW(lstm_layer(x, {.recompute_every = 1}, here));
}

TEST_CASE("a stride that no axis can take is not called 0") {
  Graph g;
  const Value x = g.input("x", f32, {4});
  const CallSite here = CallSite::here();
  const int line = __LINE__ - 1;
  const int64_t lowest = std::numeric_limits<int64_t>::min();
  const std::string expected =
      "slice: strides: expected strides other than 0 and -9223372036854775808, got ";
  check_message_begins(line, expected + "-9223372036854775808",
                       [&] { slice(x, {0}, {4}, {lowest}, here); });
  check_message_begins(line, expected + "0", [&] { slice(x, {0}, {4}, {0}, here); });
}

TEST_SUITE_END();

}  // namespace keel
