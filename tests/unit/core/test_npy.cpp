// .npy files: bytes as NumPy writes them, hostile headers, and round trips.
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include "keel/core/base/error.h"
#include "keel/core/base/file.h"
#include "keel/core/tensor/npy.h"

#include "support/error_of.h"

namespace {

using keel::parse_npy;
using keel::Shape;
using keel::Tensor;
using keel_test::contains;

// A file of version `major`.0 with that header and those data bytes.
std::string file(const std::string& header, const std::string& data, char major = 1) {
  std::string bytes = std::string("\x93NUMPY", 6) + major + '\0';
  const size_t length = header.size();
  bytes += static_cast<char>(length & 255);
  bytes += static_cast<char>(length >> 8 & 255);
  if (major == 2) bytes += std::string(2, '\0');
  return bytes + header + data;
}

std::string header(const std::string& descr, const std::string& shape, bool fortran = false) {
  return "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") +
         ", 'shape': " + shape + ", }\n";
}

std::string parse_error_of(const std::string& bytes) {
  try {
    parse_npy(bytes, "x.npy");
  } catch (const keel::Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("a tensor is written byte for byte as NumPy writes it") {
  const auto tensor = Tensor::of<float>({2, 3}, {0, 1, 2, 3, 4, 5});
  std::string expected("\x93NUMPY\x01\x00v\x00", 10);
  expected += "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  expected += std::string(58, ' ') + "\n";
  REQUIRE(expected.size() == 128);
  for (const float value : {0.f, 1.f, 2.f, 3.f, 4.f, 5.f}) {
    char bytes[4];
    std::memcpy(bytes, &value, 4);
    expected.append(bytes, 4);
  }
  CHECK(keel::format_npy(tensor) == expected);
  CHECK(contains(keel::format_npy(Tensor::scalar(true)),
                 "{'descr': '|b1', 'fortran_order': False, 'shape': (), }"));
  CHECK(contains(keel::format_npy(Tensor(keel::u8, {7})),
                 "{'descr': '|u1', 'fortran_order': False, 'shape': (7,), }"));
}

TEST_CASE("every dtype that NumPy has comes back bit for bit") {
  for (const keel::DType dtype : keel::kDTypes) {
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{5}, Shape{2, 0, 3}, Shape{2, 3, 4},
                               Shape{1, 1, 1, 1, 1, 1, 1, 2}}) {
      Tensor tensor(dtype, shape);
      for (int64_t i = 0; i < tensor.num_elements(); ++i)
        tensor.set(i, static_cast<double>(i % 7) - 2.5);
      if (dtype == keel::bf16) {
        CHECK_THROWS_AS(keel::format_npy(tensor), keel::Error);
        continue;
      }
      const std::string bytes = keel::format_npy(tensor);
      CHECK((bytes.size() - tensor.num_bytes()) % 64 == 0);
      CHECK(bit_equal(parse_npy(bytes, "x"), tensor));
    }
  }
  CHECK_THROWS_AS(keel::format_npy(Tensor()), keel::Error);
}

TEST_CASE("headers of other writers are understood") {
  const std::string data("\x01\0\0\0\x02\0\0\0", 8);
  for (const std::string& text :
       {std::string("{'descr':'<i4','fortran_order':False,'shape':(2,)}"),
        std::string("{\"shape\": (2,), \"fortran_order\": False, \"descr\": \"<i4\"}  \n"),
        std::string("  { 'fortran_order' : False , 'shape' : ( 2 , ) , 'descr' : '<i4' , } ")}) {
    for (const char version : {'\1', '\2'}) {
      const Tensor tensor = parse_npy(file(text, data, version), "x");
      CHECK(tensor.dtype() == keel::i32);
      CHECK(tensor.shape() == Shape{2});
      CHECK(tensor.at(1) == 2.0);
    }
  }
}

TEST_CASE("big endian and Fortran order are converted") {
  const Tensor big =
      parse_npy(file(header(">i4", "(2,)"), std::string("\0\0\0\x01\0\0\x01\0", 8)), "x");
  CHECK(big.at(0) == 1.0);
  CHECK(big.at(1) == 256.0);
  const Tensor half = parse_npy(file(header(">f2", "(1,)"), std::string("\x3c\0", 2)), "x");
  CHECK(half.at(0) == 1.0);
  // Columns first: [[0, 1, 2], [3, 4, 5]].
  const Tensor fortran =
      parse_npy(file(header("|u1", "(2, 3)", true), std::string("\0\3\1\4\2\5", 6)), "x");
  for (int64_t i = 0; i < 6; ++i) CHECK(fortran.at(i) == static_cast<double>(i));
  std::string cube(24, '\0');
  for (size_t i = 0; i < 2; ++i) {
    for (size_t j = 0; j < 3; ++j) {
      for (size_t k = 0; k < 4; ++k)
        cube[i + 2 * j + 6 * k] = static_cast<char>(12 * i + 4 * j + k);
    }
  }
  const Tensor three = parse_npy(file(header("|u1", "(2, 3, 4)", true), cube), "x");
  for (int64_t i = 0; i < 24; ++i) CHECK(three.at(i) == static_cast<double>(i));
}

