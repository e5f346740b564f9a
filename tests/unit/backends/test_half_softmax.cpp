// Softmax, its logarithm, the cross entropy and their gradients in f16 and bf16: computed in f32
// and rounded once, as one task each.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/common/vector/softmax_rows.h"
#include "keel/backends/npu/npu_library.h"
#include "keel/backends/npu/options.h"
#include "keel/backends/registry.h"
#include "keel/graph/autodiff/gradient.h"
#include "keel/graph/ir/emit.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;

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

Tensor in_double(const Tensor& x) {
  Tensor wide(f64, x.shape());
  for (int64_t i = 0; i < x.num_elements(); ++i) wide.set(i, x.at(i));
  return wide;
}

// Counts the elements that are not the expected ones rounded to the dtype: NaN for NaN, the same
// infinity, and finite ones within half a unit in the last place and what f32 rounds.
int64_t count_of_others(const Tensor& results, const Tensor& expected) {
  const double half_ulp = 1.01 * std::ldexp(1.0, results.dtype() == f16 ? -11 : -8);
  constexpr double kOfF32 = 1e-7;
  int64_t others = 0;
  for (int64_t i = 0; i < expected.num_elements(); ++i) {
    const double got = results.at(i), wanted = expected.at(i);
    const bool same = std::isnan(wanted) ? std::isnan(got)
                      : std::isinf(wanted)
                          ? got == wanted
                          : std::abs(got - wanted) <= std::abs(wanted) * half_ulp + kOfF32;
    if (!same) ++others;
  }
  return others;
}

// The gradient of rows x of a softmax y, or of a logarithm, by the factors of its results, in
// double.
Tensor expected_gradient(const Tensor& x, const Tensor& y, const Tensor& factors, bool logarithm) {
  const std::vector<double> logarithms = expected_logarithms(x);
  const int64_t columns = x.shape().back();
  Tensor expected(f64, x.shape());
  for (int64_t row = 0; row < x.num_elements(); row += columns) {
    double total = 0;
    for (int64_t i = row; i < row + columns; ++i)
      total += factors.at(i) * (logarithm ? 1 : y.at(i));
    for (int64_t i = row; i < row + columns; ++i) {
      const double p = std::exp(logarithms[static_cast<size_t>(i)]);
      expected.set(i, logarithm ? factors.at(i) - p * total : (factors.at(i) - total) * y.at(i));
    }
  }
  return expected;
}

// The loss of each row and its gradient for the logits.
std::vector<Tensor> losses(const std::vector<Tensor>& operands, double smoothing,
                           const char* backend, const char* preset = "ascend910b2") {
  Graph g;
  Values in;
  Feeds feeds;
  for (const Tensor& operand : operands) {
    in.push_back(g.input("x" + std::to_string(in.size()), operand.dtype(), operand.shape()));
    feeds.emplace_back(in.back(), operand);
  }
  const CrossEntropyOptions options{.label_smoothing = smoothing};
  Session session(
      g, device(backend),
      {.device_options = std::string(backend) == "npu" ? npu::options(preset) : nullptr});
  return session.run({softmax_cross_entropy(in[0], in[1], options),
                      softmax_cross_entropy_grad(in[0], in[1], in[2], options)},
                     feeds);
}

