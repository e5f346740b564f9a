// Two threads, each with its own half of the columns: its part of the weights never leaves its
// core, and only the partial logits cross, with one barrier a step.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <pthread.h>
#include <thread>

#include "bench/hand_training.h"
#include "bench/hand_vectors.h"

namespace keel_bench::KEEL_HAND_ISA {
namespace {

constexpr int kBatch = 100, kFeatures = 784, kClasses = 10;
constexpr int kRows = 112;         // the batch in whole vectors of either width
constexpr int kFirstColumn = 400;  // of the second thread
constexpr float kScale = 1.0f / 255;
constexpr float kRate = 0.01f;

// The sums of a tile of logits, and of one of weights, fill the registers.
constexpr int kRowsAtOnce = kLanes == 16 ? 2 : 1;
constexpr int kVectorsAtOnce = kLanes == 16 ? 2 : 1;

class Barrier {  // of two threads; a condition variable costs more than the step
 public:
  void wait() {
    const int generation = generation_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1) == 1) {
      arrived_.store(0);
      generation_.store(generation + 1, std::memory_order_release);
    } else {
      while (generation_.load(std::memory_order_acquire) == generation) _mm_pause();
    }
  }

 private:
  std::atomic<int> arrived_{0};
  std::atomic<int> generation_{0};
};

// Logits of kRowsAtOnce rows, from columns [first, last): into to[class * kRows + row].
void partial_logits(const float* w, const uint8_t* x, int row, int first, int last, float* to) {
  Floats sum[kRowsAtOnce][kClasses];
  for (auto& of_row : sum) {
    for (auto& s : of_row) s = zeros();
  }
  for (int k = first; k < last; k += kLanes) {
    Floats pixels[kRowsAtOnce];
    for (int i = 0; i < kRowsAtOnce; ++i) pixels[i] = load_bytes(x + (row + i) * kFeatures + k);
#pragma GCC unroll 10
    for (int c = 0; c < kClasses; ++c) {
      const Floats weight = load(w + c * kFeatures + k);
#pragma GCC unroll 2
      for (int i = 0; i < kRowsAtOnce; ++i) sum[i][c] = multiply_add(pixels[i], weight, sum[i][c]);
    }
  }
  for (int i = 0; i < kRowsAtOnce; ++i) {
    for (int c = 0; c < kClasses; ++c) to[c * kRows + row + i] = kScale * sum_of(sum[i][c]);
  }
}

// From logits to their gradient, in place: softmax minus one at the label.
void softmax_gradient(float* d, const uint8_t* labels) {
  for (int row = 0; row < kBatch; row += kLanes) {
    Floats v[kClasses], largest = load(d + row), sum = zeros();
    for (int c = 0; c < kClasses; ++c) {
      v[c] = load(d + c * kRows + row);
      largest = most(largest, v[c]);
    }
    for (auto& x : v) sum = add(sum, x = exp_of(subtract(x, largest)));
    const Floats share = divide(all(1), sum);
    for (int c = 0; c < kClasses; ++c) store(d + c * kRows + row, multiply(v[c], share));
  }
  for (int row = 0; row < kBatch; ++row) d[labels[row] * kRows + row] -= 1;
}

// The weights of kLanes * N columns from k on: their gradient and their next value.
template <int N>
void update_weights(float* w, const uint8_t* x, const float* d, int k) {
  Floats sum[kClasses][N];
  for (auto& of_class : sum) {
    for (auto& s : of_class) s = zeros();
  }
  for (int row = 0; row < kBatch; ++row) {
    Floats pixels[N];
    for (int i = 0; i < N; ++i) pixels[i] = load_bytes(x + row * kFeatures + k + kLanes * i);
#pragma GCC unroll 10
    for (int c = 0; c < kClasses; ++c) {
      const Floats weight = all(d[c * kRows + row]);
#pragma GCC unroll 2
      for (int i = 0; i < N; ++i) sum[c][i] = multiply_add(weight, pixels[i], sum[c][i]);
    }
  }
  const Floats rate = all(-kRate / kBatch * kScale);
  for (int c = 0; c < kClasses; ++c) {
    for (int i = 0; i < N; ++i) {
      float* at = w + c * kFeatures + k + kLanes * i;
      store(at, multiply_add(rate, sum[c][i], load(at)));
    }
  }
}

