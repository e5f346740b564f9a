#include "keel/ops/conformance/tolerance.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <sstream>
#include <utility>

#include "keel/ops/conformance/winograd_scale.h"
#include "keel/ops/product_bound.h"
#include "keel/ops/reference_loops.h"
#include "keel/ops/shape.h"

namespace keel::conformance {
namespace {

struct FloatFormat {
  int digits;        // of the significand, the leading one included
  int min_exponent;  // of the smallest normal number
};

FloatFormat format_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return {53, -1022};
    case DType::kF32:
      return {24, -126};
    case DType::kF16:
      return {11, -14};
    default:
      return {8, -126};
  }
}

Tensor magnitudes(const Tensor& tensor) {
  Tensor result = tensor.clone();
  for (int64_t i = 0; i < result.num_elements(); ++i) {
    if (is_float(tensor.dtype())) result.set(i, std::fabs(tensor.at(i)));
  }
  return result;
}

double largest_of(const std::vector<Tensor>& tensors) {
  double result = 0;
  for (const Tensor& tensor : tensors) {
    if (!is_float(tensor.dtype())) continue;
    for (int64_t i = 0; i < tensor.num_elements(); ++i)
      result = std::fmax(result, std::fabs(tensor.at(i)));
  }
  return result;
}

Tensor elementwise_scale(const Type& type, const std::vector<Tensor>& inputs) {
  Tensor scale(f64, type.shape);
  for (const Tensor& input : inputs) {
    if (!is_float(input.dtype())) continue;
    for_each_broadcast<1>(type.shape, {input.shape()}, [&](int64_t i, const auto& from) {
      scale.set(i, std::fmax(scale.at(i), std::fabs(input.at(from[0]))));
    });
  }
  return scale;
}

// Returns what an output is made of before transposes, reshapes and the like.
Value before_movement(Value value) {
  while (value.node().has(kMovement | kView) && !value.node().inputs().empty()) {
    value = value.node().input(0);
  }
  return value;
}

struct TransformedTiles {
  ProductMatrices matrices;
  WinogradForm form;
};
// Returns how backends may compute a product by transformed tiles, where they may.
std::optional<TransformedTiles> transformed_tiles(const Node& node) {
  if (!node.has(kProduct) || !why_no_matrices(node).empty()) return std::nullopt;
  ProductMatrices matrices = product_matrices(node);
  const auto form = winograd_form(matrices, node.input(matrices.a.input).dtype());
  if (!form) return std::nullopt;
  return TransformedTiles{std::move(matrices), *form};
}

// A product that an op is composed of between transpositions: convolutions whose channels come
// first.
class TurnedProduct {
 public:
  // Holds one where the node's result is a transposition of a product of transposed inputs.
  TurnedProduct(const Node& node, const std::vector<Tensor>& inputs) : graph_(*node.op().table) {
    const auto& decompose = node.op().decompose;
    if (!node.has(kProduct) || decompose == nullptr || why_no_matrices(node).empty()) return;
    Values operands;
    for (const Tensor& input : inputs)
      operands.push_back(
          graph_.input("x" + std::to_string(operands.size()), input.dtype(), input.shape()));
    const Value result =
        decompose(
            BuildContext{node.op(), node.attributes(), operands, {}, {}, {}, graph_, node.site()})
            .at(0);
    if (result.node().op_name() != "transpose" || !result.node().input(0).node().has(kProduct))
      return;
    const Node& product = result.node().input(0).node();
    for (uint32_t i = 0; i < product.inputs().size(); ++i) {
      const Node& turn = product.input(i).node();
      if (turn.op_name() != "transpose" || turn.input(0) != operands.at(i)) return;
      inputs_.push_back(evaluate_node(turn, {inputs[i]}).at(0));
    }
    perm_ = result.node().as<TransposeAttributes>().perm;
    product_ = &product;
  }

