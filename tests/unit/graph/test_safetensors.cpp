#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "keel/core/base/file.h"
#include "keel/graph/runtime/safetensors.h"

#include "runtime_for_tests.h"
#include "support/safetensors_bytes.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::testing;
using keel_test::safetensors_bytes;

struct TemporaryFile {
  TemporaryFile() {
    char pattern[] = "/tmp/keel_safetensors_XXXXXX";
    folder = mkdtemp(pattern);
    path = folder + "/file.safetensors";
  }
  ~TemporaryFile() { std::filesystem::remove_all(folder); }
  std::string folder;
  std::string path;
};

std::string error_for(const std::string& header, const std::string& data) {
  return error_of([&] { parse_safetensors(safetensors_bytes(header, data), "a.safetensors"); });
}

TEST_CASE("safetensors reads a file written by hand") {
  const float values[] = {1.5f, -2};
  const std::string data(reinterpret_cast<const char*>(values), sizeof values);
  const Safetensors file = parse_safetensors(
      safetensors_bytes(
          R"({"__metadata__":{"k":"v"},"b":{"dtype":"U8","shape":[2,1],"data_offsets":[8,10]},)"
          R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
          R"("none":{"dtype":"F64","shape":[0,3],"data_offsets":[8,8]}}  )",
          data + "\x07\x09"),
      "a.safetensors");
  CHECK(file.metadata == std::map<std::string, std::string>{{"k", "v"}});
  REQUIRE(file.tensors.size() == 3);
  CHECK(file.tensors.at("a").data<float>()[1] == -2);
  CHECK(file.tensors.at("b").type() == Type{u8, {2, 1}});
  CHECK(file.tensors.at("b").data<uint8_t>()[1] == 9);
  CHECK(file.tensors.at("none").shape() == Shape{0, 3});
}

TEST_CASE("safetensors keeps every dtype and odd names") {
  const TemporaryFile file;
  std::map<std::string, Tensor> tensors;
  for (const DType dtype : kDTypes) {
    Tensor tensor(dtype, {3, 5});
    for (int64_t i = 0; i < 15; ++i) tensor.set(i, static_cast<double>(i % 2));
    tensors[std::string("layer/") + name_of(dtype)] = tensor;
  }
  tensors["scalar"] = Tensor::scalar<double>(std::numeric_limits<double>::quiet_NaN());
  tensors["empty"] = Tensor(f16, {4, 0});
  tensors["quote\"back\\slash \xc3\xa9\n"] = Tensor::scalar<uint8_t>(1);
  const std::map<std::string, std::string> metadata{{"", "empty"}, {"a\"b", "\t\x01"}};
  write_safetensors(file.path, tensors, metadata);
  const Safetensors back = read_safetensors(file.path);
  CHECK(back.metadata == metadata);
  REQUIRE(back.tensors.size() == tensors.size());
  for (const auto& [name, tensor] : tensors) CHECK(bit_equal(back.tensors.at(name), tensor));
}

TEST_CASE("safetensors writes what the format describes") {
  const TemporaryFile file;
  write_safetensors(file.path, {{"a", Tensor::of<uint8_t>({3}, {1, 2, 3})},
                                {"b", Tensor::of<int64_t>({1}, {-1})}});
  const std::string bytes = read_file(file.path, 1 << 20);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  CHECK(length % 8 == 0);
  REQUIRE(bytes.size() == 8 + length + 11);
  const auto header = nlohmann::json::parse(bytes.substr(8, length));
  CHECK(header["b"]["dtype"] == "I64");
  CHECK(header["b"]["data_offsets"] == nlohmann::json({0, 8}));
  CHECK(header["a"]["shape"] == nlohmann::json({3}));
  CHECK(header["a"]["data_offsets"] == nlohmann::json({8, 11}));
  CHECK(bytes.substr(8 + length) == std::string(8, '\xff') + "\x01\x02\x03");
}

