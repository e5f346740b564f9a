// Softmax and its logarithm in f16 and bf16: computed in f32 and rounded once, as one task.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/npu/options.h"
#include "keel/backends/registry.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"

using namespace keel;

TEST_SUITE_BEGIN("unit");

namespace {

Tensor values_of(DType dtype, int64_t rows, int64_t columns, double scale) {
  Tensor x(dtype, {rows, columns});
  for (int64_t i = 0; i < rows * columns; ++i)
    x.set(i, scale * std::sin(0.7 * static_cast<double>(i)) + static_cast<double>(i % 5));
  return x;
}

Tensor computed(const Tensor& x, bool logarithm, const char* name) {
  Graph g;
  const Value in = g.input("x", x.dtype(), x.shape());
  Session session(
      g, device(name),
      {.device_options = std::string(name) == "npu" ? npu::options("ascend910b2") : nullptr});
  return session.run(logarithm ? log_softmax(in) : softmax(in), {{in, x}});
}

// The logarithm of each element of softmax, in double.
std::vector<double> expected_logarithms(const Tensor& x) {
  const int64_t columns = x.shape().back();
  std::vector<double> logarithms;
  for (int64_t row = 0; row < x.num_elements(); row += columns) {
    double top = x.at(row), sum = 0;
    for (int64_t i = row; i < row + columns; ++i) top = std::max(top, x.at(i));
    for (int64_t i = row; i < row + columns; ++i) sum += std::exp(x.at(i) - top);
    for (int64_t i = row; i < row + columns; ++i)
      logarithms.push_back(x.at(i) - top - std::log(sum));
  }
  return logarithms;
}

}  // namespace

TEST_CASE("half softmax: results are rounded once from f32 and the same on cpu and npu") {
  for (const DType dtype : {f16, bf16}) {
    // Half a unit in the last place, and 1 % of that for what f32 rounds.
    const double half_ulp = 1.01 * std::ldexp(1.0, dtype == f16 ? -11 : -8);
    const double smallest = std::ldexp(1.0, -24);
    for (const int64_t columns : {1, 10, 17, 129, 1000, 9001}) {
      const Tensor x = values_of(dtype, 37, columns, 3);
      const std::vector<double> logarithms = expected_logarithms(x);
      for (const bool logarithm : {false, true}) {
        CAPTURE(name_of(dtype));
        CAPTURE(columns);
        CAPTURE(logarithm);
        const Tensor on_cpu = computed(x, logarithm, "cpu"), on_npu = computed(x, logarithm, "npu");
        int64_t apart = 0, wrong = 0;
        for (int64_t i = 0; i < x.num_elements(); ++i) {
          const double log = logarithms[static_cast<size_t>(i)];
          const double expected = logarithm ? log : std::exp(log);
          if (on_cpu.at(i) != on_npu.at(i)) ++apart;
          // A logarithm near 0 is the difference of what f32 has rounded.
          const double bound =
              std::abs(expected) * half_ulp + std::max(smallest, logarithm ? 1e-6 : 0);
          if (!(std::abs(on_npu.at(i) - expected) <= bound)) ++wrong;
        }
        CHECK(apart == 0);
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("half softmax: logarithms beyond the largest f16 stop there where the device saturates") {
  Tensor x(f16, {1, 2});
  x.set(0, 65504);
  x.set(1, -65504);
  Graph g;
  const Value in = g.input("x", f16, {1, 2});
  const auto run = [&](const char* preset) {
    Session session(g, device("npu"), {.device_options = npu::options(preset)});
    return session.run(log_softmax(in), {{in, x}}).at(1);
  };
  CHECK(run("ascend910") == -65504);
  CHECK(std::isinf(run("ascend910b2")));
}

TEST_SUITE_END();
