// Sessions and trainings under a precision: on every backend, close to f32, the same to the last
// bit however it is run.
#include <cmath>
#include <cstring>

#include <doctest/doctest.h>
#include <keel/keel.h>

#include "keel/core/base/parallel_for.h"

#include "runtime_for_tests.h"
#include "support/built_in_backends.h"
#include "support/fusion.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::testing;
using keel_test::kBuiltInBackends;

constexpr int64_t kBatch = 16;
constexpr int64_t kInputs = 20;

// A small mlp with tanh, adam and sums along the batch.
struct SmallModel {
  SmallModel() {
    const Value hidden = tanh(dense(x, 33, {.name = "hidden"}));
    loss = mean(softmax_cross_entropy(dense(hidden, 5, {.name = "logits"}), label));
    update = adam(0.01).minimize(loss);
  }
  Graph graph;
  Value x = graph.input("x", f32, {kBatch, kInputs});
  Value label = graph.input("label", i32, {kBatch});
  Value loss;
  Update update;
};

std::shared_ptr<NumberFeeder> batches(Device device) {
  const ElementSpec element{{{"x", {f32, {kBatch, kInputs}}}, {"label", {i32, {kBatch}}}}};
  auto feeder = std::make_shared<NumberFeeder>(
      device, element, [](int64_t i, const std::vector<void*>& fields) {
        auto* x = static_cast<float*>(fields[0]);
        auto* label = static_cast<int32_t*>(fields[1]);
        for (int64_t row = 0; row < kBatch; ++row) {
          const int64_t kind = (i * 7 + row * 3) % 5;
          label[row] = static_cast<int32_t>(kind);
          for (int64_t column = 0; column < kInputs; ++column) {
            const auto phase = static_cast<double>(column * (kind + 1) + row + i);
            *x++ = static_cast<float>(std::sin(0.3 * phase) + (column % 5 == kind ? 1 : 0));
          }
        }
        return true;
      });
  feeder->open({});
  return feeder;
}

struct PrecisionRun {
  std::vector<double> losses;
  std::string sha256;
};

PrecisionRun train_with_precision(const std::string& backend, const std::string& precision,
                                  bool fuse = true, int64_t loop_size = 40) {
  constexpr int64_t kSteps = 40;
  SmallModel m;
  Session session(
      m.graph, device(backend),
      {.disabled_passes = keel_test::fusion(fuse), .precision = Precision::named(precision)});
  const auto feeder = batches(session.device());
  Loop loop = session.sink({.update = m.update, .fetches = {m.loss}, .source = feeder});
  CHECK(loop.compile_report().precision.mode == precision);
  CHECK(loop.compile_report().precision.decisions.empty() == (precision == "fp32"));
  PrecisionRun result;
  for (int64_t done = 0; done < kSteps; done += loop_size) {
    const LoopReport report = loop.run(std::min(loop_size, kSteps - done));
    const auto row = report[m.loss];
    result.losses.insert(result.losses.end(), row.begin(), row.end());
  }
  result.sha256 = session.state_sha256();
  return result;
}

}  // namespace

TEST_CASE("precision: losses of a mixed training stay close to those of f32") {
  for (const std::string& backend : kBuiltInBackends) {
    CAPTURE(backend);
    const PrecisionRun full = train_with_precision(backend, "fp32");
    REQUIRE(full.losses.back() < 0.7 * full.losses.front());
    // Operands are off by 2^-9 (bf16) and 2^-12 (f16) at most; the way there may drift by more.
    for (const std::string mode : {"mixed_bf16", "mixed_fp16"}) {
      const double bound = mode == "mixed_bf16" ? 0.02 : 0.003;
      CAPTURE(mode);
      const PrecisionRun mixed = train_with_precision(backend, mode);
      REQUIRE(mixed.losses.size() == full.losses.size());
      for (size_t i = 0; i < full.losses.size(); ++i) {
        CHECK(std::fabs(mixed.losses[i] - full.losses[i]) <= bound * full.losses[i]);
      }
      CHECK(mixed.sha256 != full.sha256);
    }
  }
}

