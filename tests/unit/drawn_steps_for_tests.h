// Steps of random numbers on devices, for tests of kernels: what they draw, and how near their
// results must be to those of `ref`.
#ifndef KEEL_TESTS_UNIT_DRAWN_STEPS_FOR_TESTS_H
#define KEEL_TESTS_UNIT_DRAWN_STEPS_FOR_TESTS_H

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "keel/core/base/random.h"

#include "fused_step_for_tests.h"

namespace keel::testing {

class Draws {
 public:
  explicit Draws(uint64_t key) : key_(key) {}
  int64_t integer(int64_t low, int64_t high) {
    const auto words = random_block(key_, next_++);
    return low + static_cast<int64_t>(words[0] % static_cast<uint64_t>(high - low + 1));
  }
  Tensor tensor(const Shape& shape, DType dtype = f32) {
    Tensor t(dtype, shape);
    const auto words = [&] { return random_block(key_, next_++)[0]; };
    for (int64_t i = 0; i < t.num_elements(); ++i) {
      t.set(i, static_cast<double>(words() % 257) / 128 - 1);
    }
    return t;
  }

 private:
  uint64_t key_, next_ = 0;
};

// Each number is within `relative` of the largest of its tensor, which counts as 1 where it is
// less.
inline void check_close(const std::vector<Tensor>& got, const std::vector<Tensor>& expected,
                        double relative) {
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    REQUIRE(got[i].type() == expected[i].type());
    double largest = 0, wrong = 0;
    for (int64_t e = 0; e < got[i].num_elements(); ++e) {
      largest = std::max(largest, std::fabs(expected[i].at(e)));
      wrong = std::max(wrong, std::fabs(got[i].at(e) - expected[i].at(e)));
      if (std::isnan(got[i].at(e))) wrong = INFINITY;
    }
    CHECK(wrong <= relative * std::max(largest, 1.0));
  }
}

}  // namespace keel::testing

#endif  // KEEL_TESTS_UNIT_DRAWN_STEPS_FOR_TESTS_H