  bool found() const { return product_ != nullptr; }
  const Node& product() const { return *product_; }
  const std::vector<Tensor>& inputs() const { return inputs_; }
  // Returns what belongs to the product's results in the order of the node's.
  Tensor turned_back(const Tensor& t) {
    const Value turned = transpose(graph_.input("t", t.dtype(), t.shape()), perm_);
    return evaluate_node(turned.node(), {t}).at(0);
  }

 private:
  Graph graph_;
  const Node* product_ = nullptr;
  std::vector<Tensor> inputs_;
  std::vector<int64_t> perm_;
};

// Whole numbers beyond 2^53 are compared and shown as what they are; a double would round them.
bool is_same_integer(const Tensor& got, const Tensor& expected, size_t i) {
  return visit_dtype(expected.dtype(),
                     [&]<class T>() { return got.data<T>()[i] == expected.data<T>()[i]; });
}
std::string element_text(const Tensor& tensor, int64_t i) {
  std::ostringstream text;
  text.precision(17);
  if (tensor.dtype() == i64)
    text << tensor.data<int64_t>()[static_cast<size_t>(i)];
  else
    text << tensor.at(i);
  return text.str();
}

// Returns how far a float is beyond its limit; nothing where it is within. NaN equals NaN, and an
// infinity itself alone: a limit that is infinite, too, would let any number pass. With
// `equal_bits` a zero is of the expected sign.
std::optional<double> float_excess(double got, double expected, double limit, bool equal_bits) {
  if (std::isnan(got) && std::isnan(expected)) return std::nullopt;
  if (got == expected) {
    if (equal_bits && std::signbit(got) != std::signbit(expected)) return 0;
    return std::nullopt;
  }
  if (!std::isfinite(got) || !std::isfinite(expected)) return INFINITY;
  const double error = std::fabs(got - expected);
  if (error <= limit) return std::nullopt;
  return std::isfinite(error) ? error - limit : INFINITY;
}

}  // namespace

double epsilon(DType dtype) {
  return is_float(dtype) ? std::ldexp(1.0, 1 - format_of(dtype).digits) : 0;
}

double ulp(DType dtype, double value) {
  if (!is_float(dtype)) return 0;
  const FloatFormat format = format_of(dtype);
  if (value == 0 || !std::isfinite(value))
    return std::ldexp(1.0, format.min_exponent - format.digits + 1);
  const int exponent = std::max(std::ilogb(value), format.min_exponent);
  return std::ldexp(1.0, exponent - format.digits + 1);
}

Tensor scale_of(const Node& node, size_t output, const std::vector<Tensor>& inputs) {
  const Type& type = node.type(output);
  if (const auto tiles = transformed_tiles(node))
    return Tensor::of(type.shape, winograd_scale(tiles->matrices, tiles->form, inputs));
  if (TurnedProduct turned(node, inputs); turned.found())
    return turned.turned_back(scale_of(turned.product(), 0, turned.inputs()));
  if (node.has(kProduct | kReduction)) {
    std::vector<Tensor> positive;
    for (const Tensor& input : inputs) positive.push_back(magnitudes(input));
    Tensor scale = evaluate_node(node, positive).at(output).cast(f64);
    // An op composed of others may subtract numbers as large as its inputs on the way.
    const double least = node.op().decompose == nullptr ? 0 : largest_of(inputs);
    for (int64_t i = 0; i < scale.num_elements(); ++i) {
      scale.set(i, std::fmax(std::fabs(scale.at(i)), least));
    }
    return scale;
  }
  if (node.has(kElementwise)) return elementwise_scale(type, inputs);
  return Tensor::full(f64, type.shape, largest_of(inputs));
}

