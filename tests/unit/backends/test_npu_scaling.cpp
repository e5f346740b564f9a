// Modelled scaling of trainings over cards, worked out by hand, and the published figures beside.
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/npu/cost/scaling.h"
#include "keel/backends/npu/presets/preset.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;

TEST_CASE("npu scaling: a step has the sum on top of it or beside its backward pass") {
  const npu::Preset preset = npu::load_preset("ascend910");
  // Four cards of a half: 2 x 5 us, n / 2 at 30 GB/s, and 3/4 n through memory.
  const npu::ScaledTraining training{"net", 30'000'000, 1};
  const npu::ScalingPoint point = npu::scale(preset, training, 4);
  const double ms = 0.010 + 0.5 + 0.75 * 30e6 / preset.hbm_gb_per_s * 1e-6;
  CHECK(point.reduce_ms == doctest::Approx(ms));
  CHECK(point.efficiency == doctest::Approx(1 / (1 + ms)));
  CHECK(point.overlapped_efficiency == 1);  // it fits beside 2/3 ms
  const npu::ScalingPoint large = npu::scale(preset, {"net", 60'000'000, 1}, 4);
  const double left = large.reduce_ms - 2.0 / 3;
  CHECK(left > 0);
  CHECK(large.overlapped_efficiency == doctest::Approx(1 / (1 + left)));
  CHECK(npu::scale(preset, training, 1).efficiency == 1);
}

TEST_CASE("npu scaling: points are powers of two up to 1024 cards") {
  const npu::Preset preset = npu::load_preset("ascend910");
  const auto points = npu::scale(preset, npu::published_trainings()[0]);
  REQUIRE(points.size() == 11);
  for (size_t i = 0; i < points.size(); ++i) CHECK(points[i].cards == int64_t{1} << i);
  for (size_t i = 3; i < points.size(); ++i) CHECK(points[i].efficiency < points[i - 1].efficiency);
}

TEST_CASE("npu scaling: published figures are there and misses are told") {
  const auto all = npu::compare_published_scaling();
  REQUIRE(all.size() == 4);
  // 121.0 ms on one card; 8 x 2115 images a second would be all of it.
  CHECK(all[0].efficiency == doctest::Approx(0.981).epsilon(1e-3));
  CHECK(all[0].extra_ms == doctest::Approx(2.3).epsilon(0.03));
  CHECK(all[1].efficiency == doctest::Approx(0.968).epsilon(1e-3));
  CHECK(all[1].extra_ms == doctest::Approx(4.0).epsilon(0.03));
  CHECK(all[2].extra_ms == doctest::Approx(14.3).epsilon(0.05));
  CHECK_FALSE(all[0].miss());
  CHECK_FALSE(all[1].miss());
  // Without overlap BERT's gradients take three times what they took.
  CHECK(all[2].miss());
  CHECK(all[2].within_range());
  CHECK(all[3].cards == 1024);
  CHECK(all[3].lower_bound);
  CHECK_FALSE(all[3].miss());
}

}  // namespace

TEST_SUITE_END();
