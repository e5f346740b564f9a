#include <cmath>
#include <set>
#include <string>

#include "keel/backends/npu/cost/calibrate.h"

#include "npu_model_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::npu;
using namespace npu_model_test;

}  // namespace

TEST_CASE("npu calibrate: facts 2 4 5 6 and 7 are within their bounds and 3 is a miss") {
  const auto rows = calibrate();
  std::set<int> facts;
  for (const CalibrationRow& row : rows) {
    CAPTURE(row.name);
    CAPTURE(row.prediction);
    CAPTURE(row.published);
    facts.insert(row.fact);
    // A product in f32 by passes is one that the model is too fast for, by about a third.
    CHECK(row.pass == (row.fact != 3));
    if (row.fact == 3) CHECK(row.error == doctest::Approx(0.34).epsilon(0.05));
    CHECK((std::abs(row.prediction - row.published) <= row.bound * row.published) == row.pass);
    CHECK(row.error == doctest::Approx(row.prediction / row.published - 1));
    CHECK(!row.source.empty());
    // The bounds that were set before the model was: 5, 10, 10 and 20 percent; of the ladder 10 at
    // its ends and 20 between.
    const bool end = row.published == 249.5 || row.published == 4.01;
    const double bound = row.fact == 2   ? 0.05
                         : row.fact == 4 ? (end ? 0.10 : 0.20)
                         : row.fact == 7 ? 0.20
                                         : 0.10;
    CHECK(row.bound == doctest::Approx(bound));
  }
  CHECK(facts == std::set<int>{2, 3, 4, 5, 6, 7});
  CHECK(calibration_order_holds(rows));
}

TEST_CASE("npu calibrate: the published figures are complete") {
  const auto rows = calibrate();
  const auto has = [&](int fact, double published) {
    for (const CalibrationRow& row : rows) {
      if (row.fact == fact && row.published == published) return true;
    }
    return false;
  };
  for (const double v : {216.0, 3390.0}) CHECK(has(2, v));
  CHECK(has(3, 65.3));
  for (const double v : {249.5, 12.54, 12.28, 5.04, 4.16, 4.01}) CHECK(has(4, v));
  for (const double v : {6910.0, 306.6, 268.5, 264.0, 187.7, 184.5}) CHECK(has(5, v));
  for (const double v : {564.8, 233.5, 215.8, 275.3}) CHECK(has(6, v));
}

TEST_CASE("npu calibrate: the table says which facts were used for fitting and shows misses") {
  auto rows = calibrate();
  rows[0].pass = false;
  const std::string table = calibration_table(rows);
  CHECK(contains(table, "MISS"));
  CHECK(contains(table, "19 of 21"));
  CHECK(contains(table, "yes"));
  CHECK(contains(table, "no"));
}

TEST_CASE("npu calibrate: the order of the rungs is checked") {
  auto rows = calibrate();
  for (CalibrationRow& row : rows) {
    if (row.published == 4.16) row.prediction = 100;
  }
  CHECK_FALSE(calibration_order_holds(rows));
  CHECK_FALSE(calibration_order_holds({}));
}

TEST_SUITE_END();
