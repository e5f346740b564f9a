// Where a device stops f16 at 65504, x * 1 and x - 0 of an infinite x are 65504 and an overflow;
// the compiler gave x itself, and infinity for arithmetic on an infinite constant.
#include <limits>

#include <doctest/doctest.h>

#include "keel/backends/npu/device/float_status.h"
#include "keel/backends/npu/options.h"
#include "keel/backends/registry.h"
#include "keel/graph/graph.h"
#include "keel/ops/ops.h"

TEST_SUITE_BEGIN("graph");

namespace {

using namespace keel;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("arithmetic on infinite f16 stops at the largest number with and without fold") {
  for (const bool saturates : {true, false}) {
    for (const bool folds : {true, false}) {
      CAPTURE(saturates);
      CAPTURE(folds);
      SessionOptions options;
      options.device_options = npu::options(saturates ? "ascend910" : "ascend910b1");
      if (!folds) options.disabled_passes = {"fold"};
      Graph g;
      const Value x = g.input("x", f16, {3});
      const Value endless = g.constant(Tensor::full(f16, {3}, kInfinity));
      Session session(g, device("npu"), options);
      for (const Value& y : {x * 1.0f, x / 1.0f, x - 0.0f, x + -0.0f, endless + 1.0f, -endless}) {
        CAPTURE(y.node().op_name());
        npu::clear_float_status(device("npu"));
        const Tensor got = session.run(y, {{x, Tensor::full(f16, {3}, kInfinity)}});
        const double sign = y.node().op_name() == "neg" ? -1 : 1;
        for (int64_t i = 0; i < 3; ++i) CHECK(got.at(i) == sign * (saturates ? 65504 : kInfinity));
        CHECK((npu::float_status(device("npu")) != 0) == saturates);
      }
      // What is moved stays as it is.
      npu::clear_float_status(device("npu"));
      const Tensor moved = session.run(transpose(reshape(endless, {3, 1})), {});
      for (int64_t i = 0; i < 3; ++i) CHECK(moved.at(i) == kInfinity);
      CHECK(npu::float_status(device("npu")) == 0);
    }
  }
}

TEST_SUITE_END();
