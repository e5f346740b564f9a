// Reading ONNX files: tensors in all their representations, and files that are cut off, damaged or
// hostile. Bytes are made by hand after the protocol-buffer encoding.
#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include "keel/ops/exchange/onnx/read_model.h"

#include "support/error_of.h"
#include "support/onnx_bytes.h"
#include "support/temp_folder.h"

using namespace keel_test;
namespace onnx = keel::onnx;

namespace {

keel::Tensor read(const std::string& bytes) {
  const TempFolder temp;
  return onnx::read_tensor_file(temp.write("t.pb", bytes));
}

std::string read_refusal(const std::string& bytes) {
  return error_of([&] { read(bytes); });
}

std::string packed(const std::vector<int64_t>& values) {
  std::string bytes;
  for (const int64_t value : values) bytes += varint(static_cast<uint64_t>(value));
  return bytes;
}

// A model with one Relu.
std::string relu_model() {
  return onnx_model({.nodes = {onnx_node("Relu", {"x"}, {"y"})},
                     .inputs = {onnx_value("x", 1, {-1, 3})},
                     .outputs = {onnx_value("y", 1, {-1, 3})}});
}

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("onnx tensors are read from raw data and from typed fields") {
  CHECK(
      bit_equal(read(onnx_floats("t", {2}, {1.5f, -2})), keel::Tensor::of<float>({2}, {1.5f, -2})));
  const std::string two_floats = raw_bytes<float>({0.5f, 3});
  CHECK(bit_equal(read(onnx_tensor("t", 1, {2}, bytes_field(4, two_floats))),
                  keel::Tensor::of<float>({2}, {0.5f, 3})));
  CHECK(bit_equal(read(onnx_tensor("t", 1, {2}, float_field(4, 1) + float_field(4, 2))),
                  keel::Tensor::of<float>({2}, {1, 2})));
  CHECK(bit_equal(read(onnx_tensor("t", 11, {1}, bytes_field(10, raw_bytes<double>({0.1})))),
                  keel::Tensor::of<double>({1}, {0.1})));
  CHECK(bit_equal(read(onnx_tensor("t", 7, {2, 1}, bytes_field(7, packed({-1, 9})))),
                  keel::Tensor::of<int64_t>({2, 1}, {-1, 9})));
  CHECK(bit_equal(read(onnx_tensor("t", 6, {}, number_field(5, -7))),
                  keel::Tensor::scalar<int32_t>(-7)));
  CHECK(bit_equal(read(onnx_tensor("t", 2, {2}, bytes_field(5, packed({0, 255})))),
                  keel::Tensor::of<uint8_t>({2}, {0, 255})));
  CHECK(bit_equal(read(onnx_tensor("t", 9, {2}, bytes_field(5, packed({1, 0})))),
                  keel::Tensor::of<bool>({2}, {true, false})));
  // 16-bit floats lie in int32_data as their bits: 0x3e00 is 1.5 as f16, 0x3fc0 as bf16.
  CHECK(read(onnx_tensor("t", 10, {1}, number_field(5, 0x3e00))).at(0) == 1.5);
  CHECK(read(onnx_tensor("t", 16, {1}, number_field(5, 0x3fc0))).at(0) == 1.5);
  CHECK(read(onnx_tensor("t", 16, {1}, number_field(5, 0x3fc0))).dtype() == keel::bf16);
  // A bool may be any byte in a file.
  const keel::Tensor flags =
      read(onnx_tensor("t", 9, {2}, bytes_field(9, std::string("\x02\0", 2))));
  CHECK(bit_equal(flags, keel::Tensor::of<bool>({2}, {true, false})));
}

TEST_CASE("a tensor of UINT16 is read as bf16 where that is wanted") {
  const TempFolder temp;
  const std::string path =
      temp.write("t.pb", onnx_tensor("t", 4, {1}, bytes_field(9, raw_bytes<uint16_t>({0x3fc0}))));
  CHECK(onnx::read_tensor_file(path, keel::bf16).at(0) == 1.5);
  CHECK(contains(error_of([&] { onnx::read_tensor_file(path); }), "UINT16"));
}

TEST_CASE("onnx tensors whose data does not fit are refused by name") {
  CHECK(contains(read_refusal(onnx_floats("w", {3}, {1, 2})), "tensor 'w'"));
  CHECK(contains(read_refusal(onnx_floats("w", {3}, {1, 2})),
                 "has 8 bytes of data, f32[3] needs 12"));
  CHECK(contains(read_refusal(onnx_tensor("w", 1, {3}, float_field(4, 1))), "has 1 elements"));
  CHECK(contains(read_refusal(onnx_floats("w", {-1}, {})), "a dimension of -1"));
  for (const std::vector<int64_t>& dims :
       {std::vector<int64_t>{int64_t{1} << 40, int64_t{1} << 40}, {int64_t{1} << 62}}) {
    const std::string error = read_refusal(onnx_floats("w", dims, {1}));
    CHECK_MESSAGE(contains(error, "t.pb: tensor 'w': has the shape [" + std::to_string(dims[0])),
                  error);
    CHECK_MESSAGE(contains(error, "does not fit in 64 bits"), error);
  }
  CHECK(contains(read_refusal(onnx_floats("w", {1, 1, 1, 1, 1, 1, 1, 1, 1}, {1})), "9 dimensions"));
  CHECK(contains(read_refusal(onnx_tensor("w", 8, {1}, bytes_field(6, "text"))), "STRING"));
  CHECK(contains(read_refusal(onnx_tensor("w", 3, {1}, number_field(5, 1))), "INT8"));
  CHECK(contains(read_refusal(onnx_tensor("w", 77, {1}, "")), "type 77"));
}

TEST_CASE("external data comes from the folder of the model and never through links") {
  const TempFolder temp;
  temp.write("w.bin", "skip" + raw_bytes<float>({1, 2}));
  const auto tensor = [&](const std::string& location, const std::string& offset,
                          const std::string& length) {
    const auto entry = [](const std::string& key, const std::string& value) {
      return bytes_field(13, bytes_field(1, key) + bytes_field(2, value));
    };
    return temp.write("t.pb", onnx_tensor("w", 1, {2},
                                          entry("location", location) + entry("offset", offset) +
                                              entry("length", length) + number_field(14, 1)));
  };
  const auto error = [&](const std::string& location, const std::string& offset = "4",
                         const std::string& length = "8") {
    return error_of([&] { onnx::read_tensor_file(tensor(location, offset, length)); });
  };
  CHECK(bit_equal(onnx::read_tensor_file(tensor("w.bin", "4", "8")),
                  keel::Tensor::of<float>({2}, {1, 2})));
  CHECK(contains(error("../w.bin"), "own folder only"));
  CHECK(contains(error("/etc/passwd"), "own folder only"));
  CHECK(contains(error(".."), "own folder only"));
  CHECK(contains(error("sub/w.bin"), "own folder only"));
  CHECK(contains(error("w.bin", "5"), "ends at byte 13"));
  CHECK(contains(error("w.bin", "4", "4"), "has 4 bytes"));
  CHECK(contains(error("w.bin", "-4"), "no number"));
  CHECK(contains(error("absent.bin"), "absent.bin"));
  std::filesystem::create_symlink(temp.file("w.bin"), temp.file("link.bin"));
  CHECK(contains(error("link.bin"), "behind the link"));
}

TEST_CASE("an onnx model is read with its place in every error") {
  const onnx::ModelProto model = onnx::parse_model(relu_model(), "m.onnx");
  CHECK(model.ir_version == 8);
  CHECK(model.opsets.at("") == 17);
  REQUIRE(model.graph.nodes.size() == 1);
  CHECK(model.graph.nodes[0].op == "Relu");
  CHECK(model.graph.nodes[0].inputs == std::vector<std::string>{"x"});
  REQUIRE(model.graph.inputs.size() == 1);
  CHECK(model.graph.inputs[0].shape->at(0).size == -1);
  CHECK(model.graph.inputs[0].shape->at(0).name == "n");
  CHECK(model.graph.inputs[0].shape->at(1).size == 3);

  const auto error = [](const std::string& bytes) {
    return error_of([&] { onnx::parse_model(bytes, "m.onnx"); });
  };
  CHECK(contains(error(""), "no graph"));
  CHECK(contains(error("PK\x03\x04"), "m.onnx"));
  // A name that is a number, in the second node.
  const std::string bad = bytes_field(
      7, bytes_field(1, onnx_node("Relu", {}, {})) + bytes_field(1, number_field(4, 3)));
  CHECK(contains(error(bad), "m.onnx: graph.node[1]: op_type: expected bytes with a length"));
  CHECK(contains(error(bytes_field(7, bytes_field(1, ""))), "a node without op_type"));
}

TEST_CASE("an onnx model that is cut off or flipped anywhere never crashes the reader") {
  const std::string bytes = relu_model();
  int errors = 0;
  for (size_t size = 0; size < bytes.size(); ++size)
    errors += error_of([&] { onnx::parse_model(bytes.substr(0, size), "m.onnx"); }).empty() ? 0 : 1;
  CHECK(errors > static_cast<int>(bytes.size()) / 2);
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = bytes;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      error_of([&] { onnx::parse_model(flipped, "m.onnx"); });
    }
  }
}

TEST_CASE("onnx graphs nest up to a limit") {
  std::string graph;
  for (int i = 0; i < 100; ++i)
    graph = bytes_field(1, bytes_field(4, "If") + bytes_field(5, bytes_field(6, graph)));
  CHECK(contains(error_of([&] { onnx::parse_model(bytes_field(7, graph), "m.onnx"); }), "nest"));
}

TEST_SUITE_END();