Tensor labels_of(DType dtype, int64_t rows, int64_t classes) {
  Tensor labels(dtype, {rows});
  for (int64_t i = 0; i < rows; ++i)
    labels.set(i, static_cast<double>(i * 7 % std::min<int64_t>(classes, 256)));
  return labels;
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

TEST_CASE("half softmax: infinities and NaN are what ref makes of them in double") {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  // A pair stands in the middle and at the end of a row whose other elements are finite.
  const std::pair<double, double> planted[] = {{nan, 1},     {1, nan},    {inf, 1},    {1, inf},
                                               {-inf, 1},    {1, -inf},   {inf, -inf}, {inf, inf},
                                               {-inf, -inf}, {nan, -inf}, {2, 1}};
  for (const DType dtype : {f16, bf16}) {
    for (const int64_t columns : {1, 2, 10, 17, 129, 1000}) {
      Tensor x(dtype, {static_cast<int64_t>(std::size(planted)) + 2, columns});
      for (int64_t i = 0; i < x.num_elements(); ++i) x.set(i, static_cast<double>(i % 7) - 3);
      for (size_t row = 0; row < std::size(planted); ++row) {
        const auto first = static_cast<int64_t>(row) * columns;
        x.set(first + columns / 2, planted[row].first);
        x.set(first + columns - 1, planted[row].second);
      }
      for (int64_t i = x.num_elements() - 2 * columns; i < x.num_elements(); ++i)
        x.set(i, i < x.num_elements() - columns ? -inf : inf);
      for (const bool logarithm : {false, true}) {
        CAPTURE(name_of(dtype));
        CAPTURE(columns);
        CAPTURE(logarithm);
        const Tensor expected = computed(in_double(x), logarithm, "ref");
        for (const char* backend : {"cpu", "npu"}) {
          CAPTURE(backend);
          CHECK(count_of_others(computed(x, logarithm, backend), expected) == 0);
        }
      }
    }
  }
}

TEST_CASE("half softmax: rows without elements no rows and single elements") {
  for (const DType dtype : {f16, bf16}) {
    for (const char* backend : {"cpu", "npu"}) {
      for (const bool logarithm : {false, true}) {
        CAPTURE(name_of(dtype));
        CAPTURE(backend);
        CAPTURE(logarithm);
        for (const Shape& shape :
             {Shape{0, 5}, Shape{5, 0}, Shape{0, 0}, Shape{0}, Shape{3, 0, 2}}) {
          const Tensor none = computed(Tensor(dtype, shape), logarithm, backend);
          CHECK(none.shape() == shape);
          CHECK(none.dtype() == dtype);
        }
        Tensor x(dtype, {37, 1});
        for (int64_t i = 0; i < 37; ++i) x.set(i, static_cast<double>(i - 18) * 1000);
        const Tensor ones = computed(x, logarithm, backend);
        for (int64_t i = 0; i < 37; ++i) CHECK(ones.at(i) == (logarithm ? 0 : 1));
      }
    }
  }
}

TEST_CASE("half softmax: losses and gradients are rounded once and the same on cpu and npu") {
  const int64_t rows = 37;
  for (const DType dtype : {f16, bf16}) {
    Tensor one_factor(dtype, {rows}), factors(dtype, {rows});
    for (int64_t i = 0; i < rows; ++i) {
      one_factor.set(i, 1.0 / static_cast<double>(rows));
      factors.set(i, std::cos(static_cast<double>(i)));
    }
    for (const int64_t columns : {1, 10, 16, 17, 129, 9001}) {
      for (const DType ids : {i64, i32, u8}) {
        for (const double smoothing : {0.0, 0.125}) {
          CAPTURE(name_of(dtype));
          CAPTURE(columns);
          CAPTURE(name_of(ids));
          CAPTURE(smoothing);
          const Tensor logits = values_of(dtype, rows, columns, 3);
          const Tensor labels = labels_of(ids, rows, columns);
          const Tensor& upstream = smoothing == 0 ? one_factor : factors;
          const std::vector<Tensor> expected =
              losses({in_double(logits), labels, in_double(upstream)}, smoothing, "ref");
          const std::vector<Tensor> on_cpu = losses({logits, labels, upstream}, smoothing, "cpu");
          const std::vector<Tensor> on_npu = losses({logits, labels, upstream}, smoothing, "npu");
          for (size_t i = 0; i < 2; ++i) {
            CHECK(count_of_others(on_cpu[i], expected[i]) == 0);
            CHECK(std::memcmp(on_cpu[i].raw(), on_npu[i].raw(), on_cpu[i].num_bytes()) == 0);
          }
        }
      }
    }
  }
}

TEST_CASE("half softmax: losses of infinities and NaN are what ref makes of them in double") {
  const double inf = std::numeric_limits<double>::infinity();
  for (const DType dtype : {f16, bf16}) {
    for (const int64_t columns : {2, 10, 17, 1000}) {
      Tensor logits = values_of(dtype, 4, columns, 3);
      const double planted[] = {inf, -inf, std::numeric_limits<double>::quiet_NaN(), 1};
      for (int64_t row = 0; row < 4; ++row)
        logits.set((row + 1) * columns - 1, planted[static_cast<size_t>(row)]);
      const Tensor labels = Tensor::of<int32_t>({4}, {0, 0, 0, 0});
      Tensor ones(dtype, {4});
      for (int64_t i = 0; i < 4; ++i) ones.set(i, 1);
      const std::vector<Tensor> expected =
          losses({in_double(logits), labels, in_double(ones)}, 0, "ref");
      for (const char* backend : {"cpu", "npu"}) {
        CAPTURE(name_of(dtype));
        CAPTURE(columns);
        CAPTURE(backend);
        const std::vector<Tensor> got = losses({logits, labels, ones}, 0, backend);
        for (size_t i = 0; i < 2; ++i) CHECK(count_of_others(got[i], expected[i]) == 0);
      }
    }
  }
}

TEST_CASE("half softmax: gradients of rows are one op rounded once and the same on cpu and npu") {
  for (const DType dtype : {f16, bf16}) {
    for (const int64_t columns : {1, 10, 17, 129, 9001}) {
      const Tensor values = values_of(dtype, 37, columns, 3);
      Tensor factors(dtype, values.shape());
      for (int64_t i = 0; i < factors.num_elements(); ++i)
        factors.set(i, std::cos(0.3 * static_cast<double>(i)));
      for (const bool logarithm : {false, true}) {
        CAPTURE(name_of(dtype));
        CAPTURE(columns);
        CAPTURE(logarithm);
        Graph g;
        const Value x = g.input("x", dtype, values.shape());
        const Value factor = g.input("factor", dtype, values.shape());
        const Value y = logarithm ? log_softmax(x) : softmax(x);
        const Value dx = expand_gradients({y}, {x}, {factor}, CallSite::here())[0];
        CHECK(dx.node().op_name() == (logarithm ? "log_softmax_gradient" : "softmax_gradient"));
        std::vector<Tensor> of_backend;
        for (const char* backend : {"cpu", "npu"}) {
          Session session(g, device(backend));
          const auto got = session.run({dx, y}, {{x, values}, {factor, factors}});
          CHECK(count_of_others(got[0], expected_gradient(values, got[1], factors, logarithm)) ==
                0);
          of_backend.push_back(got[0]);
        }
        CHECK(std::memcmp(of_backend[0].raw(), of_backend[1].raw(), of_backend[0].num_bytes()) ==
              0);
      }
    }
  }
}

TEST_CASE("half softmax: a wrong class id is named with its row") {
  Tensor labels = labels_of(i32, 37, 10);
  labels.set(20, 10);
  for (const char* backend : {"cpu", "npu"}) {
    CAPTURE(backend);
    const std::string text = keel_test::error_of([&] {
      losses({values_of(f16, 37, 10, 3), labels, Tensor(f16, {37})}, 0, backend);
    });
    CHECK(keel_test::contains(text, "class ids from 0 to 9"));
    CHECK(keel_test::contains(text, "10 in row 20"));
  }
}

TEST_CASE("half softmax: each op is one task of either backend") {
  const npu::NpuLibrary library(npu::default_preset());
  for (const DType dtype : {f16, bf16}) {
    Graph g;
    const Value x = g.input("x", dtype, {5, 9}), ids = g.input("ids", i64, {5});
    const Value upstream = g.input("upstream", dtype, {5});
    const Value dy = g.input("dy", dtype, {5, 9});
    for (const Value& y :
         {softmax(x), log_softmax(x), emit("softmax_gradient", {x, dy}, CallSite::here()),
          emit("log_softmax_gradient", {x, dy}, CallSite::here()), softmax_cross_entropy(x, ids),
          softmax_cross_entropy_grad(x, ids, upstream)}) {
      CAPTURE(y.node().op_name());
      CHECK(vector::supports_softmax(y.node()).supported);
      CHECK(library.supports(y.node()).supported);
    }
  }
}

TEST_CASE("half softmax: losses beyond the largest f16 stop there where the device saturates") {
  Tensor logits(f16, {1, 2});
  logits.set(0, 65504);
  logits.set(1, -65504);
  const std::vector<Tensor> operands = {logits, Tensor::of<int32_t>({1}, {1}), Tensor(f16, {1})};
  CHECK(losses(operands, 0, "npu", "ascend910")[0].at(0) == 65504);
  CHECK(std::isinf(losses(operands, 0, "npu", "ascend910b2")[0].at(0)));
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
