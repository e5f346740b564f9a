#include "keel/backends/common/cube/kernel_rates.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <limits>
#include <memory>
#include <utility>

#include "keel/backends/common/cube/cube.h"
#include "keel/core/base/half.h"
#include "keel/core/tensor/buffer.h"

namespace keel {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kSeconds = 0.03;  // of this thread
// Products of a turn: the first finds in the caches what others left there.
constexpr int kAtOnce = 2;

// Counts what this thread computed, not how long others kept it from computing: beside a busy
// machine's work there are as many turns.
double seconds_of_this_thread() {
  timespec now{};
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) != 0) {
    return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
  }
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Returns a product that stands for its class, small enough for the second cache level.
CubeProblem problem_of(ShapeClass shape, DType dtype) {
  CubeProblem p;
  p.a = p.b = dtype;
  switch (shape) {
    case ShapeClass::kSquare:
      p.m = 64;
      p.k = 256;
      p.n = 128;
      break;
    case ShapeClass::kRows:
      p.m = 96;
      p.k = 784;
      p.n = 10;
      break;
    case ShapeClass::kColumns:
      p.m = 784;
      p.k = 96;
      p.n = 10;
      p.transpose_a = true;
      break;
    case ShapeClass::kVector:
      p.m = 1;
      p.k = 256;
      p.n = 512;
      break;
    case ShapeClass::kSmall:
      p.m = p.n = p.k = 64;
      break;
  }
  // Products with few columns are measured as a first layer's are: with bytes on the left, and a
  // packed right operand where a training keeps one.
  const bool first_layer = shape == ShapeClass::kRows || shape == ShapeClass::kColumns;
  if (first_layer && dtype != f16) {
    p.a = u8;
    p.round_to = dtype;
  }
  p.packed_b = dtype == bf16 && cube_takes_packed(p);
  return p;
}

vector::ByteMap scaled_bytes(DType round_to) {
  float table[256];
  for (int i = 0; i < 256; ++i) table[i] = static_cast<float>(i) / 255.0f;
  return vector::make_byte_map(table, round_to);
}

// Bytes, or small numbers of both signs: some processors multiply zeros faster.
void fill(void* to, DType dtype, size_t count) {
  uint32_t state = 12345;
  for (size_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    const float value = static_cast<float>(state >> 8) / 16777216.0f - 0.5f;
    if (dtype == u8) static_cast<uint8_t*>(to)[i] = static_cast<uint8_t>(state >> 24);
    if (dtype == f32) static_cast<float*>(to)[i] = value;
    if (dtype == f16) static_cast<Half*>(to)[i] = Half(value);
    if (dtype == bf16) static_cast<BFloat16*>(to)[i] = BFloat16(value);
  }
}

// One cell's product, ready to run.
class Probe {
 public:
  explicit Probe(const KernelRate& cell)
      : plan_(plan_cube_by(problem_of(cell.shape, cell.dtype), cell.kernel)),
        bytes_(scaled_bytes(plan_.problem.round_to)) {
    const CubeProblem& p = plan_.problem;
    a_ = operand(p.a, p.m * p.k);
    b_ = operand(p.b, p.k * p.n);
    if (p.packed_b) {
      const auto stored = std::exchange(b_, allocate_host_buffer(cube_packed_bytes(plan_)));
      cube_pack(plan_, stored->address(), p.n, {0, p.k, 0, p.n}, b_->address());
    }
    c_ = allocate_host_buffer(p.m * p.n * sizeof(float));
    scratch_ = allocate_host_buffer(cube_scratch_bytes(plan_, p.m, p.n));
  }

  void run() {
    const CubeProblem& p = plan_.problem;
    CubeArgs args;
    args.a = a_->address();
    args.a_stride = p.transpose_a ? p.m : p.k;
    args.b = b_->address();
    args.b_stride = p.n;
    args.c = static_cast<float*>(c_->address());
    args.c_stride = p.n;
    args.bytes = &bytes_;
    for (int i = 0; i < kAtOnce; ++i) {
      const auto start = Clock::now();
      cube_block(plan_, args, {0, p.m, 0, p.n}, scratch_->address());
      least_ = std::min(least_, std::chrono::duration<double>(Clock::now() - start).count());
    }
  }

  double gflops() const {
    const CubeProblem& p = plan_.problem;
    return 2e-9 * static_cast<double>(p.m * p.n * p.k) / least_;
  }

 private:
  static std::shared_ptr<Buffer> operand(DType dtype, size_t count) {
    auto buffer = allocate_host_buffer(count * size_of(dtype));
    fill(buffer->address(), dtype, count);
    return buffer;
  }

  CubePlan plan_;
  vector::ByteMap bytes_;  // what is applied to A if it is bytes
  std::shared_ptr<Buffer> a_, b_, c_, scratch_;
  double least_ = std::numeric_limits<double>::max();  // seconds
};

}  // namespace

KernelRates rate_cells(vector::HostIsa isa) {
  KernelRates rates;
  std::vector<KernelRate>& cells = rates.cells;
  for (const ShapeClass shape : vector::kAllShapeClasses) {
    cells.push_back({f32, shape, ProductKernel::kF32});
    cells.push_back({f16, shape, ProductKernel::kWidening});
    for (const ProductKernel kernel : vector::product_kernels_of(isa))
      cells.push_back({bf16, shape, kernel});
  }
  return rates;
}

KernelRates measure_kernel_rates() {
  const double start = seconds_of_this_thread();
  KernelRates rates = rate_cells(vector::host_isa());
  std::vector<Probe> probes(rates.cells.begin(), rates.cells.end());
  for (; rates.turns == 0 || seconds_of_this_thread() - start < kSeconds; ++rates.turns) {
    for (Probe& probe : probes) probe.run();
  }
  for (size_t i = 0; i < probes.size(); ++i) rates.cells[i].gflops = probes[i].gflops();
  return rates;
}

ProductKernels choose_product_kernels(vector::HostIsa isa, const KernelRates& rates) {
  ProductKernels chosen = vector::own_product_kernels(isa);
  if (rates.turns < kLeastTurns) return chosen;
  for (const ShapeClass shape : vector::kAllShapeClasses) {
    const auto rate_of = [&](ProductKernel kernel) {
      for (const KernelRate& rate : rates.cells) {
        if (rate.dtype == bf16 && rate.shape == shape && rate.kernel == kernel) return rate.gflops;
      }
      return 0.0;
    };
    if (rate_of(chosen.of(shape)) <= 0) continue;
    // In a fixed order, each against the one before, so that two that are about equally fast are
    // not chosen between by chance.
    for (const ProductKernel kernel : vector::product_kernels_of(isa)) {
      if (rate_of(kernel) >= kClearMargin * rate_of(chosen.of(shape))) chosen.of(shape) = kernel;
    }
  }
  return chosen;
}

}  // namespace keel
