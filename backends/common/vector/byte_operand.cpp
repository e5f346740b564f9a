#include "keel/backends/common/vector/byte_operand.h"

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <unordered_map>

#include "keel/backends/common/tile_program.h"
#include "keel/backends/common/vector/element_kernels.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/products/product_matrices.h"

namespace keel::vector {
namespace {

constexpr int64_t kBytes = 256;

size_t left_operand(const AnchoredNode& product) { return product.matrices().a.input; }

// Returns where the ops end: before a last cast to bf16, which is a matter of loading.
Value loaded(const AnchoredNode& product) {
  const Value& v = product.anchor().input(left_operand(product));
  const bool rounds =
      v.node().has(kConversion) && v.dtype() == bf16 && v.node().input(0).dtype() == f32;
  return rounds ? v.node().input(0) : v;
}

// Returns the ops between the bytes as stored and as loaded, of every byte there is, in f32.
std::unique_ptr<Graph> ops_on_all_bytes(const AnchoredNode& product) {
  const Graph& body = *product.node().bodies()[0];
  auto graph = std::make_unique<Graph>(body.ops());
  std::unordered_map<Value, Value, ValueHash> map;
  const Value stored = body.inputs()[product.source(left_operand(product)).value()];
  map[stored] = graph->input("byte", stored.dtype(), Shape{kBytes}, stored.node().site());
  const Value last = loaded(product);
  const auto mapped = [&](const Value& v) {
    if (!map.contains(v) && v.node().is(OpRole::kConstant)) {
      map[v] = graph->constant(v.node().as<ConstantAttributes>().value, v.node().site());
    }
    return map.contains(v);
  };
  for (const Node* node : product.prologue()) {
    if (node->id() > last.node_id()) break;
    if (is_gather(*node)) {  // moves bytes, whatever they count as
      if (mapped(node->input(0))) map[node->output()] = map.at(node->input(0));
      continue;
    }
    if (!std::all_of(node->inputs().begin(), node->inputs().end(), mapped)) continue;
    Values inputs;
    for (const Value& v : node->inputs()) inputs.push_back(map.at(v));
    map[node->output()] = graph->add(node->op(), inputs, node->attributes(), node->site()).output();
  }
  Value result = map.at(last);
  if (result.dtype() != f32) result = cast(result, f32);
  graph->set_outputs({result});
  return graph;
}

ByteMap byte_map_of(const AnchoredNode& product) {
  const std::unique_ptr<Graph> ops = ops_on_all_bytes(product);
  const TileProgram program(*ops, instruction_lookup());
  std::array<uint8_t, kBytes> bytes;
  std::iota(bytes.begin(), bytes.end(), uint8_t{0});
  std::array<float, kBytes> values{};
  void* args[] = {bytes.data(), values.data()};
  program.run(args, 0, kBytes);
  const bool rounds = product.anchor().input(left_operand(product)).dtype() == bf16;
  return make_byte_map(values.data(), rounds ? bf16 : f32);
}

}  // namespace

Support supports_bytes(const AnchoredNode& product) {
  Support support = supports_tiles(*ops_on_all_bytes(product), instruction_lookup());
  const auto& windows = product.matrices().a.windows;
  if (!support.supported || !windows || !windows->has_padding()) return support;
  if (byte_map_of(product).table[0] == 0.0f) return support;
  return {false, "byte 0 does not count as the zeros that images are padded with"};
}

std::optional<ByteMap> bytes_of(const AnchoredNode& product) {
  const size_t left = left_operand(product);
  if (!product.has_prologue(left) || product.stored(left).dtype() != u8) return std::nullopt;
  return byte_map_of(product);
}

}  // namespace keel::vector
