// Rules of the import of TensorFlow graphs for parts of images, on the examples of TensorFlow's
// documentation and on values worked out by hand.
#include <cmath>
#include <numeric>

#include <doctest/doctest.h>

#include "support/error_of.h"
#include "unit/ops/graphdef/op_runs_for_tests.h"

TEST_SUITE_BEGIN("graphdef");

namespace keel {
namespace {

using namespace keel_test;

Floats up_to(int count) {
  Floats numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 1.0);
  return numbers;
}

Given pairs(const std::vector<int64_t>& numbers) {
  return held(
      Tensor::of<int64_t>({static_cast<int64_t>(numbers.size()) / 2, 2}, numbers).cast(i32));
}

TEST_CASE("GraphDef image rules: resizing with each rule of positions") {
  const Given two = fed(floats({1, 1, 2, 1}, {0, 4})), wide = held(ints({1, 4}));
  const NodeAttributes corners{{"align_corners", "b: true"}};
  const NodeAttributes half{{"half_pixel_centers", "b: true"}};
  check(run("ResizeBilinear", {two, wide})[0], {1, 1, 4, 1}, {0, 2, 4, 4});
  check(run("ResizeBilinear", {two, wide}, corners)[0], {1, 1, 4, 1}, {0, 4.0 / 3, 8.0 / 3, 4});
  check(run("ResizeBilinear", {two, wide}, half)[0], {1, 1, 4, 1}, {0, 1, 3, 4});
  const Given three = fed(floats({1, 3, 1, 1}, {5, 6, 7})), tall = held(ints({5, 1}));
  check(run("ResizeNearestNeighbor", {three, tall})[0], {1, 5, 1, 1}, {5, 5, 6, 6, 7});
  check(run("ResizeNearestNeighbor", {three, tall}, corners)[0], {1, 5, 1, 1}, {5, 6, 6, 7, 7});
  check(run("ResizeNearestNeighbor", {three, tall}, half)[0], {1, 5, 1, 1}, {5, 5, 6, 7, 7});
  check(run("ResizeBilinear", {three, held(ints({1, 1}))}, corners)[0], {1, 1, 1, 1}, {5});
  CHECK(contains(error_of([&] {
                   run("ResizeBilinear", {two, wide},
                       {{"align_corners", "b: true"}, {"half_pixel_centers", "b: true"}});
                 }),
                 "exclude each other"));
  CHECK(contains(error_of([&] {
                   run("ResizeBilinear", {two, held(ints({1, 1 << 25}))});
                 }),
                 "2^24"));
}

TEST_CASE("GraphDef image rules: blocks go into the batch and back") {
  const Given two = held(ints({2, 2})), none = pairs({0, 0, 0, 0});
  const Floats by_block{1, 3, 9, 11, 2, 4, 10, 12, 5, 7, 13, 15, 6, 8, 14, 16};
  check(run("SpaceToBatchND", {fed(floats({1, 4, 4, 1}, up_to(16))), two, none})[0], {4, 2, 2, 1},
        by_block);
  check(run("BatchToSpaceND", {fed(floats({4, 2, 2, 1}, by_block)), two, none})[0], {1, 4, 4, 1},
        up_to(16));
  const Floats padded{0, 1, 3, 0, 9,  11, 0, 2, 4, 0, 10, 12,
                      0, 5, 7, 0, 13, 15, 0, 6, 8, 0, 14, 16};
  const Given edges = pairs({0, 0, 2, 0});
  check(run("SpaceToBatchND", {fed(floats({2, 2, 4, 1}, up_to(16))), two, edges})[0], {8, 1, 3, 1},
        padded);
  check(run("BatchToSpaceND", {fed(floats({8, 1, 3, 1}, padded)), two, edges})[0], {2, 2, 4, 1},
        up_to(16));
  const auto refused = [&](const Given& sizes, const Given& around) {
    return error_of([&] {
      run("SpaceToBatchND", {fed(floats({1, 4, 4, 1}, up_to(16))), sizes, around});
    });
  };
  CHECK(contains(refused(held(ints({3, 2})), none), "no multiple"));
  CHECK(contains(refused(held(ints({0, 2})), none), "out of range"));
  CHECK(contains(refused(held(ints({1 << 12, 1 << 12})), none), "more than 65536"));
  CHECK(contains(refused(held(ints({2})), none), "do not fit"));
}

TEST_CASE("GraphDef image rules: blocks go into the channels and back") {
  const NodeAttributes two{{"block_size", "i: 2"}};
  const Floats spread{1, 2, 5, 6, 3, 4, 7, 8, 9, 10, 13, 14, 11, 12, 15, 16};
  check(run("DepthToSpace", {fed(floats({1, 2, 2, 4}, up_to(16)))}, two)[0], {1, 4, 4, 1}, spread);
  check(run("SpaceToDepth", {fed(floats({1, 4, 4, 1}, spread))}, two)[0], {1, 2, 2, 4}, up_to(16));
  check(run("DepthToSpace", {fed(floats({1, 1, 1, 12}, up_to(12)))}, two)[0], {1, 2, 2, 3},
        up_to(12));
  CHECK(contains(error_of([&] {
                   run("SpaceToDepth", {fed(floats({1, 3, 4, 1}, up_to(12)))}, two);
                 }),
                 "no multiple"));
}

TEST_CASE("GraphDef image rules: the gradient of a slice") {
  check_row("StridedSliceGrad",
            {held(ints({5})), held(ints({4})), held(ints({0})), held(ints({-2})), fed(row({1, 2}))},
            {0, 0, 2, 0, 1});
  check(run("StridedSliceGrad",
            {held(ints({2, 3})), held(ints({1, 0})), held(ints({2, 0})), held(ints({1, 2})),
             fed(row({7, 8}))},
            {{"shrink_axis_mask", "i: 1"}, {"begin_mask", "i: 2"}, {"end_mask", "i: 2"}})[0],
        {2, 3}, {0, 0, 0, 7, 0, 8});
  check_row("StridedSliceGrad",
            {held(ints({4})), held(ints({0, 1})), held(ints({0, 3})), held(ints({1, 1})),
             fed(floats({1, 2}, {5, 6}))},
            {0, 5, 6, 0}, {{"new_axis_mask", "i: 1"}});
  CHECK(contains(error_of([&] {
                   run("StridedSliceGrad", {held(ints({5})), held(ints({0})), held(ints({3})),
                                            held(ints({1})), fed(row({1, 2}))});
                 }),
                 "is not of the slice's shape"));
}

TEST_CASE("GraphDef image rules: gradients of resizing") {
  const NodeAttributes corners{{"align_corners", "b: true"}};
  const Given slope = fed(floats({1, 1, 4, 1}, {1, 10, 100, 1000}));
  const Given image = fed(floats({1, 1, 2, 1}, {0, 0}));
  // The results are x0, (x0 + x1) / 2, x1, x1; and between the corners shares of thirds.
  check(run("ResizeBilinearGrad", {slope, image})[0], {1, 1, 2, 1}, {6, 1105});
  check(run("ResizeBilinearGrad", {slope, image}, corners)[0], {1, 1, 2, 1},
        {1 + 20.0 / 3 + 100.0 / 3, 10.0 / 3 + 200.0 / 3 + 1000});
  check(run("ResizeNearestNeighborGrad", {slope, held(ints({1, 2}))})[0], {1, 1, 2, 1}, {11, 1100});
  check(run("ResizeNearestNeighborGrad",
            {fed(floats({1, 5, 1, 1}, {1, 2, 4, 8, 16})), held(ints({3, 1}))}, corners)[0],
        {1, 3, 1, 1}, {1, 6, 24});
}

TEST_CASE("GraphDef image rules: truncated and whole random numbers of a step") {
  const Tensor normal =
      run("TruncatedNormal", {held(ints({100, 100}))}, {{"dtype", "type: DT_FLOAT"}})[0];
  double squares = 0, total = 0, most = 0;
  int inside = 0;
  for (int64_t i = 0; i < 10000; ++i) {
    const double x = normal.at(i);
    squares += x * x;
    total += x;
    most = std::max(most, std::fabs(x));
    inside += std::fabs(x) < 1 ? 1 : 0;
  }
  CHECK(most <= 2);
  CHECK(most > 1.9);
  CHECK(std::fabs(total / 10000) < 0.03);
  // A normal distribution cut at two deviations has 0.8796 of its deviation, and 0.6827 / 0.9545
  // of its numbers are within one.
  CHECK(std::sqrt(squares / 10000) == doctest::Approx(0.8796).epsilon(0.02));
  CHECK(inside / 10000.0 == doctest::Approx(0.7152).epsilon(0.02));
  const Tensor whole =
      run("RandomUniformInt", {held(ints({1000})), held(number(-2)), held(number(3))},
          {{"Tout", "type: DT_INT32"}})[0];
  int counts[5] = {};
  for (int64_t i = 0; i < 1000; ++i) ++counts[static_cast<int>(whole.at(i)) + 2];
  for (const int count : counts) CHECK(count == doctest::Approx(200).epsilon(0.25));
}

}  // namespace
}  // namespace keel

TEST_SUITE_END();
