// Reductions and softmax of the vector library in f32 and 16 bits, against loops in double.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/common/vector/reductions.h"
#include "keel/backends/common/vector/softmax.h"
#include "keel/core/base/half.h"

#include "vector_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace vector_test;

std::vector<float> random_floats(size_t n, float scale = 1.0f) {
  Numbers numbers(n + 17);
  std::vector<float> values(n);
  for (float& v : values) v = numbers.uniform() * scale;
  return values;
}

double reduce_exactly(const std::string& op, const float* v, size_t n, size_t step = 1) {
  double result = op == "sum" ? 0 : op == "prod" ? 1 : op == "max" ? -INFINITY : INFINITY;
  for (size_t i = 0; i < n; ++i) {
    const double x = static_cast<double>(v[i * step]);
    if (std::isnan(x) || std::isnan(result)) {
      result = NAN;
    } else if (op == "sum") {
      result += x;
    } else if (op == "prod") {
      result *= x;
    } else {
      result = op == "max" ? std::max(result, x) : std::min(result, x);
    }
  }
  return result;
}

constexpr const char* kOps[] = {"sum", "prod", "max", "min"};

void softmax_exactly(const float* row, size_t cols, std::vector<double>& p, double& log_sum,
                     double& top) {
  top = -INFINITY;
  for (size_t c = 0; c < cols; ++c) top = std::max(top, static_cast<double>(row[c]));
  double sum = 0;
  for (size_t c = 0; c < cols; ++c) sum += std::exp(static_cast<double>(row[c]) - top);
  p.resize(cols);
  for (size_t c = 0; c < cols; ++c) p[c] = std::exp(static_cast<double>(row[c]) - top) / sum;
  log_sum = std::log(sum);
}

}  // namespace

TEST_CASE("vector reduce: rows and columns of floats") {
  on_every_isa([] {
    for (const size_t cols : {0u, 1u, 3u, 10u, 16u, 17u, 63u, 64u, 65u, 200u, 1000u}) {
      const size_t rows = 5, stride = cols + 3;
      auto src = random_floats(rows * stride);
      for (float& v : src) v += v > 0 ? 0.6f : -0.6f;  // keeps products within range
      for (const char* op : kOps) {
        CAPTURE(std::string(op));
        CAPTURE(cols);
        std::vector<float> by_row(rows), by_column(cols + 1, 7.0f);
        for (float& v : by_column) vector::find_reduction(op, f32).identity(op, f32, &v);
        by_column[cols] = 7.0f;
        ReduceCall call{src.data(), rows, cols, stride, by_row.data()};
        vector::find_reduction(op, f32).rows(call);
        for (size_t r = 0; r < rows; ++r) {
          const double exact = reduce_exactly(op, src.data() + r * stride, cols);
          if (std::isinf(exact)) {
            CHECK(static_cast<double>(by_row[r]) == exact);
          } else {
            const double size = op == std::string("sum")
                                    ? static_cast<double>(cols)
                                    : std::fabs(exact) * static_cast<double>(cols);
            CHECK(std::fabs(static_cast<double>(by_row[r]) - exact) <= 2e-7 * size + 1e-30);
          }
        }
        call.dst = by_column.data();
        vector::find_reduction(op, f32).columns(call);
        for (size_t c = 0; c < cols; ++c) {
          const double exact = reduce_exactly(op, src.data() + c, rows, stride);
          CHECK(std::fabs(static_cast<double>(by_column[c]) - exact) <= 2e-6);
        }
        CHECK(by_column[cols] == 7.0f);
      }
    }
  });
}

TEST_CASE("vector reduce: equal bits whatever the address") {
  const auto values = random_floats(3000);
  on_every_isa([&] {
    for (const size_t n : {37u, 777u, 2999u}) {
      std::vector<float> results;
      for (size_t shift = 0; shift < 17; ++shift) {
        std::vector<float> moved(n + shift);
        std::copy(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(n),
                  moved.begin() + static_cast<std::ptrdiff_t>(shift));
        float sum = 0;
        vector::find_reduction("sum", f32).rows({moved.data() + shift, 1, n, n, &sum});
        results.push_back(sum);
      }
      for (const float r : results) CHECK(std::memcmp(&r, &results[0], sizeof(r)) == 0);
    }
  });
}

