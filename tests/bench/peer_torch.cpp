#include <cstdint>

#if KEEL_BENCH_TORCH
#include <torch/torch.h>
#endif

#include "bench/peers.h"

namespace keel_bench {

#if KEEL_BENCH_TORCH
namespace {

torch::Tensor wrap(float* data, const std::vector<int64_t>& shape) {
  at::set_num_threads(1);
  return torch::from_blob(data, shape);
}

}  // namespace

std::vector<Contestant> torch_vector_ops(VectorOp op, float* a, float* b, float* c, float* to,
                                         size_t n) {
  const auto count = static_cast<int64_t>(n);
  torch::Tensor x = wrap(a, {count}), y = wrap(b, {count}), z = wrap(c, {count}),
                out = wrap(to, {count});
  switch (op) {
    case VectorOp::kMultiplyAdd:
      return {{"libtorch", [=]() mutable { torch::addcmul_out(out, z, x, y); }}};
    case VectorOp::kRelu:
      return {{"libtorch", [=]() mutable { torch::clamp_min_out(out, x, 0); }}};
    case VectorOp::kExp:
      return {{"libtorch", [=]() mutable { torch::exp_out(out, x); }}};
    case VectorOp::kSum:
      return {{"libtorch", [=] { x.sum(); }}};
  }
  return {};
}

std::vector<Contestant> torch_softmax(float* from, float* to, size_t rows, size_t cols) {
  const std::vector<int64_t> shape = {static_cast<int64_t>(rows), static_cast<int64_t>(cols)};
  torch::Tensor x = wrap(from, shape), out = wrap(to, shape);
  return {{"libtorch", [=]() mutable { torch::softmax_out(out, x, 1); }}};
}

#else

std::vector<Contestant> torch_vector_ops(VectorOp, float*, float*, float*, float*, size_t) {
  return {};
}
std::vector<Contestant> torch_softmax(float*, float*, size_t, size_t) { return {}; }

#endif

}  // namespace keel_bench
