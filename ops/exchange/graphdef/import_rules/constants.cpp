// Constants, and values of one number repeated.
#include <cmath>
#include <type_traits>

#include "keel/ops/composed/filled.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/exchange/graphdef/op_rules.h"
#include "keel/ops/exchange/onnx/import_integers.h"
#include "keel/ops/exchange/onnx/import_shapes.h"
#include "keel/ops/shape.h"

namespace keel::graphdef {
namespace {

using onnx::NodeContext;

Values constant(NodeContext& c) {
  const auto value = c.tensor_attribute("value");
  if (!value) c.refuse("it has no value");
  return {c.result(*value)};
}

// TensorFlow takes a list of one number as well, also for a shape of no axes.
Values fill(NodeContext& c) {
  Value value = c.in(1);
  if (value.shape({}).rank() != 0) c.require_shape(value, {1}, "its value is");
  if (value.shape({}) == Shape{1}) value = reshape(value, Shape{}, {});
  return {broadcast_to(value, Shape(c.integers(0, "the shape")), {})};
}

Values zeros_like(NodeContext& c) { return {keel::zeros_like(c.in(0), {})}; }

Values ones_like(NodeContext& c) { return {keel::ones_like(c.in(0), {})}; }

constexpr double kMostNumbers = 1 << 24;

// The numbers from the first up to the limit, counted and added in their own dtype.
template <class T>
std::vector<T> numbers_from(NodeContext& c, T start, T limit, T step) {
  if (step == 0) c.refuse("its step is 0");
  if constexpr (std::is_integral_v<T>) {
    const auto numbers =
        onnx::stepped_integers(start, limit, step, static_cast<uint64_t>(kMostNumbers));
    if (!numbers) c.refuse("it has more than 2^24 numbers");
    return *numbers;
  } else {
    if (step > 0 ? start >= limit : start <= limit) return {};
    const auto size = static_cast<double>(std::ceil(std::fabs((limit - start) / step)));
    if (!(size <= kMostNumbers)) c.refuse("it has more than 2^24 numbers");
    std::vector<T> numbers(static_cast<size_t>(size));
    for (T& number : numbers) {
      number = start;
      start += step;
    }
    return numbers;
  }
}

Values range(NodeContext& c) {
  const Tensor first = c.constant(0, "the start"), last = c.constant(1, "the limit");
  const Tensor by = c.constant(2, "the step");
  const DType dtype = first.dtype();
  if (first.num_elements() != 1 || last.type() != first.type() || by.type() != first.type() ||
      (dtype != f32 && dtype != f64 && dtype != i32 && dtype != i64))
    c.refuse("its operands are not three numbers of one dtype");
  Tensor numbers;
  visit_dtype(dtype, [&]<class T>() {
    if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
      const std::vector<T> list =
          numbers_from<T>(c, first.data<T>()[0], last.data<T>()[0], by.data<T>()[0]);
      numbers = Tensor::of<T>({static_cast<int64_t>(list.size())}, list);
    }
  });
  return {c.result(numbers)};
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
