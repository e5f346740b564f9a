#include <algorithm>
#include <array>
#include <cmath>

#include <doctest/doctest.h>

#include "keel/core/base/parallel_for.h"
#include "keel/core/base/random.h"
#include "keel/data/formats/digits.h"

#include "unit/vector_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using keel::Error;
using keel::LabelledImages;
using keel::LabelledSplits;

// Test accuracy of softmax regression after some passes of plain gradient descent.
double softmax_accuracy(const LabelledSplits& splits, int epochs) {
  constexpr size_t kPixels = 784;
  constexpr size_t kClasses = 10;
  constexpr size_t kBatch = 50;
  std::vector<float> weights((kPixels + 1) * kClasses);
  const auto scores = [&](const uint8_t* pixels, std::array<float, kClasses>& z) {
    for (size_t c = 0; c < kClasses; ++c) z[c] = weights[kPixels * kClasses + c];
    for (size_t p = 0; p < kPixels; ++p) {
      const float x = static_cast<float>(pixels[p]) / 255.0f;
      for (size_t c = 0; c < kClasses; ++c) z[c] += x * weights[p * kClasses + c];
    }
  };
  const auto images = splits.train.images.data<uint8_t>();
  const auto labels = splits.train.labels.data<uint8_t>();
  std::array<float, kClasses> z{};
  for (int epoch = 0; epoch < epochs; ++epoch) {
    const auto order =
        keel::shuffled_indices(static_cast<uint32_t>(labels.size()), static_cast<uint64_t>(epoch));
    for (size_t begin = 0; begin + kBatch <= order.size(); begin += kBatch) {
      std::vector<float> gradient(weights.size());
      for (size_t i = begin; i < begin + kBatch; ++i) {
        const uint8_t* pixels = &images[order[i] * kPixels];
        scores(pixels, z);
        const float top = *std::max_element(z.begin(), z.end());
        float sum = 0;
        for (float& v : z) sum += v = std::exp(v - top);
        for (float& v : z) v /= sum;
        z[labels[order[i]]] -= 1;
        for (size_t p = 0; p <= kPixels; ++p) {
          const float x = p == kPixels ? 1.0f : static_cast<float>(pixels[p]) / 255.0f;
          for (size_t c = 0; c < kClasses; ++c) gradient[p * kClasses + c] += x * z[c];
        }
      }
      for (size_t i = 0; i < weights.size(); ++i) weights[i] -= 0.5f / kBatch * gradient[i];
    }
  }
  const auto test_images = splits.test.images.data<uint8_t>();
  const auto test_labels = splits.test.labels.data<uint8_t>();
  int right = 0;
  for (size_t i = 0; i < test_labels.size(); ++i) {
    scores(&test_images[i * kPixels], z);
    right += std::max_element(z.begin(), z.end()) - z.begin() == test_labels[i] ? 1 : 0;
  }
  return right / static_cast<double>(test_labels.size());
}

}  // namespace

// The number is what a plain loop over the pixels gave, before these went by lanes.
TEST_CASE("digits: every instruction set draws the same pixels") {
  vector_test::on_every_isa([] {
    const LabelledSplits drawn =
        keel::make_digits({.seed = 5, .train_count = 300, .test_count = 40});
    uint64_t hash = 0x14650fb0739d0383ull;  // some beginning
    for (const keel::Tensor* part :
         {&drawn.train.images, &drawn.test.images, &drawn.train.labels, &drawn.test.labels}) {
      for (const uint8_t byte : part->data<uint8_t>()) hash = (hash ^ byte) * 0x100000001b3ull;
    }
    CHECK(hash == 0xde5ff1b84a5f9967ull);
  });
}

TEST_CASE("digits: item i depends on the seed and i alone") {
  const LabelledSplits small = keel::make_digits({.seed = 5, .train_count = 300, .test_count = 40});
  const LabelledSplits large =
      keel::make_digits({.seed = 5, .train_count = 700, .test_count = 300});
  const auto a = small.train.images.data<uint8_t>();
  const auto b = large.train.images.data<uint8_t>();
  CHECK(std::equal(a.begin(), a.end(), b.begin()));
  const auto c = small.train.labels.data<uint8_t>();
  CHECK(std::equal(c.begin(), c.end(), large.train.labels.data<uint8_t>().begin()));
  const LabelledSplits other = keel::make_digits({.seed = 6, .train_count = 300, .test_count = 40});
  CHECK_FALSE(keel::bit_equal(small.train.images, other.train.images));
  // The test part is no copy of the training part.
  const auto t = large.test.images.data<uint8_t>();
  CHECK_FALSE(std::equal(t.begin(), t.end(), b.begin()));
}

TEST_CASE("digits: the number of threads changes nothing") {
  const auto make = [](int threads) {
    const keel::ComputeThreads some(threads);
    return keel::make_digits({.seed = 1, .train_count = 1100, .test_count = 10});
  };
  const LabelledSplits one = make(1), three = make(3);
  CHECK(keel::bit_equal(one.train.images, three.train.images));
  CHECK(keel::bit_equal(one.train.labels, three.train.labels));
}

TEST_CASE("digits: shapes and a fair share of each class") {
  const LabelledSplits splits = keel::make_digits({.train_count = 5000, .test_count = 20});
  const LabelledImages& train = splits.train;
  CHECK(train.images.type() == keel::Type{keel::u8, {5000, 784}});
  CHECK(train.labels.type() == keel::Type{keel::u8, {5000}});
  CHECK(train.height * train.width == 784);
  CHECK(train.count() == 5000);
  CHECK(splits.origin.find("built-in digits") != std::string::npos);
  std::array<int, 10> counts{};
  for (const uint8_t label : train.labels.data<uint8_t>()) {
    REQUIRE(label < 10);
    ++counts[label];
  }
  // 500 each on average; six standard deviations are 127.
  for (const int count : counts) CHECK(std::abs(count - 500) < 127);
  CHECK_THROWS_AS(keel::make_digits({.train_count = 0}), Error);
  CHECK_THROWS_AS(keel::make_digits({.test_count = int64_t{1} << 40}), Error);
}

TEST_CASE("digits: a linear model learns them but not all of them") {
  const double accuracy =
      softmax_accuracy(keel::make_digits({.train_count = 6000, .test_count = 1000}), 4);
  CHECK(accuracy > 0.75);
  CHECK(accuracy < 0.95);
}

TEST_SUITE_END();
