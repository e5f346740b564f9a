#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <omp.h>
#include <random>

#include <dnnl.hpp>

#include "bench/hand_training.h"
#include "bench/hand_vectors.h"

namespace keel_bench::KEEL_HAND_ISA {
namespace {

constexpr int kBatch = 128, kFeatures = 784, kUnits = 512, kClasses = 10;
constexpr float kRate = 0.1f;

enum class Transpose { kNone, kA, kB };

// c[m, n] = alpha * a b + beta * c, row-major, a or b transposed in memory.
void product(Transpose transpose, int m, int n, int k, float alpha, const float* a, const float* b,
             float beta, float* c) {
  const bool a_lies = transpose == Transpose::kA, b_lies = transpose == Transpose::kB;
  dnnl_sgemm(a_lies ? 'T' : 'N', b_lies ? 'T' : 'N', m, n, k, alpha, a, a_lies ? m : k, b,
             b_lies ? k : n, beta, c, n);
}

// Adds the bias and takes the positive part, of kBatch rows.
void add_bias_relu(float* h, const float* bias) {
#pragma omp parallel for schedule(static)
  for (int row = 0; row < kBatch; ++row) {
#pragma omp simd
    for (int c = 0; c < kUnits; ++c)
      h[row * kUnits + c] = std::max(h[row * kUnits + c] + bias[c], 0.0f);
  }
}

// The gradient through ReLU, in place, and the bias's update.
void mask_and_update_bias(float* gradient, const float* h, float* bias) {
#pragma omp parallel for schedule(static)
  for (int first = 0; first < kUnits; first += 64) {
    float sum[64] = {};
    for (int row = 0; row < kBatch; ++row) {
      float* g = gradient + row * kUnits + first;
      const float* out = h + row * kUnits + first;
#pragma omp simd
      for (int c = 0; c < 64; ++c) {
        g[c] = out[c] > 0 ? g[c] : 0;
        sum[c] += g[c];
      }
    }
    for (int c = 0; c < 64; ++c) bias[first + c] -= kRate * sum[c];
  }
}

// From logits to the gradient of the mean loss, in place.
void softmax_gradient(float* d, const float* bias, const uint8_t* labels) {
  constexpr int kPadded = 16;
  alignas(64) float x[kPadded], e[kPadded];
  for (int row = 0; row < kBatch; ++row, d += kClasses) {
    float largest = -1e30f, sum = 0;
    for (int c = 0; c < kPadded; ++c) {
      x[c] = c < kClasses ? d[c] + bias[c] : -1e30f;
      largest = std::max(largest, x[c]);
    }
    for (int c = 0; c < kPadded; c += kLanes) {
      const Floats v = exp_of(subtract(load(x + c), all(largest)));
      store(e + c, v);
    }
    for (int c = 0; c < kClasses; ++c) sum += e[c];
    const float share = 1.0f / kBatch / sum;
    for (int c = 0; c < kClasses; ++c) d[c] = e[c] * share;
    d[labels[row]] -= 1.0f / kBatch;
  }
}

struct Mlp {
  Block<float> w1{kFeatures * kUnits}, w2{kUnits * kUnits}, w3{kUnits * kClasses};
  Block<float> b1{kUnits}, b2{kUnits}, b3{kClasses};
  Block<float> h1{kBatch * kUnits}, h2{kBatch * kUnits}, out{kBatch * kClasses};
  Block<float> d1{kBatch * kUnits}, d2{kBatch * kUnits};

  Mlp() {
    std::mt19937 random(1);
    const auto fill = [&](const Block<float>& w, int in, int count) {
      const float limit = std::sqrt(1.0f / static_cast<float>(in));
      std::uniform_real_distribution<float> uniform(-limit, limit);
      for (int i = 0; i < count; ++i) w[i] = uniform(random);
    };
    fill(w1, kFeatures, kFeatures * kUnits);
    fill(w2, kUnits, kUnits * kUnits);
    fill(w3, kUnits, kUnits * kClasses);
  }

