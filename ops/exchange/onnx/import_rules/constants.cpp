// Values that are known at import, and those that only their shape is.
#include <cmath>

#include "keel/ops/elementwise.h"
#include "keel/ops/exchange/onnx/import_integers.h"
#include "keel/ops/exchange/onnx/import_rules.h"
#include "keel/ops/exchange/onnx/import_shapes.h"
#include "keel/ops/gather.h"
#include "keel/ops/random.h"
#include "keel/ops/shape.h"
#include "keel/ops/triangle.h"

namespace keel::onnx {
namespace {

Values constant(NodeContext& c) {
  if (const std::optional<Tensor> tensor = c.tensor_attribute("value")) return {c.result(*tensor)};
  if (c.has_attribute("value_int"))
    return {c.result(Tensor::scalar<int64_t>(c.attribute("value_int", int64_t{0})))};
  if (c.has_attribute("value_ints")) {
    const auto ints = c.attribute("value_ints", std::vector<int64_t>{});
    return {c.result(Tensor::of<int64_t>({static_cast<int64_t>(ints.size())}, ints))};
  }
  if (c.has_attribute("value_float"))
    return {c.result(Tensor::scalar(static_cast<float>(c.attribute("value_float", 0.0))))};
  if (const AttributeProto* floats = c.find_attribute("value_floats")) {
    return {
        c.result(Tensor::of<float>({static_cast<int64_t>(floats->floats.size())}, floats->floats))};
  }
  c.refuse("its value is no tensor, integer or float");
}

Values constant_of_shape(NodeContext& c) {
  const Tensor value = c.tensor_attribute("value").value_or(Tensor::scalar(0.0f));
  if (value.num_elements() != 1) c.refuse("its value is not one number");
  const Shape shape(c.list(0, "the shape"));
  return {broadcast_to(c.result(value.reshaped({}, {})), shape, {})};
}

template <class T>
Tensor numbers_from(NodeContext& c, T start, T limit, T delta) {
  if (delta == 0) c.refuse("its delta is 0");
  constexpr int64_t kMost = 1 << 24;
  std::vector<T> numbers;
  if constexpr (std::is_integral_v<T>) {
    auto whole = stepped_integers(start, limit, delta, kMost);
    if (!whole) c.refuse("it gives more than 2^24 numbers");
    numbers = std::move(*whole);
  } else {
    const double count = std::ceil((static_cast<double>(limit) - static_cast<double>(start)) /
                                   static_cast<double>(delta));
    if (std::isnan(count)) c.refuse("its start, limit and delta say no count of numbers");
    if (count > kMost) c.refuse("it gives more than 2^24 numbers");
    for (int64_t i = 0; static_cast<double>(i) < count; ++i)
      numbers.push_back(static_cast<T>(start + static_cast<T>(i) * delta));
  }
  return Tensor::of<T>({static_cast<int64_t>(numbers.size())}, numbers);
}

Values range_of(NodeContext& c) {
  const Tensor start = c.constant(0, "its start"), limit = c.constant(1, "its limit"),
               delta = c.constant(2, "its delta");
  switch (start.dtype()) {
    case f32:
      return {c.result(
          numbers_from(c, start.item<float>({}), limit.item<float>({}), delta.item<float>({})))};
    case f64:
      return {c.result(
          numbers_from(c, start.item<double>({}), limit.item<double>({}), delta.item<double>({})))};
    case i32:
      return {c.result(numbers_from(c, start.item<int32_t>({}), limit.item<int32_t>({}),
                                    delta.item<int32_t>({})))};
    case i64:
      return {c.result(numbers_from(c, start.item<int64_t>({}), limit.item<int64_t>({}),
                                    delta.item<int64_t>({})))};
    default:
      c.refuse(std::string("of ") + keel::name_of(start.dtype()));
  }
}

Values eye_like(NodeContext& c) {
  const Value x = c.in(0);
  const Shape shape = c.known_shape(x, "its input");
  if (shape.rank() != 2) c.refuse("its input is no matrix");
  const DType dtype = c.dtype_attribute("dtype", x.dtype({}));
  return {eye(c.graph(), shape[0],
              {.columns = shape[1], .diagonal = c.attribute("k", int64_t{0}), .dtype = dtype}, {})};
}

Values triangle(NodeContext& c) {
  const int64_t diagonal = c.has(1) ? c.integer(1, "the diagonal") : 0;
  if (c.attribute("upper", int64_t{1}) != 0) return {triu(c.in(0), diagonal, {})};
  return {tril(c.in(0), diagonal, {})};
}

// The identity for inference. Only in a training does it drop anything; which elements, ONNX leaves
// open.
Values dropout_of(NodeContext& c) {
  c.ignore("seed");
  c.ignore("consumed_inputs");
  double ratio = 0.5;
  bool training = false;
  if (c.version() < 12) {
    ratio = c.attribute("ratio", 0.5);
    training = c.version() < 7 && c.attribute("is_test", int64_t{0}) == 0;
  } else {
    if (c.has(1)) ratio = c.number(1, "the ratio");
    training = c.has(2) && c.number(2, "training_mode") != 0;
  }
  const Value x = c.in(0);
  if (training && ratio != 0)
    c.refuse("it drops elements at random; import the model for inference");
  if (!c.wants(1)) return {x};
  const Value all = c.result(Tensor::full(c.version() < 10 ? x.dtype({}) : boolean, {}, 1));
  return {x, broadcast_to(all, c.known_shape(x, "its input"), {})};
}

}  // namespace

void register_import_constants(ImportRules& rules) {
  rules.add("Constant", constant);
  rules.add("ConstantOfShape", constant_of_shape);
  rules.add("Range", range_of);
  rules.add("EyeLike", eye_like);
  rules.add("Trilu", triangle);
  rules.add("Dropout", dropout_of);
}

}  // namespace keel::onnx
