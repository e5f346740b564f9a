#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/data/formats/cifar10.h"
#include "keel/data/formats/labelled_csv.h"
#include "keel/data/formats/mnist.h"
#include "keel/data/pipeline/iterator.h"

#include "support/error_of.h"
#include "support/idx_bytes.h"
#include "support/temp_folder.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using keel_test::contains;
using keel_test::error_of;
using keel_test::idx_bytes;
using keel_test::TempFolder;

// A record whose pixel i has red i + seed, green 2 i, blue 255 - i, in bytes.
std::string cifar_record(int label, int seed) {
  std::string bytes(1, static_cast<char>(label));
  for (int plane = 0; plane < 3; ++plane) {
    for (int i = 0; i < 1024; ++i) {
      const int value = plane == 0 ? i + seed : plane == 1 ? 2 * i : 255 - i;
      bytes += static_cast<char>(value & 0xff);
    }
  }
  return bytes;
}

std::vector<int64_t> numbers_of(const Dataset& dataset) {
  std::vector<int64_t> numbers;
  DatasetIterator items(dataset);
  while (const auto fields = items.next()) numbers.push_back(fields->at(0).item<int64_t>());
  return numbers;
}

Dataset ten() {
  Tensor numbers(i64, {10});
  for (int64_t i = 0; i < 10; ++i) numbers.set(i, static_cast<double>(i));
  return Dataset::from_tensors({{"n", numbers}});
}

}  // namespace

TEST_CASE("split: the last items apart from the rest") {
  const auto [train, validation] = ten().split(3);
  CHECK(numbers_of(train) == std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6});
  CHECK(numbers_of(validation) == std::vector<int64_t>{7, 8, 9});
  // Shuffled behind it, both passes of the training part hold the same items.
  for (const Dataset& pass : {train.shuffle(1), train.shuffle(1).repeat(2).skip(7)}) {
    auto numbers = numbers_of(pass);
    std::sort(numbers.begin(), numbers.end());
    CHECK(numbers == std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6});
  }
}

TEST_CASE("split: an empty part and an order that changes are refused") {
  for (const int64_t count : {-1, 0, 10, 11})
    CHECK(contains(error_of([&] { ten().split(count); }), "1 to 9"));
  CHECK(contains(error_of([] { ten().shuffle(0).split(2); }), "shuffle behind"));
  CHECK(contains(error_of([] { ten().filter([](const ItemView&) { return true; }).split(2); }),
                 "not known"));
}

TEST_CASE("cifar10: planes become pixels and batches one set") {
  const TempFolder folder;
  folder.write("data_batch_1.bin", cifar_record(3, 0) + cifar_record(9, 5));
  folder.write("data_batch_2.bin", cifar_record(0, 7));
  folder.write("test_batch.bin", cifar_record(1, 1));
  CHECK(holds_cifar10(folder.path()));
  const LabelledSplits splits = load_cifar10(folder.path());
  CHECK(splits.train.count() == 3);
  CHECK(splits.test.count() == 1);
  CHECK(splits.train.height == 32);
  CHECK(splits.train.width == 32);
  CHECK(splits.train.channels == 3);
  CHECK(splits.train.classes == 10);
  CHECK(splits.train.images.shape() == Shape{3, 3072});
  const auto labels = splits.train.labels.data<uint8_t>();
  CHECK(std::vector<int>(labels.begin(), labels.end()) == std::vector<int>{3, 9, 0});
  const auto pixels = splits.train.images.data<uint8_t>();
  for (const int i : {0, 1, 33, 1023}) {
    const auto at = static_cast<size_t>(3072 + 3 * i);
    CHECK(pixels[at] == ((i + 5) & 0xff));
    CHECK(pixels[at + 1] == ((2 * i) & 0xff));
    CHECK(pixels[at + 2] == ((255 - i) & 0xff));
  }
}

