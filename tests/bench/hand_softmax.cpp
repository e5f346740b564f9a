// Two threads, each with its own half of the columns: its part of the weights never leaves its
// core, and only the partial logits cross, with one barrier a step.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <pthread.h>
#include <thread>

#include "bench/hand_training.h"
#include "bench/hand_vectors.h"

namespace keel_bench {
namespace {

constexpr int kBatch = 100, kFeatures = 784, kClasses = 10;
constexpr int kRows = 112;         // the batch in whole vectors
constexpr int kFirstColumn = 400;  // of the second thread
constexpr float kScale = 1.0f / 255;
constexpr float kRate = 0.01f;

__m512 load_bytes(const uint8_t* p) {
  return _mm512_cvtepi32_ps(
      _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}

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

// Logits of two rows, from columns [first, last): into to[class * kRows + row].
void partial_logits(const float* w, const uint8_t* x, int row, int first, int last, float* to) {
  __m512 sum[2][kClasses];
  for (auto& of_row : sum) {
    for (auto& s : of_row) s = _mm512_setzero_ps();
  }
  for (int k = first; k < last; k += 16) {
    const __m512 upper = load_bytes(x + row * kFeatures + k);
    const __m512 lower = load_bytes(x + (row + 1) * kFeatures + k);
#pragma GCC unroll 10
    for (int c = 0; c < kClasses; ++c) {
      const __m512 weight = _mm512_loadu_ps(w + c * kFeatures + k);
      sum[0][c] = _mm512_fmadd_ps(upper, weight, sum[0][c]);
      sum[1][c] = _mm512_fmadd_ps(lower, weight, sum[1][c]);
    }
  }
  for (int i = 0; i < 2; ++i) {
    for (int c = 0; c < kClasses; ++c)
      to[c * kRows + row + i] = kScale * _mm512_reduce_add_ps(sum[i][c]);
  }
}

// From logits to their gradient, in place: softmax minus one at the label.
void softmax_gradient(float* d, const uint8_t* labels) {
  for (int row = 0; row < kBatch; row += 16) {
    __m512 v[kClasses], most = _mm512_loadu_ps(d + row), sum = _mm512_setzero_ps();
    for (int c = 0; c < kClasses; ++c) {
      v[c] = _mm512_loadu_ps(d + c * kRows + row);
      most = _mm512_max_ps(most, v[c]);
    }
    for (auto& x : v) sum = _mm512_add_ps(sum, x = exp16(_mm512_sub_ps(x, most)));
    const __m512 share = _mm512_div_ps(_mm512_set1_ps(1), sum);
    for (int c = 0; c < kClasses; ++c)
      _mm512_storeu_ps(d + c * kRows + row, _mm512_mul_ps(v[c], share));
  }
  for (int row = 0; row < kBatch; ++row) d[labels[row] * kRows + row] -= 1;
}

// The weights of 16 * N columns from k on: their gradient and their next value.
template <int N>
void update_weights(float* w, const uint8_t* x, const float* d, int k) {
  __m512 sum[kClasses][N];
  for (auto& of_class : sum) {
    for (auto& s : of_class) s = _mm512_setzero_ps();
  }
  for (int row = 0; row < kBatch; ++row) {
    __m512 pixels[N];
    for (int i = 0; i < N; ++i) pixels[i] = load_bytes(x + row * kFeatures + k + 16 * i);
#pragma GCC unroll 10
    for (int c = 0; c < kClasses; ++c) {
      const __m512 weight = _mm512_set1_ps(d[c * kRows + row]);
#pragma GCC unroll 2
      for (int i = 0; i < N; ++i) sum[c][i] = _mm512_fmadd_ps(weight, pixels[i], sum[c][i]);
    }
  }
  const __m512 rate = _mm512_set1_ps(-kRate / kBatch * kScale);
  for (int c = 0; c < kClasses; ++c) {
    for (int i = 0; i < N; ++i) {
      float* at = w + c * kFeatures + k + 16 * i;
      _mm512_storeu_ps(at, _mm512_fmadd_ps(rate, sum[c][i], _mm512_loadu_ps(at)));
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
    for (int row = 0; row < kBatch; row += 2) partial_logits(w_.get(), x, row, first, last, own);
    barrier_.wait();
    float* d = gradient_[id].get();
    for (int c = 0; c < kClasses; ++c) {
      for (int row = c * kRows; row < (c + 1) * kRows; row += 16) {
        const __m512 both = _mm512_add_ps(_mm512_loadu_ps(parts.get() + row),
                                          _mm512_loadu_ps(parts.get() + kClasses * kRows + row));
        _mm512_storeu_ps(d + row, _mm512_add_ps(both, _mm512_set1_ps(bias_[id][c])));
      }
    }
    softmax_gradient(d, labels);
    int k = first;
    for (; k + 32 <= last; k += 32) update_weights<2>(w_.get(), x, d, k);
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

}  // namespace keel_bench