TEST_CASE("safetensors of nothing") {
  const TemporaryFile file;
  write_safetensors(file.path, {});
  const Safetensors back = read_safetensors(file.path);
  CHECK(back.tensors.empty());
  CHECK(back.metadata.empty());
}

TEST_CASE("safetensors refuses what it cannot write and leaves the old file") {
  const TemporaryFile file;
  write_safetensors(file.path, {{"a", Tensor::scalar<float>(1)}});
  CHECK(contains(error_of([&] { write_safetensors(file.path, {{"b", Tensor()}}); }), "'b'"));
  CHECK(contains(error_of([&] {
                   write_safetensors(file.path, {{"__metadata__", Tensor::scalar(1.0)}});
                 }),
                 "reserves"));
  CHECK(contains(error_of([&] { write_safetensors(file.folder + "/no/x", {}); }), "/no/x"));
  CHECK(read_safetensors(file.path).tensors.contains("a"));
  CHECK(contains(error_of([&] { read_safetensors(file.folder + "/none"); }), "/none"));
  CHECK(contains(error_of([&] { read_safetensors(file.folder); }), file.folder));
}

TEST_CASE("safetensors refuses a file cut off at any byte or with bytes behind it") {
  const TemporaryFile file;
  write_safetensors(file.path,
                    {{"a", Tensor::full(f32, {3}, 2)}, {"b", Tensor::scalar<uint8_t>(1)}},
                    {{"k", "v"}});
  const std::string whole = read_file(file.path, 1 << 20);
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string cut = whole.substr(0, size);
    const std::string error = error_of([&] { parse_safetensors(cut, "cut.safetensors"); });
    CHECK(contains(error, "cut.safetensors"));
  }
  CHECK(contains(error_of([&] { parse_safetensors(whole + "x", "long"); }), "expected 13 bytes"));
  const TemporaryFile cut;
  std::ofstream(cut.path, std::ios::binary) << whole.substr(0, whole.size() - 1);
  CHECK(contains(error_of([&] { read_safetensors(cut.path); }), cut.path));
}

TEST_CASE("safetensors says of a file that is cut short where it ends and should") {
  const TemporaryFile file;
  write_safetensors(file.path, {{"a", Tensor::full(f32, {64}, 2)}});
  const std::string whole = read_file(file.path, 1 << 20);
  const size_t header = whole.size() - 256;
  const auto error_at = [&](size_t size) {
    return error_of([&] { parse_safetensors(whole.substr(0, size), "cut"); });
  };
  // A header is known by its brace; before it there is nothing to know a file by.
  for (const size_t size : {size_t{9}, header - 1, header, whole.size() - 1}) {
    const size_t promised = size < header ? header : whole.size();
    const std::string error = error_at(size);
    CHECK_MESSAGE(contains(error, "cut: is cut short: it ends at byte " + std::to_string(size) +
                                      ", and its header promises " + std::to_string(promised)),
                  error);
    CHECK_MESSAGE(contains(error, "an older file"), error);
  }
  CHECK(contains(error_at(8), "expected a length"));
}

TEST_CASE("safetensors refuses any byte of the header changed into nonsense or reads the same") {
  const Tensor values = Tensor::of<float>({3}, {2, -3, 4});
  const TemporaryFile file;
  write_safetensors(file.path, {{"a", values}}, {{"k", "v"}});
  // Another program's file has no checksums.
  const std::string others = safetensors_bytes(
      R"({"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})",
      std::string(static_cast<const char*>(values.raw()), 12));
  for (const std::string& whole : {read_file(file.path, 1 << 20), others}) {
    for (size_t i = 0; i + 12 < whole.size(); ++i) {
      for (const char byte : {'\0', '9', '"', '\xff'}) {
        std::string changed = whole;
        changed[i] = byte;
        std::optional<Safetensors> read;
        const std::string error = error_of([&] { read = parse_safetensors(changed, "changed"); });
        if (!read) CHECK_MESSAGE(contains(error, "changed:"), error);
        if (!read) continue;
        // Names may have changed; nothing else may.
        REQUIRE(read->tensors.size() == 1);
        const Tensor& tensor = read->tensors.begin()->second;
        CHECK(tensor.type() == values.type());
        CHECK(bit_equal(tensor, values));
      }
    }
  }
}

