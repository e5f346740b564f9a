// Compiling a product filled in the cube's kernels anew, while another thread multiplied by them:
// wrong sums, or a call of no function. In the suite "loop", so that ThreadSanitizer sees it.
#include <atomic>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/common/cube/cube.h"

TEST_SUITE_BEGIN("loop");

TEST_CASE("products may be compiled while another thread computes one") {
  using namespace keel;
  constexpr size_t kM = 32, kN = 10, kK = 300;
  for (const DType rounded : {bf16, f32}) {
    CubeProblem problem{.m = kM, .n = kN, .k = kK};
    problem.round_to = rounded;
    const CubePlan plan = plan_cube(problem);
    const std::vector<float> a(kM * kK, 1.0f), b(kK * kN, 1.0f);
    std::vector<float> c(kM * kN);
    const size_t scratch_bytes = cube_scratch_bytes(plan, kM, kN);
    std::vector<char> scratch(scratch_bytes + 64);
    char* aligned = scratch.data() + (64 - reinterpret_cast<size_t>(scratch.data()) % 64) % 64;
    CubeArgs args{.a = a.data(), .a_stride = kK, .b = b.data()};
    args.b_stride = kN;
    args.c = c.data();
    args.c_stride = kN;
    std::atomic<bool> stop{false};
    std::thread compiler([&] {
      while (!stop) plan_cube(problem);
    });
    bool exact = true;
    for (int run = 0; run < 20000 && exact; ++run) {
      cube_block(plan, args, {0, kM, 0, kN}, aligned);
      for (const float sum : c) exact = exact && sum == static_cast<float>(kK);
    }
    stop = true;
    compiler.join();
    CHECK(exact);
  }
}

TEST_SUITE_END();
