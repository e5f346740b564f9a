// Training steps written by hand for one processor family, without a framework: how far from
// the machine's limit the frameworks are. Two threads. Each is there for AVX-512 and for AVX2, what
// the bf16 one does needs AVX512_BF16: hand_training.cpp asks the processor before it calls one.
#ifndef KEEL_TESTS_BENCH_HAND_TRAINING_H
#define KEEL_TESTS_BENCH_HAND_TRAINING_H

#include <cstdint>

#include <keel/keel.h>

namespace keel_bench {

struct HandResult {
  double step_us = 0;
  double accuracy = 0;  // on the test set afterwards: that the loop really trains
};

// train_softmax_by_hand is softmax regression, batch 100, f32: forward, softmax, gradient and
// update fused, the bytes read by the products themselves, in order.
//
// train_mlp_on_sgemm and train_mlp_on_bf16 are 784-512-512-10 with ReLU, batch 128, on oneDNN's
// products, batches in order from a float set in memory, the update part of the gradient's product:
// sgemm, or bf16 operands with f32 sums and master weights.
namespace avx512 {
HandResult train_softmax_by_hand(const keel::LabelledSplits& data, int64_t steps);
HandResult train_mlp_on_sgemm(const keel::LabelledSplits& data, int64_t steps);
HandResult train_mlp_on_bf16(const keel::LabelledSplits& data, int64_t steps);
}  // namespace avx512

namespace avx2 {
HandResult train_softmax_by_hand(const keel::LabelledSplits& data, int64_t steps);
HandResult train_mlp_on_sgemm(const keel::LabelledSplits& data, int64_t steps);
}  // namespace avx2

}  // namespace keel_bench

#endif  // KEEL_TESTS_BENCH_HAND_TRAINING_H