TEST_CASE("vector reduce: 16-bit floats accumulate in f32 and integers in i64") {
  on_every_isa([] {
    std::vector<uint16_t> halves(5000, Half(1.0f).bits), bfloats(5000, BFloat16(1.0f).bits);
    float sum = 0;
    vector::find_reduction("sum", f16).rows({halves.data(), 1, 5000, 5000, &sum});
    CHECK(sum == 5000.0f);
    vector::find_reduction("sum", bf16).rows({bfloats.data(), 1, 5000, 5000, &sum});
    CHECK(sum == 5000.0f);
    const std::vector<int32_t> ints(3, std::numeric_limits<int32_t>::max());
    int64_t total = 0;
    vector::find_reduction("sum", i32).rows({ints.data(), 1, 3, 3, &total});
    CHECK(total == 3LL * std::numeric_limits<int32_t>::max());
    const std::vector<uint8_t> bytes = {3, 200, 7, 200};
    vector::find_reduction("max", u8).rows({bytes.data(), 1, 4, 4, &total});
    CHECK(total == 200);
    vector::find_reduction("sum", boolean).rows({bytes.data(), 1, 0, 0, &total});
    CHECK(total == 0);
    std::vector<int64_t> columns(2, 0);
    vector::find_reduction("sum", u8).columns({bytes.data(), 2, 2, 2, columns.data()});
    CHECK(columns == std::vector<int64_t>{10, 400});
    CHECK(!vector::find_reduction("median", f32).complete());
  });
}

TEST_CASE("vector reduce: NaN wins in max and min") {
  on_every_isa([] {
    for (const size_t n : {1u, 10u, 40u, 100u}) {
      for (size_t at = 0; at < n; at += 3) {
        std::vector<float> v(n, 1.0f);
        float result = 0;
        v[at] = std::numeric_limits<float>::quiet_NaN();
        for (const char* op : {"max", "min"}) {
          vector::find_reduction(op, f32).rows({v.data(), 1, n, n, &result});
          CHECK(std::isnan(result));
        }
      }
    }
  });
}

TEST_CASE("vector softmax: rows and logarithms") {
  on_every_isa([] {
    for (const size_t cols : {1u, 2u, 10u, 16u, 17u, 31u, 512u, 1000u}) {
      const size_t rows = 21, stride = cols + 2;
      const auto src = random_floats(rows * stride, 30.0f);
      std::vector<float> dst(rows * stride, 99.0f), logs = dst;
      CAPTURE(cols);
      vector::find_softmax(f32)({src.data(), stride, dst.data(), stride, rows, cols});
      vector::find_log_softmax(f32)({src.data(), stride, logs.data(), stride, rows, cols});
      std::vector<double> p;
      double log_sum = 0, top = 0;
      for (size_t r = 0; r < rows; ++r) {
        softmax_exactly(src.data() + r * stride, cols, p, log_sum, top);
        for (size_t c = 0; c < cols; ++c) {
          const size_t at = r * stride + c;
          // The difference to the maximum is rounded before the exponential magnifies it.
          const double shift = std::fabs(static_cast<double>(src[at]) - top);
          CHECK(std::fabs(static_cast<double>(dst[at]) - p[c]) <=
                (1e-6 + 1.2e-7 * shift) * p[c] + 1e-37);
          const double exact = static_cast<double>(src[at]) - top - log_sum;
          CHECK(std::fabs(static_cast<double>(logs[at]) - exact) <= 1e-6 * std::fabs(exact) + 5e-7);
        }
        CHECK(dst[r * stride + cols] == 99.0f);
        CHECK(logs[r * stride + cols] == 99.0f);
      }
      auto in_place = src;
      vector::find_softmax(f32)({in_place.data(), stride, in_place.data(), stride, rows, cols});
      for (size_t r = 0; r < rows; ++r) {
        CHECK(std::memcmp(&in_place[r * stride], &dst[r * stride], cols * sizeof(float)) == 0);
      }
    }
  });
}