class Softmax {
 public:
  // What thread `id`, 0 or 1, does of a step.
  void step(int id, int64_t number, const uint8_t* x, const uint8_t* labels) {
    const int first = id == 0 ? 0 : kFirstColumn, last = id == 0 ? kFirstColumn : kFeatures;
    const Block<float>& parts = logits_[number % 2];
    float* own = parts.get() + id * kClasses * kRows;
    for (int row = 0; row < kBatch; row += kRowsAtOnce)
      partial_logits(w_.get(), x, row, first, last, own);
    barrier_.wait();
    float* d = gradient_[id].get();
    for (int c = 0; c < kClasses; ++c) {
      for (int row = c * kRows; row < (c + 1) * kRows; row += kLanes) {
        const Floats both =
            add(load(parts.get() + row), load(parts.get() + kClasses * kRows + row));
        store(d + row, add(both, all(bias_[id][c])));
      }
    }
    softmax_gradient(d, labels);
    int k = first;
    constexpr int kColumnsAtOnce = kVectorsAtOnce * kLanes;
    for (; k + kColumnsAtOnce <= last; k += kColumnsAtOnce)
      update_weights<kVectorsAtOnce>(w_.get(), x, d, k);
    if (k < last) update_weights<1>(w_.get(), x, d, k);
    for (int c = 0; c < kClasses; ++c) {
      float sum = 0;
      for (int row = 0; row < kBatch; ++row) sum += d[c * kRows + row];
      bias_[id][c] -= kRate / kBatch * sum;
    }
  }

  double accuracy(const keel::LabelledImages& test) const {
    const uint8_t* x = test.images.data<uint8_t>().data();
    const uint8_t* labels = test.labels.data<uint8_t>().data();
    int64_t hits = 0;
    for (int64_t row = 0; row < test.count(); ++row, x += kFeatures) {
      int best = 0;
      float most = 0;
      for (int c = 0; c < kClasses; ++c) {
        float logit = bias_[0][c];
        for (int k = 0; k < kFeatures; ++k) logit += x[k] * kScale * w_[c * kFeatures + k];
        if (c == 0 || logit > most) most = logit, best = c;
      }
      hits += best == labels[row];
    }
    return static_cast<double>(hits) / static_cast<double>(test.count());
  }

 private:
  Block<float> w_{kClasses * kFeatures};  // [class, feature]: better than its transpose by a third
  // Class-major; two generations, so that one barrier a step is enough.
  Block<float> logits_[2]{Block<float>(2 * kClasses * kRows), Block<float>(2 * kClasses * kRows)};
  Block<float> gradient_[2]{Block<float>(kClasses * kRows), Block<float>(kClasses* kRows)};
  Block<float> bias_[2]{Block<float>(kClasses), Block<float>(kClasses)};
  Barrier barrier_;
};

void pin_to(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

}  // namespace

HandResult train_softmax_by_hand(const keel::LabelledSplits& data, int64_t steps) {
  const uint8_t* x = data.train.images.data<uint8_t>().data();
  const uint8_t* labels = data.train.labels.data<uint8_t>().data();
  const int64_t batches = data.train.count() / kBatch;
  Softmax model;
  Barrier start_together;
  double step_us[2] = {};
  const auto work = [&](int id) {
    pin_to(id);
    start_together.wait();
    const auto start = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < steps; ++i) {
      const int64_t first = i % batches * kBatch;
      model.step(id, i, x + first * kFeatures, labels + first);
    }
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    step_us[id] = took.count() / static_cast<double>(steps);
  };
  std::thread other(work, 1);
  std::thread one(work, 0);
  one.join();
  other.join();
  return {std::max(step_us[0], step_us[1]), model.accuracy(data.test)};
}

}  // namespace keel_bench::KEEL_HAND_ISA
