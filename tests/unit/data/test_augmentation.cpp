// Random changes of images: each is one of those that the description allows, every one of them
// comes up, and what an image becomes is the same on any number of threads and after a resume.
#include <algorithm>
#include <map>
#include <set>

#include <doctest/doctest.h>

#include "keel/core/base/error.h"
#include "keel/core/base/random.h"
#include "keel/data/data.h"

namespace keel_test {

using keel::Dataset;
using keel::DatasetIterator;
using keel::Error;
using keel::ImageAugmentation;
using keel::ItemSlot;
using keel::ItemView;
using keel::Tensor;

namespace {

using Pixels = std::vector<uint8_t>;

// One image of 4 rows and 5 columns, pixel (y, x) is 10 * y + x + 1, `count` times.
Dataset pictures(int64_t count) {
  std::vector<uint8_t> pixels;
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < count; ++i) {
    numbers.push_back(i);
    for (int y = 0; y < 4; ++y)
      for (int x = 0; x < 5; ++x) pixels.push_back(static_cast<uint8_t>(10 * y + x + 1));
  }
  return Dataset::from_tensors({{"image", Tensor::of<uint8_t>({count, 4, 5}, pixels)},
                                {"number", Tensor::of<int64_t>({count}, numbers)}});
}

std::vector<Pixels> images_of(const Dataset& dataset) {
  std::vector<Pixels> out;
  DatasetIterator iterator(dataset);
  while (const auto item = iterator.next()) {
    const auto pixels = (*item)[0].data<uint8_t>();
    out.emplace_back(pixels.begin(), pixels.end());
  }
  return out;
}

// The window of `rows` x `columns` whose corner is (top, left) of the picture, 0 outside of it.
Pixels window(int top, int left, int rows, int columns, bool mirrored = false) {
  Pixels out;
  for (int y = top; y < top + rows; ++y) {
    Pixels row;
    for (int x = left; x < left + columns; ++x) {
      const bool inside = y >= 0 && y < 4 && x >= 0 && x < 5;
      row.push_back(static_cast<uint8_t>(inside ? 10 * y + x + 1 : 0));
    }
    if (mirrored) std::reverse(row.begin(), row.end());
    out.insert(out.end(), row.begin(), row.end());
  }
  return out;
}

// Every result is one of these, and each of these comes up about as often as the others.
void check_each_as_likely(const std::vector<Pixels>& results, const std::set<Pixels>& expected) {
  std::map<Pixels, size_t> counts;
  for (const Pixels& image : results) {
    REQUIRE(expected.count(image) == 1);
    ++counts[image];
  }
  CHECK(counts.size() == expected.size());
  const double share = static_cast<double>(results.size()) / static_cast<double>(expected.size());
  for (const auto& [image, count] : counts) {
    CHECK(static_cast<double>(count) > share / 2);
    CHECK(static_cast<double>(count) < share * 2);
  }
}

}  // namespace

TEST_SUITE_BEGIN("pipeline");

TEST_CASE("augment: a shift moves the image by up to so many pixels each way") {
  std::set<Pixels> expected;
  for (int top = -1; top <= 1; ++top)
    for (int left = -1; left <= 1; ++left) expected.insert(window(top, left, 4, 5));
  check_each_as_likely(images_of(pictures(900).augment({.shift = 1}, 3)), expected);
}

TEST_CASE("augment: a crop is a window anywhere in the image and a flip mirrors half of them") {
  std::set<Pixels> expected;
  for (int top = 0; top <= 2; ++top)
    for (int left = 0; left <= 2; ++left)
      for (const bool mirrored : {false, true}) expected.insert(window(top, left, 2, 3, mirrored));
  const Dataset cut = pictures(1800).augment({.crop = {2, 3}, .flip = true}, 8);
  CHECK(to_string(cut.spec()) == "(image: u8[2, 3], number: i64[])");
  check_each_as_likely(images_of(cut), expected);
}

TEST_CASE("augment: cutout erases one square and cuts it off at the edges") {
  std::set<Pixels> expected;
  for (int centre_y = 0; centre_y < 4; ++centre_y) {
    for (int centre_x = 0; centre_x < 5; ++centre_x) {
      Pixels image = window(0, 0, 4, 5);
      for (int y = std::max(0, centre_y - 1); y < std::min(4, centre_y + 2); ++y)
        for (int x = std::max(0, centre_x - 1); x < std::min(5, centre_x + 2); ++x)
          image[static_cast<size_t>(5 * y + x)] = 200;
      expected.insert(image);
    }
  }
  check_each_as_likely(images_of(pictures(2000).augment({.fill = 200, .cutout = 3}, 1)), expected);
}

