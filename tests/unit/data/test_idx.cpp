#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/data/formats/byte_source.h"
#include "keel/data/formats/idx.h"
#include "keel/data/formats/mnist.h"

#include "support/idx_bytes.h"
#include "support/temp_folder.h"

TEST_SUITE_BEGIN("unit");

namespace {

using keel::Error;
using keel::Tensor;
using keel_test::gzip;
using keel_test::idx_bytes;
using keel_test::TempFolder;
namespace fs = std::filesystem;

std::string counting(size_t count) {
  std::string bytes;
  for (size_t i = 0; i < count; ++i) bytes += static_cast<char>(i * 7 % 256);
  return bytes;
}

std::string message_of(const std::string& path, size_t rank, int64_t limit = 0) {
  try {
    keel::read_idx(path, rank, limit);
  } catch (const Error& error) {
    const std::string text = error.what();
    CHECK(text.rfind(path, 0) == 0);
    return text.substr(path.size());
  }
  return "no error";
}

void check_counting(const Tensor& tensor) {
  const auto values = tensor.data<uint8_t>();
  for (size_t i = 0; i < values.size(); ++i) CHECK(values[i] == i * 7 % 256);
}

}  // namespace

TEST_CASE("idx: plain and gzip files are told apart by content and read alike") {
  const TempFolder temp;
  const std::string bytes = idx_bytes({2, 3, 4}, counting(24));
  for (const std::string& path : {temp.write("plain", bytes), temp.write("named.gz", bytes),
                                  temp.write("packed", gzip(bytes))}) {
    const Tensor tensor = keel::read_idx(path, 3);
    CHECK(tensor.type() == keel::Type{keel::u8, {2, 3, 4}});
    check_counting(tensor);
  }
  CHECK(keel::read_idx(temp.write("none", idx_bytes({0}, "")), 1).num_elements() == 0);
  CHECK(keel::read_idx(temp.write("none.gz", gzip(idx_bytes({0, 5}, ""))), 2).num_elements() == 0);
}

TEST_CASE("idx: a gzip file cut at any byte is an error that names the file") {
  const TempFolder temp;
  const std::string packed = gzip(idx_bytes({5, 9}, counting(45)));
  for (size_t size = 0; size < packed.size(); ++size) {
    const std::string text = message_of(temp.write("cut.gz", packed.substr(0, size)), 2);
    const bool said =
        text.find("truncated") != std::string::npos || text.find("empty") != std::string::npos;
    CHECK_MESSAGE(said, size << " bytes: " << text);
  }
  check_counting(keel::read_idx(temp.write("cut.gz", packed), 2));
}

TEST_CASE("idx: a plain file cut at any byte is an error") {
  const TempFolder temp;
  const std::string bytes = idx_bytes({3, 5}, counting(15));
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::string text = message_of(temp.write("cut", bytes.substr(0, size)), 2);
    const bool said =
        text.find("truncated") != std::string::npos || text.find("empty") != std::string::npos;
    CHECK_MESSAGE(said, size << " bytes: " << text);
  }
}

TEST_CASE("idx: any flipped byte of a gzip file is noticed or harmless") {
  const TempFolder temp;
  const std::string packed = gzip(idx_bytes({5, 9}, counting(45)));
  int noticed = 0;
  for (size_t at = 0; at < packed.size(); ++at) {
    std::string damaged = packed;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    const std::string path = temp.write("damaged.gz", damaged);
    try {
      check_counting(keel::read_idx(path, 2));
    } catch (const Error& error) {
      ++noticed;
      CHECK(std::string(error.what()).rfind(path, 0) == 0);
    }
  }
  // Only fields of the header that mean nothing here (time, system, hints) may change.
  CHECK(noticed >= static_cast<int>(packed.size()) - 8);
}

TEST_CASE("idx: more dimensions than a tensor has and negative limits are refused") {
  const TempFolder temp;
  const std::vector<uint32_t> eight(8, 1), nine(9, 1);
  CHECK(keel::read_idx(temp.write("eight", idx_bytes(eight, "a")), 8).num_elements() == 1);
  CHECK(message_of(temp.write("nine", idx_bytes(nine, "a")), 9)
            .find("9 dimensions, and a tensor at most 8 (at byte 3 of the file)") !=
        std::string::npos);
  const std::string good = temp.write("good", idx_bytes({2}, "ab"));
  CHECK_THROWS_WITH_AS(keel::read_idx(good, 1, -1),
                       doctest::Contains("max_bytes: expected 0 or more, got -1"), Error);
}