TEST_CASE("safetensors refuses header lengths that lie") {
  for (const uint64_t length : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32, uint64_t{1} << 63,
                                ~uint64_t{0}, ~uint64_t{0} - 7}) {
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, 8);
    const std::string error = error_of([&] { parse_safetensors(bytes + "{}", "a"); });
    CHECK(contains(error, "safetensors header: expected a length from 2 to 2, got"));
  }
}

TEST_CASE("safetensors refuses hostile headers") {
  const auto entry = [](const std::string& dtype, const std::string& shape,
                        const std::string& offsets) {
    return "{\"a\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
           ",\"data_offsets\":" + offsets + "}}";
  };
  const std::string data(8, 'x');
  CHECK(error_for(entry("F32", "[2]", "[0,8]"), data).empty());
  for (const char* shape : {"[3]", "[]", "[2,2]", "[-2]", "[1.5]", "[null]", "2", "[\"2\"]",
                            "[1,1,1,1,1,1,1,1,2]", "[4611686018427387904,8]",
                            "[9223372036854775807,9223372036854775807]", "[18446744073709551618]"})
    CHECK(contains(error_for(entry("F32", shape, "[0,8]"), data), "a.safetensors: a"));
  for (const char* offsets : {"[0]", "[0,8,8]", "[8,0]", "[-8,0]", "[0,9]", "[0,7]", "[0,8.0]",
                              "{}", "[0,1e3]", "[18446744073709551608,0]"})
    CHECK(contains(error_for(entry("F32", "[2]", offsets), data), "data_offsets"));
  for (const char* dtype : {"f32", "F31", "", "C64", "I16", "F8_E4M3"})
    CHECK(contains(error_for(entry(dtype, "[2]", "[0,8]"), data), "dtype"));
  CHECK(contains(error_for("{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", data), "data_offsets"));
  CHECK(!error_for("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":1}}", data)
             .empty());
  CHECK(!error_for("{\"a\":1}", data).empty());
  CHECK(!error_for("{\"__metadata__\":{\"k\":1}}", "").empty());
  CHECK(!error_for("{\"__metadata__\":[]}", "").empty());
  CHECK(!error_for("{} {}", "").empty());
  CHECK(!error_for("[]", "").empty());
  CHECK(!error_for(" {}", "").empty());
  CHECK(!error_for("{\"a\xff\":1}", "").empty());
}

TEST_CASE("safetensors refuses tensors that overlap leave holes or share a name") {
  const auto two = [](const std::string& first, const std::string& second,
                      const std::string& names = "ab") {
    const auto entry = [](char name, const std::string& offsets) {
      return std::string("\"") + name +
             "\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" + offsets + "}";
    };
    return "{" + entry(names[0], first) + "," + entry(names[1], second) + "}";
  };
  const std::string data(12, 'x');
  CHECK(error_for(two("[4,8]", "[0,4]"), data.substr(0, 8)).empty());
  CHECK(contains(error_for(two("[0,4]", "[2,6]"), data.substr(0, 6)), "overlaps"));
  CHECK(contains(error_for(two("[0,4]", "[0,4]"), data.substr(0, 4)), "overlaps"));
  CHECK(contains(error_for(two("[0,4]", "[6,10]"), data.substr(0, 10)), "hole"));
  CHECK(contains(error_for(two("[2,6]", "[6,10]"), data.substr(0, 10)), "hole"));
  CHECK(contains(error_for(two("[0,4]", "[4,8]"), data), "data: expected 8 bytes"));
  CHECK(!error_for(two("[0,4]", "[4,8]", "aa"), data.substr(0, 8)).empty());
  CHECK(contains(error_for("{}", "x"), "data: expected 0 bytes"));
}

}  // namespace

TEST_SUITE_END();