TEST_CASE("precision: no bit depends on loop size or threads or fusion") {
  for (const char* backend : {"cpu", "npu"}) {
    for (const char* mode : {"mixed_bf16", "mixed_fp16", "allow_fp32_to_fp16", "mixed_float16",
                             "mixed_bfloat16", "force_fp32"}) {
      CAPTURE(backend);
      CAPTURE(mode);
      const PrecisionRun expected = train_with_precision(backend, mode);
      for (const int count : {1, 2, 3}) {
        const ComputeThreads some(count);
        for (const bool fuse : {true, false}) {
          const PrecisionRun other = train_with_precision(backend, mode, fuse, count * 7);
          CHECK(other.losses == expected.losses);
          CHECK(other.sha256 == expected.sha256);
        }
      }
    }
  }
}

TEST_CASE("precision: the backends agree on a mixed step") {
  const PrecisionRun oracle = train_with_precision("ref", "mixed_bf16");
  for (const char* backend : {"cpu", "npu"}) {
    CAPTURE(backend);
    const PrecisionRun other = train_with_precision(backend, "mixed_bf16");
    // Sums in another order may round an operand of the next product the other way.
    for (size_t i = 0; i < oracle.losses.size(); ++i) {
      CHECK(std::fabs(other.losses[i] - oracle.losses[i]) <= 0.01 * oracle.losses[i]);
    }
  }
}

TEST_CASE("precision: gradients through a loop train as well") {
  for (const std::string& backend : kBuiltInBackends) {
    CAPTURE(backend);
    const auto losses_of = [&](const char* precision) {
      Graph g;
      const Value w = g.state("w", from_tensor(Tensor::of<float>({2, 2}, {0.5, 0.25, -0.25, 0.5})));
      const Value x = g.constant(Tensor::of<float>({1, 2}, {1, 2}));
      const Values out = while_loop(
          {x, g.constant(Tensor::scalar<int64_t>(0))},
          [](const Values& v) { return less(v[1], 3); },
          [&](const Values& v) {
            return Values{matmul(v[0], w) + x, v[1] + 1};
          },
          {.trip_count = 3});
      const Value loss = sum(square(out[0] - 1.0f));
      const Update update = sgd(0.005).minimize(loss);
      Session session(g, device(backend), {.precision = precision});
      std::vector<float> losses;
      for (int i = 0; i < 8; ++i) losses.push_back(session.run(update, {loss})[0].item<float>());
      return losses;
    };
    const auto full = losses_of("fp32"), mixed = losses_of("mixed_bf16");
    CHECK(full.back() < full.front());
    for (size_t i = 0; i < full.size(); ++i) {
      CHECK(std::fabs(mixed[i] - full[i]) <= 0.03f * full[0]);
    }
  }
}

TEST_CASE("precision: a session refuses a mode that it does not know") {
  SmallModel m;
  const std::string text =
      error_of([&] { Session(m.graph, device("cpu"), {.precision = "half"}); });
  CHECK(contains(text, "one of fp32, mixed_bf16, mixed_fp16"));
}

TEST_CASE("precision: each decision is in the log") {
  const LogLevel before = log_level();
  std::vector<std::string> lines;
  set_log_sink([&](LogLevel, const std::string& line) { lines.push_back(line); });
  set_log_level(LogLevel::kInfo);
  SmallModel m;
  Session session(m.graph, device("cpu"), {.precision = "mixed_bf16"});
  const Loop loop =
      session.sink({.update = m.update, .fetches = {m.loss}, .source = batches(session.device())});
  set_log_level(before);
  set_log_sink({});
  size_t products = 0, told = 0;
  for (const std::string& line : lines) {
    if (line.rfind("precision mixed_bf16: ", 0) != 0) continue;
    ++told;
    if (contains(line, "matmul: bf16 by products: low (f32 sums), ")) ++products;
  }
  // Two products forward and three backward: nothing asks for the gradient of x.
  CHECK(products == 5);
  CHECK(told == loop.compile_report().precision.decisions.size());
}

TEST_SUITE_END();