TEST_CASE("augment: pixels are normalised by the numbers of their channel") {
  const Tensor colours =
      Tensor::of<uint8_t>({1, 12}, {0, 51, 102, 153, 204, 255, 1, 2, 3, 4, 5, 6});
  const Dataset dataset =
      Dataset::from_tensors({{"picture", colours}})
          .augment(
              {.field = "picture", .image = {2, 2, 3}, .mean = {0.5, 0.25, 0}, .deviation = {2}},
              0);
  CHECK(to_string(dataset.spec()) == "(picture: f32[12])");
  const auto item = DatasetIterator(dataset).next();
  REQUIRE(item);
  const double means[] = {0.5, 0.25, 0};
  for (size_t i = 0; i < 12; ++i) {
    const double expected = (colours.data<uint8_t>()[i] / 255.0 - means[i % 3]) / 2;
    CHECK((*item)[0].data<float>()[i] == doctest::Approx(expected).epsilon(1e-6));
  }
  const Tensor floats = Tensor::of<float>({1, 1, 2}, {3, 5});
  const auto scaled =
      DatasetIterator(
          Dataset::from_tensors({{"image", floats}}).augment({.mean = {1}, .deviation = {2}}, 0))
          .next();
  REQUIRE(scaled);
  CHECK((*scaled)[0].data<float>()[0] == 1);
  CHECK((*scaled)[0].data<float>()[1] == 2);
}

// All of the changes together, on images of 3 x 3 pixels and 3 channels that may move out of sight,
// are made pixel by pixel here.
TEST_CASE("augment: all changes in their order give pixels that lie where each of them says") {
  const int size = 3, side = 2, shift = 3, erased = 2;
  std::vector<float> pixels;
  for (int i = 0; i < size * size * 3; ++i) pixels.push_back(static_cast<float>(i + 1));
  const float fill = 50, scale[] = {1, 2, 4}, mean[] = {0, 10, 20};
  std::set<std::vector<float>> expected;
  const auto changed = [&](int top, int left, bool mirrored, int erased_y, int erased_x) {
    std::vector<float> out;
    for (int y = 0; y < side; ++y) {
      for (int x = 0; x < side; ++x) {
        const int from_y = top + y, from_x = left + (mirrored ? side - 1 - x : x);
        const bool outside = from_y < 0 || from_y >= size || from_x < 0 || from_x >= size;
        const bool cut = y >= erased_y - 1 && y < erased_y - 1 + erased && x >= erased_x - 1 &&
                         x < erased_x - 1 + erased;
        for (int c = 0; c < 3; ++c) {
          const float value =
              outside || cut ? fill : pixels[static_cast<size_t>((from_y * size + from_x) * 3 + c)];
          out.push_back((value - mean[c]) / scale[c]);
        }
      }
    }
    return out;
  };
  // A shift and a corner of the crop add up.
  for (int top = -shift; top <= shift + size - side; ++top)
    for (int left = -shift; left <= shift + size - side; ++left)
      for (const bool mirrored : {false, true})
        for (int y = 0; y < side; ++y)
          for (int x = 0; x < side; ++x) expected.insert(changed(top, left, mirrored, y, x));

  const int64_t count = 20000;
  std::vector<float> all;
  for (int64_t i = 0; i < count; ++i) all.insert(all.end(), pixels.begin(), pixels.end());
  const Dataset images = Dataset::from_tensors({{"image", Tensor::of<float>({count, 27}, all)}});
  std::set<std::vector<float>> seen;
  DatasetIterator iterator(images.augment({.image = {size, size, 3},
                                           .fill = fill,
                                           .shift = shift,
                                           .crop = {side, side},
                                           .flip = true,
                                           .cutout = erased,
                                           .mean = {mean[0], mean[1], mean[2]},
                                           .deviation = {scale[0], scale[1], scale[2]}},
                                          4));
  while (const auto item = iterator.next()) {
    const auto values = (*item)[0].data<float>();
    std::vector<float> image(values.begin(), values.end());
    REQUIRE(expected.count(image) == 1);
    seen.insert(std::move(image));
  }
  CHECK(seen.size() == expected.size());
}