TEST_CASE("bytes of a bool array become true or false") {
  const Tensor tensor = parse_npy(file(header("|b1", "(3,)"), std::string("\0\1\xff", 3)), "x");
  const auto* bytes = static_cast<const unsigned char*>(tensor.raw());
  CHECK(bytes[0] == 0);
  CHECK(bytes[1] == 1);
  CHECK(bytes[2] == 1);
}

TEST_CASE("element types that Keel lacks are refused by name") {
  for (const char* descr : {"<i2", "<u4", "|i1", "<c8", "<U3", "|S1", "<M8[ns]", "|O", "<f16",
                            "=f4", "|f4", "f4", "<", "", "u1"}) {
    const std::string message = parse_error_of(file(header(descr, "(1,)"), "12345678"));
    CHECK_MESSAGE(contains(message, "expected elements of f2, f4, f8, i4, i8, u1 or b1, got '" +
                                        std::string(descr) + "'"),
                  message);
  }
  CHECK(contains(parse_error_of(file(header("<V2", "(1,)"), "12")), "bfloat16"));
  CHECK(contains(parse_error_of(file(header("|V2", "(1,)"), "12")), "save it as float32"));
  CHECK(contains(parse_error_of(file(
                     "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "1234")),
                 "structured"));
}

TEST_CASE("malformed headers are refused") {
  for (const char* text :
       {"",
        "{",
        "{}",
        "{'descr': '<f4'}",
        "{'descr': '<f4', 'fortran_order': False}",
        "[]",
        "{'descr': '<f4',, 'shape': ()}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': 1}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1L,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1.0,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}",
        "{'descr: '<f4'}",
        "{descr: '<f4'}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,,)}"}) {
    const std::string message = parse_error_of(file(text, "1234"));
    CHECK_MESSAGE(contains(message, "x.npy: bad .npy header at byte"),
                  text << " gives " << message);
  }
}

TEST_CASE("hostile shapes give an error before memory is taken") {
  const std::string none;
  for (const char* shape :
       {"(9223372036854775807,)", "(4294967296, 4294967296)", "(4294967296, 2147483648, 0)",
        "(1000000000000,)", "(1, 1, 1, 1, 1, 1, 1, 1, 1)"}) {
    const std::string message = parse_error_of(file(header("<f8", shape), none));
    CHECK_MESSAGE(message.rfind("x.npy: ", 0) == 0, shape);
  }
  CHECK(parse_error_of(file(header("<f8", "(0, 4294967296)"), none)) == "no error");
}

TEST_CASE("the data must be exactly as long as the shape says") {
  CHECK(parse_error_of(file(header("<f4", "(2,)"), "1234567")) ==
        "x.npy: expected 8 bytes of data for f32[2], got 7");
  CHECK(parse_error_of(file(header("<f4", "(2,)"), "123456789")) ==
        "x.npy: expected 8 bytes of data for f32[2], got 9");
  CHECK(parse_error_of(file(header("<f4", "()"), "")) ==
        "x.npy: expected 4 bytes of data for f32[], got 0");
}

TEST_CASE("a file cut anywhere or with any byte changed is read or refused cleanly") {
  const std::string good = keel::format_npy(Tensor::of<int32_t>({2, 2}, {1, 2, 3, 4}));
  for (size_t cut = 0; cut < good.size(); ++cut)
    CHECK(parse_error_of(good.substr(0, cut)) != "no error");
  for (size_t at = 0; at < good.size() - 16; ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = good;
      changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
      const std::string message = parse_error_of(changed);
      CHECK((message == "no error" || message.rfind("x.npy: ", 0) == 0));
    }
  }
  CHECK(contains(parse_error_of("PK\3\4 this is a zip"), "no .npy file"));
  CHECK(contains(parse_error_of(file("{}", "", 4)),
                 "expected format version 1.0, 2.0 or 3.0, got 4.0"));
  std::string long_header = file("{}", "", 2);
  long_header[10] = 1;  // 65538 bytes
  CHECK(contains(parse_error_of(long_header), "ends inside its header"));
  CHECK(contains(parse_error_of(long_header + std::string(70000, ' ')), "the most here is 65536"));
}

TEST_CASE("files are read and written whole") {
  namespace fs = std::filesystem;
  const fs::path path =
      fs::temp_directory_path() / ("keel-npy-" + std::to_string(getpid()) + ".npy");
  const auto tensor = Tensor::of<double>({3}, {1.5, -2, 1e300});
  keel::write_npy(path.string(), tensor);
  CHECK(bit_equal(keel::read_npy(path.string()), tensor));
  CHECK(keel::read_file(path.string(), 1000) == keel::format_npy(tensor));
  // What cannot be written leaves the file as it was.
  CHECK_THROWS_AS(keel::write_npy(path.string(), tensor.cast(keel::bf16)), keel::Error);
  CHECK(bit_equal(keel::read_npy(path.string()), tensor));
  keel::write_npy(path.string(), Tensor(keel::f32, {0}));
  CHECK(keel::read_npy(path.string()).shape() == Shape{0});
  fs::remove(path);
  CHECK_THROWS_AS(keel::read_npy(path.string()), keel::Error);
}

TEST_SUITE_END();
