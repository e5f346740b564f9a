// Elements of a training whose rows are no numbers of a pattern: {"x", f32[8, 12]}, as many as are
// asked for. For one thread.
#ifndef KEEL_TESTS_UNIT_SINE_ROWS_FOR_TESTS_H
#define KEEL_TESTS_UNIT_SINE_ROWS_FOR_TESTS_H

#include <cmath>
#include <memory>
#include <vector>

#include "unit/runtime_for_tests.h"

namespace keel::testing {

inline std::shared_ptr<NumberFeeder> sine_rows(const Device& on) {
  auto feeder = std::make_shared<NumberFeeder>(
      on, ElementSpec{{{"x", {f32, {8, 12}}}}}, [](int64_t i, const std::vector<void*>& fields) {
        auto* x = static_cast<float*>(fields[0]);
        for (int64_t k = 0; k < 96; ++k)
          x[k] = static_cast<float>(std::sin(0.37 * static_cast<double>(i * 96 + k)));
        return true;
      });
  feeder->open({});
  return feeder;
}

}  // namespace keel::testing

#endif  // KEEL_TESTS_UNIT_SINE_ROWS_FOR_TESTS_H
