// force_fp32 and cube_fp16in_fp32out compute products of f16 operands with f32 sums and results.
// Operands that were f16 in the graph were raised instead: casts, and a product of f32.
#include <string>

#include <doctest/doctest.h>

#include "keel/backends/npu/options.h"
#include "keel/keel.h"

TEST_SUITE_BEGIN("issues");

namespace {

using namespace keel;

struct Computed {
  std::string decision;
  Tensor value;
};

// 2048 + 1 + 1 + ... of [1, 2048] times [2048, 1]: in f16 a sum of 2048 ends there.
Computed product_in(const std::string& mode, const char* preset, bool wide = false) {
  Graph g;
  Tensor row = Tensor::full(f16, {1, 2048}, 1.0);
  row.set(0, 2048);
  const Value x = g.constant(row), w = g.state("w", ones({2048, 1}, f16));
  const Value sum = cast(matmul(x, w, {.wide = wide}), f32) + 0.0f;
  SessionOptions options;
  options.precision = Precision::named(mode);
  options.device_options = npu::options(preset);
  Session session(g, device("npu"), options);
  const auto report = session.sink({.fetches = {sum}}).compile_report();
  Computed result;
  for (const PrecisionDecision& d : report.precision.decisions) {
    if (d.op == "matmul") result.decision = std::string(name_of(d.dtype)) + " by " + d.rule;
  }
  result.value = session.run(sum);
  return result;
}

}  // namespace

TEST_CASE("products of halves keep f32 sums in the modes that are named for it") {
  for (const char* preset : {"ascend910", "ascend910b1"}) {
    for (const char* mode : {"force_fp32", "cube_fp16in_fp32out"}) {
      CAPTURE(std::string(preset));
      CAPTURE(std::string(mode));
      for (const bool wide : {false, true}) {
        const Computed computed = product_in(mode, preset, wide);
        CHECK(computed.decision == "f16 by products: low (f32 sums)");
        CHECK(computed.value.at(0) == 2048 + 2047);
      }
    }
  }
  // Modes for f32 graphs leave a product of halves as the graph has it: 4095 is no f16.
  const Computed kept = product_in("mixed_fp16", "ascend910b1");
  CHECK(kept.decision == "f16 by products: keep");
  CHECK(kept.value.at(0) == 4096);
}

TEST_SUITE_END();
