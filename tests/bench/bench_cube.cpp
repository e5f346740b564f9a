// The cube's products beside the peak of fused multiply-adds and Eigen, one thread, in one run:
// compare the GFLOP/s columns. Operands are random; the cube packs them anew in each product, as
// Eigen does.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "keel/backends/npu/isa/cube.h"
#include "keel/backends/npu/isa/host_isa.h"
#include "keel/core/base/half.h"

namespace {

using namespace keel;
using namespace keel::npu;

struct Shape {
  size_t m, k, n;
  bool transpose_a;
};
constexpr Shape kShapes[] = {{512, 512, 512, false},    {1024, 1024, 1024, false},
                             {2048, 2048, 2048, false}, {100, 784, 10, false},
                             {784, 100, 10, true},      {128, 784, 512, false},
                             {784, 128, 512, true},     {37, 129, 53, false},
                             {1, 784, 512, false},      {512, 784, 1, false}};

std::vector<float> random_floats(size_t n) {
  std::vector<float> values(n);
  uint32_t state = 12345;
  for (float& v : values) {
    state = state * 1664525u + 1013904223u;
    v = static_cast<float>(state >> 8) / 16777216.0f - 0.5f;
  }
  return values;
}

void report(benchmark::State& state, const Shape& s) {
  const double flop =
      2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
  state.counters["GFLOP/s"] =
      benchmark::Counter(flop * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

std::string name_of_shape(const Shape& s) {
  return std::to_string(s.m) + "x" + std::to_string(s.k) + "x" + std::to_string(s.n) +
         (s.transpose_a ? "_a_transposed" : "");
}

void run_cube(benchmark::State& state, const Shape& s, DType dtype) {
  const auto a = random_floats(s.m * s.k), b = random_floats(s.k * s.n);
  std::vector<uint16_t> narrow_a(a.size()), narrow_b(b.size());
  for (size_t i = 0; i < a.size(); ++i) narrow_a[i] = BFloat16(a[i]).bits;
  for (size_t i = 0; i < b.size(); ++i) narrow_b[i] = BFloat16(b[i]).bits;
  std::vector<float> c(s.m * s.n);
  CubeProblem problem;
  problem.m = s.m;
  problem.n = s.n;
  problem.k = s.k;
  problem.a = problem.b = dtype;
  problem.transpose_a = s.transpose_a;
  const CubePlan plan = plan_cube(problem);
  const size_t bytes = (cube_scratch_bytes(plan, s.m, s.n) + 4095) / 4096 * 4096;
  const std::unique_ptr<void, decltype(&std::free)> scratch(std::aligned_alloc(4096, bytes),
                                                            &std::free);
  CubeArgs args;
  args.a = dtype == f32 ? static_cast<const void*>(a.data()) : narrow_a.data();
  args.a_stride = s.transpose_a ? s.m : s.k;
  args.b = dtype == f32 ? static_cast<const void*>(b.data()) : narrow_b.data();
  args.b_stride = s.n;
  args.c = c.data();
  args.c_stride = s.n;
  for (auto _ : state) {
    cube_block(plan, args, {0, s.m, 0, s.n}, scratch.get());
    benchmark::ClobberMemory();
  }
  report(state, s);
}

// Independent multiply-adds on registers: what the processor can do at this moment.
void fma_peak(benchmark::State& state) {
#if defined(__x86_64__)
  if (host_isa() < HostIsa::kAvx512) {
    state.SkipWithError("the peak loop is written for AVX-512");
    return;
  }
  constexpr long kTurns = 10000, kChains = 24, kLanes = 16;
  const auto operands = random_floats(32);
  for (auto _ : state) {
    long turns = kTurns;
    asm volatile(
        "vmovups (%1), %%zmm24\n vmovups 64(%1), %%zmm25\n"
        "1:\n"
        ".irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23\n"
        "vfmadd231ps %%zmm24, %%zmm25, %%zmm\\r\n"
        ".endr\n"
        "dec %0\n jnz 1b\n"
        : "+r"(turns)
        : "r"(operands.data())
        : "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",
          "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
  }
  state.counters["GFLOP/s"] = benchmark::Counter(2e-9 * kTurns * kChains * kLanes,
                                                 benchmark::Counter::kIsIterationInvariantRate);
#else
  state.SkipWithError("the peak loop is written for x86-64");
#endif
}

const int registered = [] {
  benchmark::RegisterBenchmark("cube/fma_peak", &fma_peak);
  for (const Shape& s : kShapes) {
    benchmark::RegisterBenchmark(("cube/f32/" + name_of_shape(s)).c_str(),
                                 [&s](benchmark::State& state) { run_cube(state, s, f32); });
  }
  for (const Shape& s : kShapes) {
    benchmark::RegisterBenchmark(("cube/bf16/" + name_of_shape(s)).c_str(),
                                 [&s](benchmark::State& state) { run_cube(state, s, bf16); });
  }
  return 0;
}();

}  // namespace
