#include "keel/backends/npu/kernels/operand_load.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <unordered_map>

#include "keel/backends/common/tile_program.h"
#include "keel/backends/common/vector/element_kernels.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/products/product_matrices.h"

namespace keel::npu {
namespace {

constexpr int64_t kBytes = 256;

// Where the prologue of `operand` ends: before a last cast to bf16, which the cube does as it
// packs.
Value loaded(const AnchoredNode& product, size_t operand) {
  const Value& v = product.anchor().input(operand);
  const bool rounds =
      v.node().has(kConversion) && v.dtype() == bf16 && v.node().input(0).dtype() == f32;
  return rounds ? v.node().input(0) : v;
}

// The ops between operand `operand` as stored and as loaded, of every byte there is, in f32.
std::unique_ptr<Graph> ops_on_all_bytes(const AnchoredNode& product, size_t operand) {
  const Graph& body = *product.node().bodies()[0];
  auto graph = std::make_unique<Graph>(body.ops());
  std::unordered_map<Value, Value, ValueHash> map;
  const Value stored = body.inputs()[product.source(operand).value()];
  map[stored] = graph->input("byte", stored.dtype(), Shape{kBytes}, stored.node().site());
  const Value last = loaded(product, operand);
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

vector::ByteMap byte_map_of(const AnchoredNode& product, size_t operand) {
  const std::unique_ptr<Graph> ops = ops_on_all_bytes(product, operand);
  const TileProgram program(*ops, vector::instruction_lookup());
  std::array<uint8_t, kBytes> bytes;
  std::iota(bytes.begin(), bytes.end(), uint8_t{0});
  std::array<float, kBytes> values{};
  void* args[] = {bytes.data(), values.data()};
  program.run(args, 0, kBytes);
  const bool rounds = product.anchor().input(operand).dtype() == bf16;
  return vector::make_byte_map(values.data(), rounds ? bf16 : f32);
}

}  // namespace

Support supports_load(const AnchoredNode& product, size_t operand) {
  if (!product.source(operand)) return {false, "an operand is made of more than one value"};
  if (!product.has_prologue(operand)) return {true, ""};
  const Value stored = product.stored(operand);
  const DType multiplied = product.anchor().input(operand).dtype();
  if (product.is_cast(operand) && stored.dtype() == f32 && multiplied == bf16) return {true, ""};
  if (product.row_numbers_of(operand) && product.anchor().type().shape.rank() != 2) {
    return {false, "rows are gathered for a product without a batch"};
  }
  if (stored.dtype() != u8) {
    return {false, std::string("the cube loads ") + name_of(stored.dtype()) +
                       (multiplied == bf16 ? " as it is or rounded to bf16" : " as it is")};
  }
  const ProductMatrices& matrices = product.matrices();
  if (operand != matrices.a.input) {
    return {false, "the cube loads bytes as its left operand only"};
  }
  if (multiplied != f32 && multiplied != bf16) {
    return {false, std::string("bytes are not multiplied in ") + name_of(multiplied)};
  }
  Support support =
      keel::supports_tiles(*ops_on_all_bytes(product, operand), vector::instruction_lookup());
  const auto& windows = matrices.a.windows;
  if (!support.supported || !windows || !windows->has_padding()) return support;
  if (byte_map_of(product, operand).table[0] == 0.0f) return support;
  return {false, "byte 0 does not count as the zeros that images are padded with"};
}

std::optional<vector::ByteMap> bytes_of(const AnchoredNode& product) {
  const size_t left = product.matrices().a.input;
  if (!product.has_prologue(left) || product.stored(left).dtype() != u8) return std::nullopt;
  return byte_map_of(product, left);
}

DType rounded_to(const AnchoredNode& product) {
  for (size_t i = 0; i < product.anchor().inputs().size(); ++i) {
    if (product.has_prologue(i) && product.anchor().input(i).dtype() == bf16) return bf16;
  }
  return f32;
}

}  // namespace keel::npu
