// Random numbers: drawn anew in each step, by Keel's own generator; those of a variable's initial
// value are drawn here, once.
#include "keel/ops/random.h"

#include <cmath>

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
  const DType dtype = c.dtype_attribute("dtype");
  const Type type{dtype, Shape(c.integers(0, "the shape"))};
  // The sum over all initial values is counted behind this.
  if (type.shape.num_bytes(dtype) > read_budget())
    throw over_read_budget(c.node().name, "an initial value", read_budget());
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
  return {uniform(c.graph(), shape_in_step(c), 0, 1, c.dtype_attribute("dtype"), {})};
}

Values random_normal(NodeContext& c) {
  if (is_initial(c)) return drawn(c, "normal", 0, 1);
  return {normal(c.graph(), shape_in_step(c), 0, 1, c.dtype_attribute("dtype"), {})};
}

// The inverse of erf between -0.9999 and 0.9999: M. Giles, Approximating the erfinv function, GPU
// Computing Gems 2, 2010, whose error there is that of f32.
Value inverse_erf(const Value& x) {
  constexpr double kFactors[] = {2.81022636e-08,  3.43273939e-07, -3.5233877e-06,
                                 -4.39150654e-06, 0.00021858087,  -0.00125372503,
                                 -0.00417768164,  0.246640727,    1.50140941};
  const Value w = neg(log(mul(1 - x, 1 + x, {}), {}), {}) - 2.5;
  Value p;
  for (const double factor : kFactors) p = p.valid() ? mul(p, w, {}) + factor : 0 * w + factor;
  return mul(p, x, {});
}

Values truncated_normal(NodeContext& c) {
  if (is_initial(c)) return drawn(c, "trunc_normal", 0, 1);
  // A uniform number between the shares of a normal distribution below -2 and below 2, by the
  // inverse of the distribution.
  constexpr double kBelow = 0.022750131948179195;
  const DType dtype = c.dtype_attribute("dtype");
  const Value share =
      uniform(c.graph(), shape_in_step(c), 2 * kBelow - 1, 1 - 2 * kBelow, dtype, {});
  return {clamp(std::sqrt(2.0) * inverse_erf(share), -2, 2, {})};
}

Values random_integers(NodeContext& c) {
  const int64_t low = c.integer(1, "the least number"), high = c.integer(2, "the limit");
  constexpr int64_t kMost = int64_t{1} << 24;
  if (is_initial(c)) c.refuse("an initial value is drawn of integers");
  if (low >= high || low < -kMost || high > kMost || high - low > kMost)
    c.refuse("its numbers are none, or more than 2^24");
  const auto first = static_cast<double>(low), last = static_cast<double>(high);
  const Value drawn = uniform(c.graph(), shape_in_step(c), first, last, f64, {});
  return {cast(minimum(floor(drawn, {}), last - 1, {}), c.dtype_attribute("Tout"), {})};
}

}  // namespace

void register_graphdef_random(OpRules& rules) {
  const auto add = [&](const char* op, onnx::ImportRule make) {
    rules.add(op, {.make = make, .folding = onnx::Folding::kNever, .random = true});
  };
  add("RandomUniform", random_uniform);
  add("RandomStandardNormal", random_normal);
  add("TruncatedNormal", truncated_normal);
  add("RandomUniformInt", random_integers);
}

}  // namespace keel::graphdef
