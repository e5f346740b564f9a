// Training steps written by hand for one processor family, without a framework: how far from
// the machine's limit the frameworks are. Two threads. They need AVX-512, what the bf16 one does
// also AVX512_BF16: hand_training.cpp asks the processor before it calls one.
#ifndef KEEL_TESTS_BENCH_HAND_TRAINING_H
#define KEEL_TESTS_BENCH_HAND_TRAINING_H

#include <cstdint>

#include <keel/keel.h>

namespace keel_bench {

struct HandResult {
  double step_us = 0;
  double accuracy = 0;  // on the test set afterwards: that the loop really trains
};

// Softmax regression, batch 100, f32: forward, softmax, gradient and update fused, the bytes read
// by the products themselves, in order.
HandResult train_softmax_by_hand(const keel::LabelledSplits& data, int64_t steps);

// 784-512-512-10 with ReLU, batch 128, on oneDNN's products, batches in order from a float set in
// memory, the update part of the gradient's product: sgemm, or bf16 operands with f32 sums and
// master weights.
HandResult train_mlp_on_sgemm(const keel::LabelledSplits& data, int64_t steps);
HandResult train_mlp_on_bf16(const keel::LabelledSplits& data, int64_t steps);

}  // namespace keel_bench

#endif  // KEEL_TESTS_BENCH_HAND_TRAINING_H