TEST_CASE("idx: wrong magic numbers and ranks") {
  const TempFolder temp;
  const std::string good = idx_bytes({2}, "ab");
  const auto with = [&](size_t at, char value) {
    std::string bytes = good;
    bytes[at] = value;
    return temp.write("bad", bytes);
  };
  CHECK(message_of(with(0, 1), 1).find("not an IDX file: it begins with 01 00 08 01") !=
        std::string::npos);
  CHECK(message_of(with(1, 9), 1).find("not an IDX file") != std::string::npos);
  CHECK(message_of(with(2, 0x0d), 1).find("expected elements of type 08") != std::string::npos);
  CHECK(message_of(with(3, 3), 1).find("expected 1 dimensions, got 3 (at byte 3 of the file)") !=
        std::string::npos);
  CHECK(message_of(temp.write("good", good), 3).find("expected 3 dimensions, got 1") !=
        std::string::npos);
  CHECK(message_of(temp.write("bad.gz", gzip("\x01" + good)), 1).find("of the uncompressed data") !=
        std::string::npos);
}

TEST_CASE("idx: dimensions are believed only as far as the file can hold them") {
  const TempFolder temp;
  const uint32_t most = 0xffffffffu;
  CHECK(message_of(temp.write("a", idx_bytes({most, most, most}, "")), 3)
            .find("do not fit in 64 bits") != std::string::npos);
  CHECK(message_of(temp.write("b", idx_bytes({most, 28, 28}, "")), 3).find("the limit is") !=
        std::string::npos);
  CHECK(message_of(temp.write("c", idx_bytes({1000, 28, 28}, "")), 3)
            .find("more than the file can hold") != std::string::npos);
  CHECK(message_of(temp.write("d.gz", gzip(idx_bytes({60000, 28, 28}, ""))), 3)
            .find("more than the file can hold") != std::string::npos);
  CHECK(
      message_of(temp.write("e", idx_bytes({4, 5}, counting(20))), 2, 19).find("the limit is 19") !=
      std::string::npos);
}

TEST_CASE("idx: bytes behind the end") {
  const TempFolder temp;
  const std::string bytes = idx_bytes({4, 5}, counting(20));
  const std::string more = "more bytes than the header announces (at byte 32 of the ";
  CHECK(message_of(temp.write("a", bytes + "x"), 2).find(more + "file)") != std::string::npos);
  CHECK(message_of(temp.write("b.gz", gzip(bytes + "x")), 2).find(more + "uncompressed data)") !=
        std::string::npos);
  CHECK(
      message_of(temp.write("c.gz", gzip(bytes) + "x"), 2).find("bytes that are no gzip follow") !=
      std::string::npos);
  // A bomb: a megabyte of zeros behind the data costs nothing to refuse.
  CHECK(message_of(temp.write("d.gz", gzip(bytes + std::string(1 << 20, '\0'))), 2).find(more) !=
        std::string::npos);
}

TEST_CASE("idx: gzip members that follow one another are one content") {
  const TempFolder temp;
  const std::string bytes = idx_bytes({4, 5}, counting(20));
  for (size_t cut = 0; cut <= bytes.size(); cut += 7) {
    check_counting(keel::read_idx(
        temp.write("two.gz", gzip(bytes.substr(0, cut)) + gzip(bytes.substr(cut))), 2));
  }
  CHECK(message_of(temp.write("three.gz", gzip(bytes) + gzip("x")), 2).find("more bytes") !=
        std::string::npos);
  const std::string tail = gzip("");
  CHECK(message_of(temp.write("cut.gz", gzip(bytes) + tail.substr(0, tail.size() - 3)), 2)
            .find("truncated") != std::string::npos);
}

TEST_CASE("idx: files that cannot be read") {
  const TempFolder temp;
  CHECK_THROWS_AS(keel::read_idx(temp.file("missing"), 1), Error);
  CHECK_THROWS_AS(keel::read_idx(temp.path(), 1), Error);
}

