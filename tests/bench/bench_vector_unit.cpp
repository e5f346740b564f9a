// The vector unit on one core: bytes moved per second in cache (64 KiB a source) and in memory (64
// MiB), beside plain copies and reads of the same size in the same run; softmax rows at the shapes
// that matter.
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "keel/backends/npu/isa/softmax.h"
#include "keel/backends/npu/isa/vector_reduce.h"
#include "keel/backends/npu/isa/vector_unit.h"

namespace {

using namespace keel;
using namespace keel::npu;

constexpr size_t kInCache = 16 << 10, kInMemory = 16 << 20;  // f32 elements

std::vector<float> random_floats(size_t n) {
  std::vector<float> values(n);
  uint32_t state = 12345;
  for (float& v : values) {
    state = state * 1664525u + 1013904223u;
    v = static_cast<float>(state >> 8) / 8388608.0f - 1.0f;
  }
  return values;
}

void report_bytes(benchmark::State& state, size_t bytes) {
  state.counters["GB/s"] = benchmark::Counter(static_cast<double>(bytes) * 1e-9,
                                              benchmark::Counter::kIsIterationInvariantRate);
}

void instruction(benchmark::State& state, const char* op, int sources, size_t n) {
  const std::vector<float> a = random_floats(n), b = a, c = a;
  std::vector<float> dst(n);
  const VectorInstruction run = find_vector_instruction(op, f32, f32);
  VectorCall call;
  call.dst = dst.data();
  call.src[0] = a.data();
  if (sources > 1) call.src[1] = b.data();
  if (sources > 2) call.src[2] = c.data();
  call.n = n;
  for (auto _ : state) {
    run(call);
    benchmark::ClobberMemory();
  }
  report_bytes(state, (static_cast<size_t>(sources) + 1) * n * sizeof(float));
}

void plain_copy(benchmark::State& state, size_t n) {
  const std::vector<float> a = random_floats(n);
  std::vector<float> dst(n);
  for (auto _ : state) {
    std::memcpy(dst.data(), a.data(), n * sizeof(float));
    benchmark::ClobberMemory();
  }
  report_bytes(state, 2 * n * sizeof(float));
}

void reduction(benchmark::State& state, DType dtype, size_t n) {
  const std::vector<uint8_t> src(n * size_of(dtype), 0);
  const ReduceInstruction run = find_reduce_rows("sum", dtype);
  float sum = 0;
  for (auto _ : state) {
    run({src.data(), 1, n, n, &sum});
    benchmark::DoNotOptimize(sum);
  }
  report_bytes(state, src.size());
}

void softmax_rows(benchmark::State& state, size_t rows, size_t cols) {
  const std::vector<float> src = random_floats(rows * cols);
  std::vector<float> dst(rows * cols);
  const SoftmaxInstruction run = find_softmax();
  for (auto _ : state) {
    run({src.data(), cols, dst.data(), cols, rows, cols});
    benchmark::ClobberMemory();
  }
  report_bytes(state, 2 * rows * cols * sizeof(float));
}

void cross_entropy(benchmark::State& state, size_t rows, size_t cols) {
  const std::vector<float> src = random_floats(rows * cols);
  std::vector<float> dst(rows * cols), loss(rows);
  const std::vector<uint8_t> labels(rows, 1);
  CrossEntropyCall call;
  call.logits = src.data();
  call.stride = call.gradient_stride = call.cols = cols;
  call.rows = rows;
  call.labels = labels.data();
  call.label_dtype = u8;
  call.loss = loss.data();
  call.gradient = dst.data();
  const CrossEntropyInstruction run = find_softmax_cross_entropy();
  for (auto _ : state) {
    run(call);
    benchmark::ClobberMemory();
  }
  report_bytes(state, 2 * rows * cols * sizeof(float));
}

const int registered = [] {
  struct {
    const char* op;
    int sources;
  } constexpr kInstructions[] = {{"add", 2},     {"fma", 3}, {"relu", 1}, {"exp", 1},
                                 {"tanh", 1},    {"log", 1}, {"gelu", 1}, {"sigmoid", 1},
                                 {"maximum", 2}, {"sin", 1}};
  for (const size_t n : {kInCache, kInMemory}) {
    const std::string where = n == kInCache ? "/cache" : "/memory";
    benchmark::RegisterBenchmark(("vector/plain_copy" + where).c_str(),
                                 [n](benchmark::State& s) { plain_copy(s, n); });
    for (const auto& i : kInstructions) {
      benchmark::RegisterBenchmark(
          ("vector/" + std::string(i.op) + where).c_str(),
          [i, n](benchmark::State& s) { instruction(s, i.op, i.sources, n); });
    }
    for (const DType dtype : {f32, f16}) {
      benchmark::RegisterBenchmark(("vector/sum_" + std::string(name_of(dtype)) + where).c_str(),
                                   [dtype, n](benchmark::State& s) { reduction(s, dtype, n); });
    }
  }
  struct {
    size_t rows, cols;
  } constexpr kRows[] = {{100, 10}, {128, 512}, {4096, 1024}};
  for (const auto& r : kRows) {
    const std::string shape = std::to_string(r.rows) + "x" + std::to_string(r.cols);
    benchmark::RegisterBenchmark(("vector/softmax/" + shape).c_str(),
                                 [r](benchmark::State& s) { softmax_rows(s, r.rows, r.cols); });
    benchmark::RegisterBenchmark(("vector/cross_entropy/" + shape).c_str(),
                                 [r](benchmark::State& s) { cross_entropy(s, r.rows, r.cols); });
  }
  return 0;
}();

}  // namespace
