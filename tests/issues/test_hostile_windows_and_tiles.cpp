// Windows of pooling went on for ever over padding, or overflowed; repetitions of tile() threw
// std::length_error.
#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/composed/rearrange.h"
#include "keel/ops/ops.h"
#include "keel/ops/pool.h"

#include "support/error_of.h"

TEST_SUITE_BEGIN("ops");

namespace {

using namespace keel;
using keel_test::contains;
using keel_test::error_of;

constexpr int64_t kHuge = int64_t{1} << 40;

}  // namespace

TEST_CASE("a pooling window far beyond the image is refused") {
  Graph g;
  const Value x = g.input("x", f32, {1, 4, 4, 1});
  for (const std::vector<int64_t>& window :
       {std::vector<int64_t>{kHuge}, {kHuge, 1}, {1, kHuge}, {1025, 2}, {INT64_MAX, INT64_MAX}}) {
    CHECK(contains(
        error_of([&] { max_pool2d(x, {.window = window, .stride = {1}, .padding = "same"}); }),
        window[0] == INT64_MAX ? "does not fit in 64 bits" : "max_pool2d: window"));
    CHECK(error_of([&] { avg_pool2d(x, {.window = window, .stride = {1}, .padding = "same"}); }) !=
          "");
  }
  const int64_t pad = kHuge - 1;
  CHECK(contains(
      error_of([&] {
        max_pool2d(
            x,
            {.window = {kHuge, 2}, .stride = {1}, .padding = "explicit", .pads = {pad, pad, 0, 0}});
      }),
      "max_pool2d: window"));
}

TEST_CASE("a pooling window far beyond an image whose size comes with the run is refused") {
  Graph g;
  const Value x = g.input("x", f32, {1, -1, -1, 1});
  const Value y =
      avg_pool2d(x, {.window = {kHuge, int64_t{1} << 30}, .stride = {1}, .padding = "same"});
  Session session(g, device("ref"));
  CHECK(contains(error_of([&] {
                   session.run(y, {{x, Tensor(f32, {1, 2, 2, 1})}});
                 }),
                 "avg_pool2d: window"));
}

TEST_CASE("a pooling window somewhat beyond the image takes all of it") {
  Graph g;
  const Value x = g.input("x", f32, {1, 2, 1, 1});
  const Value most = max_pool2d(x, {.window = {101, 3}, .stride = {1}, .padding = "same"});
  const Value middle = avg_pool2d(x, {.window = {101, 3}, .stride = {1}, .padding = "same"});
  Session session(g, device("ref"));
  const auto results =
      session.run(Values{most, middle}, {{x, Tensor::of<float>({1, 2, 1, 1}, {3, 5})}});
  for (int64_t i = 0; i < 2; ++i) {
    CHECK(results[0].at(i) == 5);
    CHECK(results[1].at(i) == 4);
  }
}

TEST_CASE("tile of any number of repetitions is a tensor or an Error with the users line") {
  Graph g;
  const Value x = g.input("x", i32, {-1, -1});
  const Tensor row = Tensor::of<int32_t>({1, 2}, {7, 8});
  Session session(g, device("ref"));
  for (const int64_t times : {2, 64, 65, 200, 64 * 64 + 3}) {
    CAPTURE(times);
    const Tensor down = session.run(tile(x, {times, 1}), {{x, row}});
    const Tensor along = session.run(tile(x, {1, times}), {{x, row}});
    REQUIRE(down.shape() == Shape{times, 2});
    REQUIRE(along.shape() == Shape{1, 2 * times});
    bool right = true;
    for (int64_t i = 0; i < 2 * times; ++i)
      right = right && down.data<int32_t>()[static_cast<size_t>(i)] == 7 + i % 2 &&
              along.data<int32_t>()[static_cast<size_t>(i)] == 7 + i % 2;
    CHECK(right);
  }
  const int64_t most = int64_t{1} << 60;
  Value built;
  CHECK_NOTHROW(built = tile(x, {most, 1}));
  const std::string at_run = error_of([&] { session.run(built, {{x, Tensor(i32, {16, 2})}}); });
  CHECK(contains(at_run, "test_hostile_windows_and_tiles.cpp"));
  const Value known = g.input("known", i32, {16, 2});
  CHECK(contains(error_of([&] { tile(known, {most, 1}); }), "test_hostile_windows_and_tiles.cpp"));
}

TEST_SUITE_END();