TEST_CASE("mnist: four files plain or gzip") {
  const TempFolder temp;
  temp.write("train-images-idx3-ubyte.gz", gzip(idx_bytes({3, 2, 2}, counting(12))));
  temp.write("train-labels-idx1-ubyte", idx_bytes({3}, std::string{0, 9, 4}));
  temp.write("t10k-images-idx3-ubyte", idx_bytes({1, 2, 2}, counting(4)));
  CHECK_THROWS_WITH_AS(
      keel::load_mnist(temp.path()),
      doctest::Contains("neither t10k-labels-idx1-ubyte nor t10k-labels-idx1-ubyte.gz"), Error);
  temp.write("t10k-labels-idx1-ubyte.gz", gzip(idx_bytes({1}, std::string{7})));
  const keel::LabelledSplits splits = keel::load_mnist(temp.path());
  CHECK(splits.train.images.shape() == keel::Shape{3, 4});
  CHECK(splits.train.labels.data<uint8_t>()[1] == 9);
  CHECK(splits.test.count() == 1);
  CHECK(splits.test.height == 2);
  CHECK(splits.origin.find(temp.path()) != std::string::npos);
  check_counting(splits.train.images);
}

TEST_CASE("mnist: sets that do not fit together") {
  const TempFolder temp;
  temp.write("train-images-idx3-ubyte", idx_bytes({3, 2, 2}, counting(12)));
  temp.write("t10k-images-idx3-ubyte", idx_bytes({1, 2, 2}, counting(4)));
  temp.write("t10k-labels-idx1-ubyte", idx_bytes({1}, std::string{7}));
  const auto fails_with = [&](const std::string& text) {
    CHECK_THROWS_WITH_AS(keel::load_mnist(temp.path()), doctest::Contains(text.c_str()), Error);
  };
  temp.write("train-labels-idx1-ubyte", idx_bytes({3}, std::string{0, 10, 4}));
  fails_with("label 1: expected a class from 0 to 9, got 10");
  temp.write("train-labels-idx1-ubyte", idx_bytes({2}, std::string{0, 1}));
  fails_with("expected 3 labels");
  temp.write("train-labels-idx1-ubyte", idx_bytes({3}, std::string{0, 1, 2}));
  temp.write("t10k-images-idx3-ubyte", idx_bytes({1, 4, 1}, counting(4)));
  fails_with("expected images of 2 x 2");
  temp.write("t10k-images-idx3-ubyte", idx_bytes({0, 2, 2}, ""));
  temp.write("t10k-labels-idx1-ubyte", idx_bytes({0}, ""));
  fails_with("there are no images");
  CHECK_THROWS_AS(keel::load_mnist(temp.file("missing")), Error);
}

TEST_CASE("mnist: images of another width and a folder that cannot be looked at") {
  const TempFolder temp;
  temp.write("train-images-idx3-ubyte", idx_bytes({3, 2, 2}, counting(12)));
  temp.write("train-labels-idx1-ubyte", idx_bytes({3}, std::string{0, 9, 4}));
  temp.write("t10k-images-idx3-ubyte", idx_bytes({1, 2, 3}, counting(6)));
  temp.write("t10k-labels-idx1-ubyte", idx_bytes({1}, std::string{7}));
  CHECK_THROWS_WITH_AS(keel::load_mnist(temp.path()), doctest::Contains("images of 2 x 2"), Error);
  CHECK_THROWS_WITH_AS(keel::load_mnist(temp.file("t10k-labels-idx1-ubyte")),
                       doctest::Contains("is not a folder"), Error);
  CHECK_THROWS_WITH_AS(keel::load_mnist(std::string(5000, 'x')),
                       doctest::Contains("File name too long"), Error);
}

TEST_CASE("a byte source that was asked whether it has ended reads on") {
  const TempFolder temp;
  keel::ByteSource source(temp.write("three.gz", gzip("abc")));
  char bytes[3] = {};
  CHECK_FALSE(source.ended());
  CHECK_FALSE(source.ended());
  source.read(bytes, 0, "nothing");
  source.read(bytes, 2, "two");
  CHECK(std::string(bytes, 2) == "ab");
  CHECK_FALSE(source.ended());
  source.read(bytes, 1, "one");
  CHECK(bytes[0] == 'c');
  CHECK(source.ended());
  source.finish();
}

TEST_SUITE_END();