  // The last layer, forward and back: from h2 to d2. Too small for bf16 to pay.
  void last_layer(const uint8_t* labels) {
    product(Transpose::kNone, kBatch, kClasses, kUnits, 1, h2.get(), w3.get(), 0, out.get());
    softmax_gradient(out.get(), b3.get(), labels);
    product(Transpose::kB, kBatch, kUnits, kClasses, 1, out.get(), w3.get(), 0, d2.get());
    product(Transpose::kA, kUnits, kClasses, kBatch, -kRate, h2.get(), out.get(), 1, w3.get());
    for (int i = 0; i < kBatch * kClasses; ++i) b3[i % kClasses] -= kRate * out[i];
  }

  void forward(const float* x) {
    product(Transpose::kNone, kBatch, kUnits, kFeatures, 1, x, w1.get(), 0, h1.get());
    add_bias_relu(h1.get(), b1.get());
    product(Transpose::kNone, kBatch, kUnits, kUnits, 1, h1.get(), w2.get(), 0, h2.get());
    add_bias_relu(h2.get(), b2.get());
  }

  void step(const float* x, const uint8_t* labels) {
    forward(x);
    last_layer(labels);
    mask_and_update_bias(d2.get(), h2.get(), b2.get());
    product(Transpose::kB, kBatch, kUnits, kUnits, 1, d2.get(), w2.get(), 0, d1.get());
    product(Transpose::kA, kUnits, kUnits, kBatch, -kRate, h1.get(), d2.get(), 1, w2.get());
    mask_and_update_bias(d1.get(), h1.get(), b1.get());
    product(Transpose::kA, kFeatures, kUnits, kBatch, -kRate, x, d1.get(), 1, w1.get());
  }
};

#if defined(__AVX512BF16__)

using Bf16 = uint16_t;

// 32 floats as bf16, to `to`.
void store_bf16(Bf16* to, __m512 low, __m512 high) {
  _mm512_storeu_si512(to, std::bit_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low)));
}

void convert(const float* from, Bf16* to, int count) {
#pragma omp parallel for schedule(static)
  for (int i = 0; i < count; i += 32)
    store_bf16(to + i, _mm512_loadu_ps(from + i), _mm512_loadu_ps(from + i + 16));
}

// The master weights' update, and their bf16 copy.
void update(float* w, const float* gradient, Bf16* copy, int count) {
  const __m512 rate = _mm512_set1_ps(-kRate);
#pragma omp parallel for schedule(static)
  for (int i = 0; i < count; i += 32) {
    const __m512 low = _mm512_fmadd_ps(rate, _mm512_loadu_ps(gradient + i), _mm512_loadu_ps(w + i));
    const __m512 high =
        _mm512_fmadd_ps(rate, _mm512_loadu_ps(gradient + i + 16), _mm512_loadu_ps(w + i + 16));
    _mm512_storeu_ps(w + i, low);
    _mm512_storeu_ps(w + i + 16, high);
    store_bf16(copy + i, low, high);
  }
}

class Bf16Product {
 public:
  Bf16Product(Transpose transpose, int m, int n, int k, const Block<Bf16>& a, const Block<Bf16>& b,
              const Block<float>& c) {
    using Dims = dnnl::memory::dims;
    constexpr auto kType = dnnl::memory::data_type::bf16;
    const dnnl::memory::desc left({m, k}, kType,
                                  transpose == Transpose::kA ? Dims{1, m} : Dims{k, 1});
    const dnnl::memory::desc right({k, n}, kType,
                                   transpose == Transpose::kB ? Dims{1, k} : Dims{n, 1});
    const dnnl::memory::desc result({m, n}, dnnl::memory::data_type::f32, Dims{n, 1});
    const dnnl::matmul::desc desc(left, right, result);
    run_ = dnnl::matmul(dnnl::matmul::primitive_desc(desc, engine()));
    arguments_ = {{DNNL_ARG_SRC, dnnl::memory(left, engine(), a.get())},
                  {DNNL_ARG_WEIGHTS, dnnl::memory(right, engine(), b.get())},
                  {DNNL_ARG_DST, dnnl::memory(result, engine(), c.get())}};
  }
  void operator()() {
    run_.execute(stream_, arguments_);
    stream_.wait();
  }

