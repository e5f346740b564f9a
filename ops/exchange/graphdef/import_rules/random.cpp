// Random numbers: drawn anew in each step, by Keel's own generator; those of a variable's initial
// value are drawn here, once.
#include "keel/ops/random.h"

#include "keel/core/base/random.h"
#include "keel/core/base/read_budget.h"
#include "keel/graph/ir/initializer.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/exchange/graphdef/op_rules.h"
#include "keel/ops/exchange/graphdef/translate.h"

namespace keel::graphdef {
namespace {

using onnx::NodeContext;

// FNV-1a over the node's name and its seeds: the numbers are the node's own in every import.
uint64_t key_of(NodeContext& c) {
  uint64_t key = 0xcbf29ce484222325u;
  const auto mix = [&](unsigned char byte) { key = (key ^ byte) * 0x100000001b3u; };
  for (const char letter : c.node().name) mix(static_cast<unsigned char>(letter));
  for (const char* name : {"seed", "seed2"})
    for (auto seed = static_cast<uint64_t>(c.attribute(name, int64_t{0})); seed != 0; seed >>= 8)
      mix(static_cast<unsigned char>(seed));
  return key;
}

Values drawn(NodeContext& c, const char* kind, double a, double b) {
  const DType dtype = c.dtype_attribute("dtype", f32);
  const Type type{dtype, Shape(c.integers(0, "the shape"))};
  return {c.result(initial_value({.kind = kind, .type = type, .a = a, .b = b}, key_of(c)))};
}

bool is_initial(NodeContext& c) { return c.has_attribute(kInitial); }

// The draws of a step follow Keel's seed, not the node's.
Shape shape_in_step(NodeContext& c) {
  c.ignore("seed");
  c.ignore("seed2");
  return Shape(c.integers(0, "the shape"));
}

Values random_uniform(NodeContext& c) {
  if (is_initial(c)) return drawn(c, "uniform", 0, 1);
  return {uniform(c.graph(), shape_in_step(c), 0, 1, c.dtype_attribute("dtype", f32), {})};
}

Values random_normal(NodeContext& c) {
  if (is_initial(c)) return drawn(c, "normal", 0, 1);
  return {normal(c.graph(), shape_in_step(c), 0, 1, c.dtype_attribute("dtype", f32), {})};
}

Values truncated_normal(NodeContext& c) {
  if (is_initial(c)) return drawn(c, "trunc_normal", 0, 1);
  c.refuse("it is drawn in each step; Keel draws truncated numbers for initial values alone");
}

}  // namespace

void register_graphdef_random(OpRules& rules) {
  const auto add = [&](const char* op, onnx::ImportRule make) {
    rules.add(op, {.make = make, .folding = onnx::Folding::kNever, .random = true});
  };
  add("RandomUniform", random_uniform);
  add("RandomStandardNormal", random_normal);
  add("TruncatedNormal", truncated_normal);
}

}  // namespace keel::graphdef