TEST_CASE("cifar10: files of other names are told by their records") {
  const TempFolder folder;
  folder.write("b", cifar_record(0, 7));
  folder.write("a", cifar_record(3, 0) + cifar_record(9, 5));
  folder.write("notes.txt", "no records");
  folder.write("labels", std::string(3073, '\x0a'));  // no class of ten
  CHECK_FALSE(holds_cifar10(folder.path()));          // nothing says which is the test
  folder.write("the_test", cifar_record(1, 1));
  REQUIRE(holds_cifar10(folder.path()));
  const LabelledSplits splits = load_cifar10(folder.path());
  const auto labels = splits.train.labels.data<uint8_t>();
  CHECK(std::vector<int>(labels.begin(), labels.end()) == std::vector<int>{3, 9, 0});
  CHECK(splits.test.labels.data<uint8_t>()[0] == 1);
  const auto paths = cifar10_files(folder.path());
  CHECK(std::count(paths.begin(), paths.end(), folder.file("the_test")) == 1);
  // With one file of a usual name the usual ones are looked for.
  folder.write("data_batch_1.bin", cifar_record(4, 0));
  CHECK(contains(error_of([&] { load_cifar10(folder.path()); }), "test_batch.bin"));
}

TEST_CASE("mnist: files of other names are told by what is in them") {
  const TempFolder folder;
  folder.write("a", idx_bytes({2}, "\1\2"));
  folder.write("b", idx_bytes({3}, "\3\4\5"));
  folder.write("c.idx", idx_bytes({3, 1, 2}, "abcdef"));
  folder.write("d.txt", "this is no data");
  folder.write("e", idx_bytes({3, 2}, "abcdef"));  // of rank 2: not a part of the set
  CHECK_FALSE(holds_mnist(folder.path()));
  folder.write("f", idx_bytes({2, 1, 2}, "ghij"));
  REQUIRE(holds_mnist(folder.path()));
  const LabelledSplits splits = load_mnist(folder.path());
  CHECK(splits.origin == "MNIST files in " + folder.path());
  CHECK(splits.train.count() == 3);
  CHECK(splits.test.count() == 2);
  CHECK(splits.train.labels.data<uint8_t>()[0] == 3);
  CHECK(splits.train.images.data<uint8_t>()[5] == 'f');
  CHECK(splits.test.images.data<uint8_t>()[0] == 'g');
  const auto paths = mnist_files(folder.path());
  for (const char* name : {"a", "b", "c.idx", "f"})
    CHECK(std::count(paths.begin(), paths.end(), folder.file(name)) == 1);
  CHECK(std::count(paths.begin(), paths.end(), folder.file("e")) == 0);
  folder.write("g", idx_bytes({9, 1, 2}, ""));  // a third file of images
  CHECK_FALSE(holds_mnist(folder.path()));
  CHECK(contains(error_of([&] { load_mnist(folder.path()); }), "train-images-idx3-ubyte"));
}

TEST_CASE("mnist: parts of one size are not told apart") {
  const TempFolder folder;
  for (const char* part : {"x", "y"}) {
    folder.write(std::string(part) + "1", idx_bytes({2}, "\1\2"));
    folder.write(std::string(part) + "2", idx_bytes({2, 1, 1}, "ab"));
  }
  CHECK_FALSE(holds_mnist(folder.path()));
}

// Its files have MNIST's names; the first classes are those that its authors publish.
TEST_CASE("mnist: fashion is told by its classes") {
  const TempFolder folder;
  std::string classes = std::string("\x09\0\0\3\0\2\7\2\5\5", 10) + std::string(59990, '\1');
  folder.write("train-images-idx3-ubyte", idx_bytes({60000, 1, 1}, std::string(60000, 'a')));
  folder.write("t10k-images-idx3-ubyte", idx_bytes({2, 1, 1}, "ab"));
  folder.write("t10k-labels-idx1-ubyte", idx_bytes({2}, "\1\2"));
  folder.write("train-labels-idx1-ubyte", idx_bytes({60000}, classes));
  CHECK(load_mnist(folder.path()).origin == "Fashion-MNIST files in " + folder.path());
  classes[3] = '\4';
  folder.write("train-labels-idx1-ubyte", idx_bytes({60000}, classes));
  CHECK(load_mnist(folder.path()).origin == "MNIST files in " + folder.path());
}

TEST_CASE("cifar10: what is missing truncated or of no class is named") {
  const TempFolder folder;
  CHECK_FALSE(holds_cifar10(folder.path()));
  folder.write("data_batch_2.bin", cifar_record(0, 0));
  const auto refused = [&](const char* part) {
    CHECK(contains(error_of([&] { load_cifar10(folder.path()); }), part));
  };
  refused("data_batch_1.bin");
  folder.write("data_batch_1.bin", cifar_record(0, 0));
  refused("test_batch.bin");
  folder.write("test_batch.bin", cifar_record(10, 0));
  refused("expected a class from 0 to 9, got 10");
  const std::string good = cifar_record(1, 0) + cifar_record(2, 0);
  for (const size_t size : {size_t{1}, size_t{3072}, size_t{3074}, good.size() - 1}) {
    CAPTURE(size);
    folder.write("test_batch.bin", good.substr(0, size));
    refused("truncated");
  }
  folder.write("test_batch.bin", "");
  refused("empty");
  folder.write("test_batch.bin", good);
  CHECK(load_cifar10(folder.path()).test.count() == 2);
  CHECK(contains(error_of([&] { load_cifar10(folder.path(), 4000); }), "4000"));
}