TEST_CASE(
    "augment: an image changes with its number and the pass and not with threads or a resume") {
  const ImageAugmentation changes{.shift = 2, .flip = true, .cutout = 2};
  const auto dataset = [&](int threads) {
    return pictures(60).shuffle(5).augment(changes, 7, {.threads = threads}).repeat(2);
  };
  const std::vector<Pixels> one = images_of(dataset(1));
  CHECK(images_of(dataset(3)) == one);
  const size_t half = one.size() / 2;
  CHECK(std::vector<Pixels>(one.begin(), one.begin() + static_cast<long>(half)) !=
        std::vector<Pixels>(one.begin() + static_cast<long>(half), one.end()));
  CHECK(images_of(pictures(60).shuffle(5).augment(changes, 8).repeat(2)) != one);

  const Dataset batches = dataset(2).batch(7);
  DatasetIterator whole(batches);
  for (int i = 0; i < 9; ++i) whole.next();
  DatasetIterator resumed(batches);
  resumed.restore(whole.cursor());
  const auto expected = whole.next(), got = resumed.next();
  REQUIRE(expected);
  REQUIRE(got);
  CHECK(keel::bit_equal((*expected)[0], (*got)[0]));
  CHECK(keel::bit_equal((*expected)[1], (*got)[1]));
}

TEST_CASE(
    "augment: items that come in order are changed like those that are reached in any order") {
  const ImageAugmentation changes{.shift = 2, .flip = true};
  const Dataset in_order =
      pictures(40).filter([](const ItemView&) { return true; }).augment(changes, 7, {.threads = 2});
  CHECK(images_of(in_order) == images_of(pictures(40).augment(changes, 7)));
  DatasetIterator whole(in_order);
  for (int i = 0; i < 11; ++i) whole.next();
  DatasetIterator resumed(in_order);
  resumed.restore(whole.cursor());
  const auto expected = whole.next(), got = resumed.next();
  REQUIRE(expected);
  REQUIRE(got);
  CHECK(keel::bit_equal((*expected)[0], (*got)[0]));
}

TEST_CASE("map_random: the key is that of the seed and the pass and the item") {
  const Dataset keys = pictures(3).map_random(
      {{{"key", {keel::i64, {}}}}},
      [](const ItemView&, const ItemSlot& out, uint64_t key) {
        out.data<int64_t>(0)[0] = static_cast<int64_t>(key);
      },
      11);
  DatasetIterator iterator(keys.repeat(2));
  for (uint64_t pass = 0; pass < 2; ++pass) {
    for (uint64_t item = 0; item < 3; ++item) {
      const auto got = iterator.next();
      REQUIRE(got);
      CHECK(static_cast<uint64_t>((*got)[0].item<int64_t>()) ==
            keel::fold_key(keel::fold_key(11, pass), item));
    }
  }
  CHECK_THROWS_WITH_AS(pictures(1).map_random({}, nullptr, 0), doctest::Contains("is empty"),
                       Error);
}

TEST_CASE("augment: what no image allows is refused with what it expects") {
  const Dataset dataset = pictures(2);
  const struct {
    ImageAugmentation changes;
    const char* part;
  } cases[] = {{{.field = "imag"}, "did you mean 'image'"},
               {{.field = "number"}, "u8 or f32 pixels"},
               {{.image = {4, 4}}, "as many pixels as the field's 20"},
               {{.image = {20}}, "[height, width]"},
               {{.fill = 256}, "0 to 255"},
               {{.fill = 0.5}, "0 to 255"},
               {{.shift = -1}, "shift"},
               {{.shift = 6}, "0 to 5"},
               {{.crop = {5, 5}}, "crop"},
               {{.crop = {4}}, "crop"},
               {{.cutout = -1}, "cutout"},
               {{.mean = {0.5}}, "deviation"},
               {{.mean = {0.5, 0.5}, .deviation = {1}}, "mean"},
               {{.mean = {0.5}, .deviation = {0}}, "above 0"},
               // 1 / (255 * 1e-42) is 3.9e39 and 1e39 / 0.5 is 2e39, above f32's 3.4e38.
               {{.mean = {0}, .deviation = {1e-42}}, "deviation: expected numbers that"},
               {{.mean = {-1e39}, .deviation = {0.5}}, "mean: expected numbers that"}};
  for (const auto& c : cases) {
    CAPTURE(c.part);
    CHECK_THROWS_WITH_AS(dataset.augment(c.changes, 0), doctest::Contains(c.part), Error);
    CHECK_THROWS_WITH_AS(dataset.augment(c.changes, 0), doctest::Contains("test_augmentation.cpp"),
                         Error);
  }
  // 1 / (255 * 1e-40) is 3.9e37: a pixel of 1 becomes that.
  DatasetIterator steep(dataset.augment({.mean = {0}, .deviation = {1e-40}}, 0));
  CHECK((*steep.next())[0].at(0) == doctest::Approx(1 / 255e-40));
  // A batch of images is not one image with many channels.
  const Tensor many = Tensor::of<uint8_t>({2, 6, 6}, Pixels(72, 1));
  CHECK_THROWS_WITH_AS(Dataset::from_tensors({{"image", many}}).batch(2).augment({.shift = 1}, 0),
                       doctest::Contains("before batch()"), Error);
}

TEST_SUITE_END();

}  // namespace keel_test
