// Constants, and values of one number repeated.
#include "keel/ops/elementwise.h"
#include "keel/ops/exchange/graphdef/op_rules.h"
#include "keel/ops/shape.h"

namespace keel::graphdef {
namespace {

using onnx::NodeContext;

Values constant(NodeContext& c) {
  const auto value = c.tensor_attribute("value");
  if (!value) c.refuse("it has no value");
  return {c.result(*value)};
}

Values fill(NodeContext& c) {
  return {broadcast_to(c.in(1), Shape(c.integers(0, "the shape")), {})};
}

// The zeros have x's own shape, whatever it is in the run.
Values zeros_like(NodeContext& c) {
  const Value x = c.in(0);
  const Shape& shape = x.shape({});
  if (shape.known()) return {zeros_of(c.graph(), x.type({}), {})};
  if (x.dtype({}) == boolean) return {logical_xor(x, x, {})};
  return {cast(less(x, x, {}), x.dtype({}), {})};
}

Values ones_like(NodeContext& c) {
  const Value zeros = zeros_like(c)[0];
  return {zeros.dtype({}) == boolean ? logical_not(zeros, {}) : add(zeros, 1, {})};
}

constexpr double kMostNumbers = 1 << 24;

Values range(NodeContext& c) {
  const double start = c.number(0, "the start"), limit = c.number(1, "the limit");
  const double step = c.number(2, "the step");
  if (step == 0 || (limit - start) / step > kMostNumbers)
    c.refuse("its step gives no end, or more than 2^24 numbers");
  std::vector<double> numbers;
  for (double i = 0; step > 0 ? start + i * step < limit : start + i * step > limit; ++i)
    numbers.push_back(start + i * step);
  const Tensor row = Tensor::of<double>({static_cast<int64_t>(numbers.size())}, numbers);
  return {c.result(row.cast(c.known(0)->dtype(), {}))};
}

Values lin_space(NodeContext& c) {
  const double start = c.number(0, "the start"), stop = c.number(1, "the stop");
  const int64_t count = c.integer(2, "the count");
  if (count < 1 || static_cast<double>(count) > kMostNumbers)
    c.refuse("it has " + std::to_string(count) + " numbers");
  std::vector<double> numbers;
  for (int64_t i = 0; i < count; ++i) {
    const double part = count == 1 ? 0 : static_cast<double>(i) / static_cast<double>(count - 1);
    numbers.push_back(start + part * (stop - start));
  }
  return {c.result(Tensor::of<double>({count}, numbers).cast(c.known(0)->dtype(), {}))};
}

}  // namespace

void register_graphdef_constants(OpRules& rules) {
  rules.add("Const", constant);
  rules.add("Fill", fill);
  rules.add("ZerosLike", zeros_like);
  rules.add("OnesLike", ones_like);
  rules.add("Range", range);
  rules.add("LinSpace", lin_space);
}

}  // namespace keel::graphdef
