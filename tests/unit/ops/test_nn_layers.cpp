// Layers of images and sequences: what they make, what they compute against plain loops, and what
// they refuse.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/keel.h"

#include "ops_for_tests.h"

namespace keel {
namespace {

using testing::contains;
using testing::error_of;
using testing::names_of;

Tensor sines(const Shape& shape, double step) {
  Tensor t(f32, shape);
  for (int64_t i = 0; i < t.num_elements(); ++i) t.set(i, std::sin(static_cast<double>(i) * step));
  return t;
}

// Mean and population variance of channel `c` of rows of `channels`.
std::pair<double, double> channel_moments(const Tensor& x, int64_t c, int64_t channels) {
  double sum = 0, squares = 0;
  const int64_t rows = x.num_elements() / channels;
  for (int64_t r = 0; r < rows; ++r) sum += x.at(r * channels + c);
  const double mean = sum / static_cast<double>(rows);
  for (int64_t r = 0; r < rows; ++r) squares += std::pow(x.at(r * channels + c) - mean, 2);
  return {mean, squares / static_cast<double>(rows)};
}

}  // namespace

TEST_SUITE_BEGIN("nn");

TEST_CASE("layers name their parameters by their path") {
  Graph g;
  const Scope root(g);
  CHECK(names_of(Conv2d(root / "conv", 3, 8, {5, 5}).parameters()) ==
        std::vector<std::string>{"conv.weight", "conv.bias"});
  CHECK(Conv2d(root / "depthwise", 8, 8, {3}, {.groups = 8, .use_bias = false}).weight().shape() ==
        Shape{3, 3, 1, 8});
  const BatchNorm norm(root / "norm", 8);
  CHECK(names_of(norm.parameters()) == std::vector<std::string>{"norm.weight", "norm.bias"});
  CHECK(names_of(norm.buffers()) ==
        std::vector<std::string>{"norm.running_mean", "norm.running_var"});
  const TransformerBlock block(root / "encoder" / 0, 16, 4);
  const auto names = names_of(block.parameters());
  CHECK(names.size() == 16);
  CHECK(std::count(names.begin(), names.end(), "encoder.0.attention.query.weight") == 1);
  CHECK(names_of(Lstm(root / "lstm", 4, 5).parameters()) ==
        std::vector<std::string>{"lstm.weight_ih", "lstm.weight_hh", "lstm.bias"});
  CHECK(names_of(Gru(root / "gru", 4, 5).parameters()).size() == 4);
  CHECK(names_of(Embedding(root / "words", 10, 4).parameters()) ==
        std::vector<std::string>{"words.weight"});
}

TEST_CASE("batch norm moves its running statistics in training and uses them in evaluation") {
  for (const char* where : {"ref", "cpu", "npu"}) {
    CAPTURE(where);
    constexpr int64_t kChannels = 3;
    constexpr double kDecay = 0.75;
    Graph g;
    const Value x = g.input("x", f32, {4, 5, 2, kChannels});
    const BatchNorm norm(Scope(g) / "norm", kChannels, {.decay = kDecay});
    const Value trained = norm(x, Mode::kTraining);
    const Value evaluated = norm(x, Mode::kEvaluation);
    const Update update = sgd(0.0).minimize(mean(square(trained)));
    Session session(g, device(where));
    const Tensor data = sines({4, 5, 2, kChannels}, 0.7);
    double expected_mean[kChannels] = {}, expected_var[kChannels] = {1, 1, 1};
    for (int step = 0; step < 2; ++step) {
      const auto out = session.run(update, {trained}, {{x, data}})[0];
      for (int64_t c = 0; c < kChannels; ++c) {
        const auto [mean, variance] = channel_moments(data, c, kChannels);
        const double first = (data.at(c) - mean) / std::sqrt(variance + 1e-5);
        CHECK(out.at(c) == doctest::Approx(first).epsilon(1e-4));
        expected_mean[c] = kDecay * expected_mean[c] + (1 - kDecay) * mean;
        expected_var[c] = kDecay * expected_var[c] + (1 - kDecay) * variance;
      }
    }
    const Tensor mean = session.read(norm.buffers()[0]), var = session.read(norm.buffers()[1]);
    const auto out = session.run({evaluated}, {{x, data}})[0];
    for (int64_t c = 0; c < kChannels; ++c) {
      CHECK(mean.at(c) == doctest::Approx(expected_mean[c]).epsilon(1e-4));
      CHECK(var.at(c) == doctest::Approx(expected_var[c]).epsilon(1e-4));
      CHECK(out.at(c) ==
            doctest::Approx((data.at(c) - expected_mean[c]) / std::sqrt(expected_var[c] + 1e-5))
                .epsilon(1e-4));
    }
  }
}

TEST_CASE("attention of several heads is that of each head by itself") {
  for (const char* where : {"ref", "cpu", "npu"}) {
    CAPTURE(where);
    constexpr int64_t kTime = 3, kWidth = 4;
    Graph g;
    const Value x = g.input("x", f32, {2, kTime, kWidth});
    const MultiHeadAttention layer(Scope(g) / "attention", kWidth, 2);
    const Value y = layer(x, {.causal = true});
    Session session(g, device(where));
    for (const Value& state : layer.parameters()) session.write(state, sines(state.shape(), 0.3));
    const Tensor data = sines({2, kTime, kWidth}, 1.1);
    const Tensor got = session.run({y}, {{x, data}})[0];
    // The weights of all four dense layers are the same.
    const Tensor w = sines({kWidth, kWidth}, 0.3), b = sines({kWidth}, 0.3);
    const auto dense = [&](const std::vector<double>& in) {
      std::vector<double> out(kWidth);
      for (int64_t j = 0; j < kWidth; ++j) {
        out[static_cast<size_t>(j)] = b.at(j);
        for (int64_t i = 0; i < kWidth; ++i)
          out[static_cast<size_t>(j)] += in[static_cast<size_t>(i)] * w.at(i * kWidth + j);
      }
      return out;
    };
    for (int64_t n = 0; n < 2; ++n) {
      std::vector<std::vector<double>> rows;
      for (int64_t t = 0; t < kTime; ++t) {
        std::vector<double> in;
        for (int64_t i = 0; i < kWidth; ++i) in.push_back(data.at((n * kTime + t) * kWidth + i));
        rows.push_back(dense(in));
      }
      for (int64_t t = 0; t < kTime; ++t) {
        std::vector<double> seen(kWidth, 0);
        for (size_t head = 0; head < 2; ++head) {
          std::vector<double> scores;
          double total = 0;
          for (int64_t s = 0; s <= t; ++s) {
            double score = 0;
            for (size_t i = 2 * head; i < 2 * head + 2; ++i)
              score += rows[static_cast<size_t>(t)][i] * rows[static_cast<size_t>(s)][i];
            scores.push_back(std::exp(score / std::sqrt(2.0)));
            total += scores.back();
          }
          for (int64_t s = 0; s <= t; ++s) {
            for (size_t i = 2 * head; i < 2 * head + 2; ++i)
              seen[i] += scores[static_cast<size_t>(s)] / total * rows[static_cast<size_t>(s)][i];
          }
        }
        const std::vector<double> expected = dense(seen);
        for (int64_t i = 0; i < kWidth; ++i) {
          CHECK(got.at((n * kTime + t) * kWidth + i) ==
                doctest::Approx(expected[static_cast<size_t>(i)]).epsilon(1e-4));
        }
      }
    }
  }
}

TEST_CASE("layers of sequences and images train and give equal bits for loop sizes") {
  for (const char* where : {"cpu", "npu"}) {
    CAPTURE(where);
    std::string hash;
    for (const int64_t size : {int64_t{1}, int64_t{4}}) {
      Graph g;
      const Scope root(g);
      const Value x = g.constant(sines({2, 4, 4, 3}, 0.37));
      const Value ids = g.constant(Tensor::of<int32_t>({2, 4}, {0, 1, 2, 3, 3, 2, 1, 0}));
      const Conv2d conv(root / "conv", 3, 6, {3, 3});
      const BatchNorm norm(root / "norm", 6);
      const Embedding words(root / "words", 4, 8);
      const TransformerBlock block(root / "block", 8, 2, {.dropout = 0.1});
      const Gru gru(root / "gru", 8, 5);
      const Value image = mean(square(norm(conv(x), Mode::kTraining)));
      const Value text = mean(square(gru(block(words(ids), Mode::kTraining)).last));
      const Value loss = image + text;
      const Update update = adam(0.01).minimize(loss);
      Session session(g, device(where));
      Loop loop = session.sink({.update = update, .fetches = {loss}});
      const double before = loop.run(1)[loss].back();
      for (int done = 1; done < 9; done += static_cast<int>(size)) loop.run(size);
      CHECK(loop.run(1)[loss].back() < before);
      if (hash.empty()) hash = session.state_sha256();
      CHECK(session.state_sha256() == hash);
    }
  }
}

TEST_CASE("layers refuse what does not fit and name their path") {
  Graph g;
  const Scope root(g);
  CHECK(contains(error_of([&] {
                   Conv2d(root / "a", 3, 8, {3, 3}, {.groups = 2});
                 }),
                 "conv2d a: groups: expected a number that divides 3 and 8"));
  CHECK(contains(error_of([&] { Conv2d(root / "b", 0, 8, {3, 3}); }), "in: expected at least 1"));
  CHECK(contains(error_of([&] { Conv2d(root / "c", 1, 8, {1, 2, 3}); }), "a height and a width"));
  const Conv2d conv(root / "conv", 3, 8, {3, 3});
  CHECK(contains(error_of([&] { conv(g.input("x", f32, {2, 4, 4, 5})); }), "conv2d conv: x"));
  CHECK(contains(error_of([&] { BatchNorm(root / "d", 4, {.decay = 2}); }), "decay"));
  const BatchNorm norm(root / "norm", 8);
  CHECK(contains(error_of([&] { norm(g.input("v", f32, {8}), Mode::kTraining); }), "channels"));
  CHECK(contains(error_of([&] { MultiHeadAttention(root / "e", 6, 4); }),
                 "attention e: heads: expected a number that divides the width 6"));
  const Lstm lstm(root / "lstm", 4, 5);
  CHECK(contains(error_of([&] { lstm(g.input("s", f32, {2, 3, 5})); }), "lstm lstm: x"));
  CHECK(contains(error_of([&] { conv(Value()); }), "an empty Value"));
}

TEST_SUITE_END();

}  // namespace keel
