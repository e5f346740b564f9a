#include "keel/backends/npu/kernels/operand_load.h"

#include <array>
#include <numeric>
#include <string>
#include <unordered_map>

#include "keel/backends/npu/isa/vector_unit.h"

namespace keel::npu {
namespace {

constexpr int64_t kBytes = 256;

VectorInstruction look_up(std::string_view op, DType in, DType out) {
  return find_vector_instruction(op, in, out);
}

// The ops between operand `operand` as stored and as multiplied, of every byte there is.
std::unique_ptr<Graph> ops_on_all_bytes(const FusedProduct& product, size_t operand) {
  const Graph& body = *product.node().bodies()[0];
  auto graph = std::make_unique<Graph>(body.ops());
  std::unordered_map<Value, Value, ValueHash> map;
  const Value stored = body.inputs()[operand];
  map[stored] = graph->input("byte", stored.dtype(), Shape{kBytes}, stored.node().site());
  for (const Node& node : body.nodes()) {
    if (node.op_name() == "constant") {
      map[node.output()] = graph->constant(node.as<ConstantAttributes>().value, node.site());
      continue;
    }
    Values inputs;
    for (const Value& v : node.inputs()) {
      if (map.contains(v)) inputs.push_back(map.at(v));
    }
    if (node.has(kSource | kProduct) || inputs.size() != node.inputs().size()) continue;
    map[node.output()] = graph->add(node.op(), inputs, node.attributes(), node.site()).output();
  }
  graph->set_outputs({map.at(product.product().input(operand))});
  return graph;
}

}  // namespace

Support supports_load(const FusedProduct& product, size_t operand) {
  if (!product.has_load(operand)) return {true, ""};
  const DType stored = product.node().input(operand).dtype();
  if (stored != u8) {
    return {false, std::string("the cube loads ") + name_of(stored) + " as it is"};
  }
  if (operand != 0) return {false, "the cube loads bytes as its left operand only"};
  if (product.product().input(0).dtype() != f32) return {false, "bytes are multiplied in f32"};
  return keel::supports_tiles(*ops_on_all_bytes(product, operand), look_up);
}

ByteMap byte_map_of(const FusedProduct& product, size_t operand) {
  const std::unique_ptr<Graph> ops = ops_on_all_bytes(product, operand);
  const TileProgram program(*ops, look_up);
  std::array<uint8_t, kBytes> bytes;
  std::iota(bytes.begin(), bytes.end(), uint8_t{0});
  std::array<float, kBytes> values{};
  void* args[] = {bytes.data(), values.data()};
  program.run(args, 0, kBytes);
  return make_byte_map(values.data());
}

}  // namespace keel::npu