TEST_CASE("cifar10: the budget holds for all files together") {
  constexpr int64_t kRecord = 3073;
  const TempFolder folder;
  for (int batch = 1; batch <= 5; ++batch) {
    folder.write("data_batch_" + std::to_string(batch) + ".bin",
                 cifar_record(batch, 0) + cifar_record(batch, 1));
  }
  folder.write("test_batch.bin", cifar_record(0, 0));
  // 11 records; no file has more than 2.
  CHECK(load_cifar10(folder.path(), 11 * kRecord).train.count() == 10);
  const std::string refusal = error_of([&] { load_cifar10(folder.path(), 11 * kRecord - 1); });
  CHECK(contains(refusal, "test_batch.bin"));
  CHECK(contains(refusal, "more than the 33802 bytes that they may take together"));
  CHECK(contains(error_of([&] { load_cifar10(folder.path(), 5 * kRecord); }), "data_batch_3.bin"));
  CHECK(contains(error_of([&] { load_cifar10(folder.path(), -1); }),
                 "max_bytes: expected 0 or more, got -1"));
}

TEST_CASE("labelled csv: bytes make images and floats make rows") {
  const TempFolder folder;
  std::string bytes = "class,a,b,c,d\n";
  std::string floats = "a,kind,b\n";
  for (int i = 0; i < 10; ++i) {
    bytes += std::to_string(i % 3) + "," + std::to_string(i) + ",0,255," + std::to_string(i) + "\n";
    floats += std::to_string(i) + ".5," + std::to_string(i % 2) + ",-1\n";
  }
  const LabelledSplits images = load_labelled_csv(folder.write("b.csv", bytes), "class");
  CHECK(images.train.count() == 8);
  CHECK(images.test.count() == 2);
  CHECK(images.train.images.dtype() == u8);
  CHECK(images.train.height == 2);
  CHECK(images.train.width == 2);
  CHECK(images.train.classes == 3);
  std::multiset<int> seen;  // each row once, in one of the two parts
  for (const LabelledImages* part : {&images.train, &images.test}) {
    for (int64_t row = 0; row < part->count(); ++row) {
      const auto i = static_cast<int>(part->images.at(row * 4));
      CHECK(part->images.at(row * 4 + 2) == 255);
      CHECK(part->labels.at(row) == i % 3);
      seen.insert(i);
    }
  }
  CHECK(seen == std::multiset<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  const LabelledSplits rows = load_labelled_csv(folder.write("f.csv", floats), "kind");
  CHECK(rows.train.images.dtype() == f32);
  CHECK(rows.train.height == 1);
  CHECK(rows.train.width == 2);
  CHECK(rows.train.classes == 2);
  CHECK(rows.train.images.at(1) == -1);
}

TEST_CASE("labelled csv: classes beyond a byte numbers that are none and too few rows") {
  const TempFolder folder;
  const auto refused = [&](const std::string& text, const char* part) {
    const std::string path = folder.write("t.csv", text);
    CHECK(contains(error_of([&] { load_labelled_csv(path, "y"); }), part));
  };
  refused("y,x\n1,2\n256,3\n", "line 3");
  refused("y,x\n-1,2\n0,3\n", "got -1");
  refused("y,x\n1,2\n0,nan\n", "line 3: column 'x': expected a finite f32, got 'nan'");
  refused("y,x\n1,2\n\n0,-inf\n", "line 4: column 'x': expected a finite f32, got '-inf'");
  refused("y,x\n1,1e39\n", "got '1e39', which is too large for it");
  refused("y,x\n1,2\n", "at least 2 rows");
  refused("z,x\n1,2\n0,1\n", "'y'");
  refused("y,x\n1.5,2\n0,1\n", "1.5");
  refused("y\n1\n0\n", "expected columns beside 'y', with the numbers to tell its classes by");
}

TEST_SUITE_END();