double product_error(const Node& node, size_t output, const std::vector<Tensor>& inputs) {
  const DType dtype = node.type(output).dtype;
  if (!node.has(kProduct) || !is_float(dtype)) return 0;
  if (const auto tiles = transformed_tiles(node))
    return winograd_roundings(tiles->form) * epsilon(f32) / 2;
  if (const TurnedProduct turned(node, inputs); turned.found())
    return product_error(turned.product(), 0, turned.inputs());
  // With ones as inputs each element counts its terms.
  std::vector<Tensor> ones;
  for (const Tensor& input : inputs) ones.push_back(Tensor::full(input.dtype(), input.shape(), 1));
  const Tensor counts = evaluate_node(node, ones).at(output);
  double most = 0;
  for (int64_t i = 0; i < counts.num_elements(); ++i) most = std::fmax(most, counts.at(i));
  const double unit = epsilon(dtype == f64 ? f64 : f32) / 2;
  return product_roundings(static_cast<int64_t>(most)) * unit;
}

std::string compare(const Tensor& got, const Tensor& expected, const ErrorBound& bound,
                    const Tensor& scale, double product_error) {
  if (got.type() != expected.type()) {
    return "has type " + to_string(got.type()) + ", expected " + to_string(expected.type());
  }
  const double relative = bound.k * epsilon(expected.dtype()) + product_error;
  const bool equal_bits = bound.ulps == 0 && relative == 0;
  const auto excess_of = [&](int64_t i) -> std::optional<double> {
    if (!is_float(expected.dtype())) {
      if (is_same_integer(got, expected, static_cast<size_t>(i))) return std::nullopt;
      return std::fabs(got.at(i) - expected.at(i));
    }
    const double absolute = relative == 0 ? 0 : relative * std::fabs(scale.at(i));
    const double limit = bound.ulps * ulp(expected.dtype(), expected.at(i)) + absolute;
    return float_excess(got.at(i), expected.at(i), limit, equal_bits);
  };
  int64_t wrong = 0, first = 0, worst = 0;
  double worst_excess = -1;
  for (int64_t i = 0; i < expected.num_elements(); ++i) {
    const std::optional<double> excess = excess_of(i);
    if (!excess) continue;
    if (++wrong == 1) first = i;
    if (*excess > worst_excess) {
      worst = i;
      worst_excess = *excess;
    }
  }
  if (wrong == 0) return "";
  std::ostringstream text;
  text.precision(17);
  text << wrong << " of " << expected.num_elements() << " elements of "
       << to_string(expected.type()) << " differ; ";
  const auto describe = [&](const char* which, int64_t i) {
    text << which << ", number " << i << ": got " << element_text(got, i) << ", expected "
         << element_text(expected, i) << " within " << bound.ulps << " ulps";
    if (relative != 0) text << " + " << relative << " * " << std::fabs(scale.at(i));
  };
  describe("the first", first);
  if (worst == first) return text.str();
  text << "; ";
  describe("the worst", worst);
  return text.str();
}

std::string compare_outputs(const std::vector<Tensor>& got, const Graph& graph,
                            const Evaluation& expected) {
  if (got.size() != graph.outputs().size()) {
    return "gives " + std::to_string(got.size()) + " outputs";
  }
  for (size_t i = 0; i < got.size(); ++i) {
    const Value& output = graph.outputs()[i];
    const Value computed = before_movement(output);
    const ErrorBound& bound = computed.node().op().bound;
    Tensor scale;
    double of_terms = 0;
    if (bound.k != 0 || computed.node().has(kProduct)) {
      std::vector<Tensor> inputs;
      for (const Value& input : computed.node().inputs()) inputs.push_back(expected(input));
      scale = scale_of(computed.node(), computed.output(), inputs);
      of_terms = product_error(computed.node(), computed.output(), inputs);
      // Where elements were moved, which one went where is not known here.
      if (computed != output) scale = Tensor::full(f64, output.shape(), largest_of({scale}));
    }
    const std::string difference = compare(got[i], expected(output), bound, scale, of_terms);
    if (!difference.empty()) return "output " + std::to_string(i) + " " + difference;
  }
  return "";
}

}  // namespace keel::conformance