TEST_CASE("vector softmax: large logits stay finite and NaN stays in its row") {
  on_every_isa([] {
    for (const size_t cols : {10u, 40u}) {
      std::vector<float> x(3 * cols, 1e30f), y(3 * cols);
      x[cols + 4] = std::numeric_limits<float>::quiet_NaN();
      x[2 * cols] = -std::numeric_limits<float>::infinity();
      vector::find_softmax(f32)({x.data(), cols, y.data(), cols, 3, cols});
      for (size_t c = 0; c < cols; ++c) {
        CHECK(std::fabs(y[c] - 1.0f / static_cast<float>(cols)) < 1e-6f);
        CHECK(std::isnan(y[cols + c]));
      }
      CHECK(y[2 * cols] == 0.0f);
    }
  });
}

TEST_CASE("vector softmax: cross entropy with its gradient") {
  on_every_isa([] {
    for (const size_t cols : {1u, 2u, 10u, 16u, 33u, 512u}) {
      for (const float smoothing : {0.0f, 0.1f}) {
        const size_t rows = 37, stride = cols;
        const auto logits = random_floats(rows * stride, 8.0f);
        std::vector<uint8_t> bytes(rows);
        std::vector<int32_t> words(rows);
        std::vector<int64_t> longs(rows);
        for (size_t r = 0; r < rows; ++r) {
          bytes[r] = static_cast<uint8_t>(r * 7 % cols % 250);
          words[r] = bytes[r];
          longs[r] = bytes[r];
        }
        std::vector<float> loss(rows), gradient(rows * stride);
        vector::CrossEntropyCall call;
        call.logits = logits.data();
        call.stride = stride;
        call.rows = rows;
        call.cols = cols;
        call.labels = bytes.data();
        call.label_dtype = u8;
        call.smoothing = smoothing;
        call.scale = 0.125f;
        call.loss = loss.data();
        call.gradient = gradient.data();
        call.gradient_stride = stride;
        const auto kernel = vector::find_softmax_cross_entropy(f32);
        CHECK(kernel(call) == -1);
        CAPTURE(cols);
        CAPTURE(smoothing);
        std::vector<double> p;
        double log_sum = 0, top = 0;
        const double s = static_cast<double>(smoothing);
        for (size_t r = 0; r < rows; ++r) {
          softmax_exactly(&logits[r * stride], cols, p, log_sum, top);
          double exact_loss = 0;
          for (size_t c = 0; c < cols; ++c) {
            const double q = s / static_cast<double>(cols) + (c == bytes[r] ? 1.0 - s : 0.0);
            exact_loss -= q * (static_cast<double>(logits[r * stride + c]) - top - log_sum);
            const double exact = (p[c] - q) * 0.125;
            CHECK(std::fabs(static_cast<double>(gradient[r * stride + c]) - exact) <= 1e-7);
          }
          CHECK(std::fabs(static_cast<double>(loss[r]) - exact_loss) <= 1e-6 * (1.0 + exact_loss));
        }
        // The other label dtypes, in place, and without either output.
        std::vector<float> in_place = logits, other_loss(rows);
        call.logits = in_place.data();
        call.gradient = in_place.data();
        call.labels = words.data();
        call.label_dtype = i32;
        call.loss = other_loss.data();
        CHECK(kernel(call) == -1);
        CHECK(same_bits(in_place, gradient));
        CHECK(same_bits(other_loss, loss));
        call.logits = logits.data();
        call.labels = longs.data();
        call.label_dtype = i64;
        call.gradient = nullptr;
        CHECK(kernel(call) == -1);
        CHECK(same_bits(other_loss, loss));
      }
    }
  });
}

TEST_CASE("vector softmax: a label out of range is told and nothing is written") {
  on_every_isa([] {
    const auto logits = random_floats(40);
    std::vector<int32_t> labels = {0, 9, 10, 3};
    std::vector<float> loss(4, 5.0f), gradient(40, 6.0f);
    vector::CrossEntropyCall call;
    call.logits = logits.data();
    call.stride = call.cols = call.gradient_stride = 10;
    call.rows = 4;
    call.labels = labels.data();
    call.loss = loss.data();
    call.gradient = gradient.data();
    CHECK(vector::find_softmax_cross_entropy(f32)(call) == 2);
    labels[2] = -1;
    CHECK(vector::find_softmax_cross_entropy(f32)(call) == 2);
    CHECK(loss == std::vector<float>(4, 5.0f));
    CHECK(gradient == std::vector<float>(40, 6.0f));
  });
}

TEST_SUITE_END();
