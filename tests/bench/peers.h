// The libraries that users would call instead, as contestants on one thread. Each function gives
// those that this build has: oneDNN and libtorch where their packages are installed.
#ifndef KEEL_TESTS_BENCH_PEERS_H
#define KEEL_TESTS_BENCH_PEERS_H

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bench/contest.h"

namespace keel_bench {

struct Product {
  size_t m, k, n;
  bool transpose_a = false;  // A is stored [k, m]
  bool transpose_b = false;  // B is stored [n, k]
};

// C = A B in f32, row-major; the arrays must outlive the contestants.
std::vector<Contestant> eigen_products(const Product& p, const float* a, const float* b, float* c);
std::vector<Contestant> onednn_products(const Product& p, const float* a, const float* b, float* c);
// bf16 operands, f32 results, nothing packed beforehand.
std::vector<Contestant> onednn_bf16_products(const Product& p, const void* a, const void* b,
                                             float* c);

// A convolution of square f32 images with padding "same".
struct Convolution {
  int64_t batch, size, in, out, kernel, stride;

  int64_t out_size() const { return (size + stride - 1) / stride; }
  // Of each of its three parts, what is padded counted as if it were there.
  double flop() const {
    return 2.0 * static_cast<double>(batch * out_size() * out_size() * out) *
           static_cast<double>(in * kernel * kernel);
  }
};
enum class ConvolutionPart { kForward, kInputGradient, kWeightGradient };
std::vector<Contestant> onednn_convolutions(const Convolution& c, ConvolutionPart part);

enum class VectorOp { kMultiplyAdd, kRelu, kExp, kSum };
std::vector<Contestant> torch_vector_ops(VectorOp op, float* a, float* b, float* c, float* to,
                                         size_t n);
std::vector<Contestant> onednn_softmax(float* from, float* to, size_t rows, size_t cols);
std::vector<Contestant> torch_softmax(float* from, float* to, size_t rows, size_t cols);

}  // namespace keel_bench

#endif  // KEEL_TESTS_BENCH_PEERS_H
