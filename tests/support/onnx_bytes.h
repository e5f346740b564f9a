// ONNX files as bytes, written by hand after the protocol-buffer encoding: varints, and fields with
// a number and a wire type. Field numbers are those of onnx.proto, repeated here.
#ifndef KEEL_TESTS_SUPPORT_ONNX_BYTES_H
#define KEEL_TESTS_SUPPORT_ONNX_BYTES_H

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace keel_test {

inline std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 128; value >>= 7) bytes += static_cast<char>((value & 127) | 128);
  return bytes + static_cast<char>(value);
}
inline std::string number_field(int field, int64_t value) {
  return varint(static_cast<uint64_t>(field) << 3) + varint(static_cast<uint64_t>(value));
}
inline std::string bytes_field(int field, const std::string& bytes) {
  return varint((static_cast<uint64_t>(field) << 3) | 2) + varint(bytes.size()) + bytes;
}
inline std::string float_field(int field, float value) {
  std::string bytes(4, '\0');
  std::memcpy(bytes.data(), &value, 4);
  return varint((static_cast<uint64_t>(field) << 3) | 5) + bytes;
}
template <class T>
std::string raw_bytes(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// A TensorProto: `type` is ONNX's number (1 f32, 6 i32, 7 i64, 10 f16, 16 bf16), `data` its data
// fields.
inline std::string onnx_tensor(const std::string& name, int type, const std::vector<int64_t>& dims,
                               const std::string& data) {
  std::string bytes;
  for (const int64_t dim : dims) bytes += number_field(1, dim);
  return bytes + number_field(2, type) + bytes_field(8, name) + data;
}
inline std::string onnx_floats(const std::string& name, const std::vector<int64_t>& dims,
                               const std::vector<float>& values) {
  return onnx_tensor(name, 1, dims, bytes_field(9, raw_bytes(values)));
}
inline std::string onnx_integers(const std::string& name, const std::vector<int64_t>& dims,
                                 const std::vector<int64_t>& values) {
  return onnx_tensor(name, 7, dims, bytes_field(9, raw_bytes(values)));
}

// A ValueInfoProto; a dimension below 0 has a name in place of a number.
inline std::string onnx_value(const std::string& name, int type, const std::vector<int64_t>& dims) {
  std::string shape;
  for (const int64_t dim : dims)
    shape += bytes_field(1, dim < 0 ? bytes_field(2, "n") : number_field(1, dim));
  return bytes_field(1, name) +
         bytes_field(2, bytes_field(1, number_field(1, type) + bytes_field(2, shape)));
}

inline std::string onnx_int(const std::string& name, int64_t value) {
  return bytes_field(1, name) + number_field(3, value) + number_field(20, 2);
}
inline std::string onnx_ints(const std::string& name, const std::vector<int64_t>& values) {
  std::string bytes = bytes_field(1, name);
  for (const int64_t value : values) bytes += number_field(8, value);
  return bytes + number_field(20, 7);
}
inline std::string onnx_float(const std::string& name, float value) {
  return bytes_field(1, name) + float_field(2, value) + number_field(20, 1);
}
inline std::string onnx_text(const std::string& name, const std::string& value) {
  return bytes_field(1, name) + bytes_field(4, value) + number_field(20, 3);
}
inline std::string onnx_node(const std::string& op, const std::vector<std::string>& inputs,
                             const std::vector<std::string>& outputs,
                             const std::vector<std::string>& attributes = {}) {
  std::string bytes;
  for (const std::string& input : inputs) bytes += bytes_field(1, input);
  for (const std::string& output : outputs) bytes += bytes_field(2, output);
  bytes += bytes_field(4, op);
  for (const std::string& attribute : attributes) bytes += bytes_field(5, attribute);
  return bytes;
}

struct OnnxGraph {
  std::vector<std::string> nodes, initializers, inputs, outputs;
  std::vector<std::string> results = {};  // the types that the file gives to results
  std::vector<std::string> sparse_initializers = {};

  std::string bytes() const {
    std::string all;
    for (const std::string& node : nodes) all += bytes_field(1, node);
    all += bytes_field(2, "graph");
    for (const std::string& initializer : initializers) all += bytes_field(5, initializer);
    for (const std::string& input : inputs) all += bytes_field(11, input);
    for (const std::string& output : outputs) all += bytes_field(12, output);
    for (const std::string& result : results) all += bytes_field(13, result);
    for (const std::string& sparse : sparse_initializers) all += bytes_field(15, sparse);
    return all;
  }
};

// An attribute that is a graph: a body of control flow.
inline std::string onnx_graph(const std::string& name, const OnnxGraph& graph) {
  return bytes_field(1, name) + bytes_field(6, graph.bytes()) + number_field(20, 5);
}

inline std::string onnx_model(const OnnxGraph& graph, int64_t opset = 17) {
  return number_field(1, 8) + bytes_field(7, graph.bytes()) +
         bytes_field(8, number_field(2, opset));
}

}  // namespace keel_test

#endif  // KEEL_TESTS_SUPPORT_ONNX_BYTES_H