 private:
  static dnnl::engine& engine() {
    static dnnl::engine instance{dnnl::engine::kind::cpu, 0};
    return instance;
  }
  dnnl::stream stream_{engine()};
  dnnl::matmul run_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

struct MlpInBf16 : Mlp {
  Block<Bf16> x16{kBatch * kFeatures}, v1{kFeatures * kUnits}, v2{kUnits * kUnits};
  Block<Bf16> a1{kBatch * kUnits}, e1{kBatch * kUnits}, e2{kBatch * kUnits};
  Block<float> g1{kFeatures * kUnits}, g2{kUnits * kUnits};
  Bf16Product first{Transpose::kNone, kBatch, kUnits, kFeatures, x16, v1, h1};
  Bf16Product second{Transpose::kNone, kBatch, kUnits, kUnits, a1, v2, h2};
  Bf16Product back{Transpose::kB, kBatch, kUnits, kUnits, e2, v2, d1};
  Bf16Product gradient2{Transpose::kA, kUnits, kUnits, kBatch, a1, e2, g2};
  Bf16Product gradient1{Transpose::kA, kFeatures, kUnits, kBatch, x16, e1, g1};

  MlpInBf16() {
    convert(w1.get(), v1.get(), kFeatures * kUnits);
    convert(w2.get(), v2.get(), kUnits * kUnits);
  }

  void step(const float* x, const uint8_t* labels) {
    convert(x, x16.get(), kBatch * kFeatures);
    first();
    add_bias_relu(h1.get(), b1.get());
    convert(h1.get(), a1.get(), kBatch * kUnits);
    second();
    add_bias_relu(h2.get(), b2.get());
    last_layer(labels);
    mask_and_update_bias(d2.get(), h2.get(), b2.get());
    convert(d2.get(), e2.get(), kBatch * kUnits);
    back();
    gradient2();
    update(w2.get(), g2.get(), v2.get(), kUnits * kUnits);
    mask_and_update_bias(d1.get(), h1.get(), b1.get());
    convert(d1.get(), e1.get(), kBatch * kUnits);
    gradient1();
    update(w1.get(), g1.get(), v1.get(), kFeatures * kUnits);
  }
};

#endif  // __AVX512BF16__

// Scaled to 0 .. 1. The last batch's rows may reach past the end: zeros.
void as_floats(const keel::LabelledImages& set, const Block<float>& to) {
  const auto bytes = set.images.data<uint8_t>();
  float* out = to.get();
  for (const uint8_t byte : bytes) *out++ = static_cast<float>(byte) * (1.0f / 255);
}

double accuracy(Mlp& model, const keel::LabelledImages& test) {
  const Block<float> x(static_cast<size_t>(test.count() + kBatch) * kFeatures);
  as_floats(test, x);
  const auto labels = test.labels.data<uint8_t>();
  int64_t hits = 0;
  for (int64_t first = 0; first < test.count(); first += kBatch) {
    model.forward(x.get() + first * kFeatures);
    product(Transpose::kNone, kBatch, kClasses, kUnits, 1, model.h2.get(), model.w3.get(), 0,
            model.out.get());
    for (int64_t row = first; row < std::min(test.count(), first + kBatch); ++row) {
      float* logits = model.out.get() + (row - first) * kClasses;
      for (int c = 0; c < kClasses; ++c) logits[c] += model.b3[c];
      hits +=
          std::max_element(logits, logits + kClasses) - logits == labels[static_cast<size_t>(row)];
    }
  }
  return static_cast<double>(hits) / static_cast<double>(test.count());
}

template <class Model>
HandResult train(const keel::LabelledSplits& data, int64_t steps) {
  omp_set_num_threads(2);
  const Block<float> x(data.train.images.num_bytes());
  as_floats(data.train, x);
  const uint8_t* labels = data.train.labels.data<uint8_t>().data();
  const int64_t batches = data.train.count() / kBatch;
  Model model;
  const auto step = [&](int64_t i) {
    const int64_t first = i % batches * kBatch;
    model.step(x.get() + first * kFeatures, labels + first);
  };
  for (int64_t i = 0; i < 20; ++i) step(i);
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < steps; ++i) step(i);
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
  return {took.count() / static_cast<double>(steps), accuracy(model, data.test)};
}

}  // namespace

HandResult train_mlp_on_sgemm(const keel::LabelledSplits& data, int64_t steps) {
  return train<Mlp>(data, steps);
}

#if defined(__AVX512BF16__)
HandResult train_mlp_on_bf16(const keel::LabelledSplits& data, int64_t steps) {
  return train<MlpInBf16>(data, steps);
}
#endif

}  // namespace keel_bench::KEEL_HAND_ISA
