#include "keel/ops/products/product_matrices.h"

#include <algorithm>

#include "keel/core/base/checked.h"
#include "keel/ops/conv_rules.h"
#include "keel/ops/matmul.h"

namespace keel {
namespace {

using Operand = ProductMatrices::Operand;
using Starts = ProductMatrices::Starts;
using Places = ConvGeometry::Places;

// ---- matrix products

// For each product of the batch, which of the operand's matrices it reads: the leading dimensions
// broadcast.
std::vector<int64_t> matrices_of_batch(const Shape& operand, const Shape& product) {
  const size_t leading = product.rank() - 2, own = operand.rank() - 2;
  std::vector<int64_t> numbers{0};
  for (size_t i = 0; i < leading; ++i) {
    const bool missing = i + own < leading;
    const int64_t dim = missing ? 1 : operand[i + own - leading];
    std::vector<int64_t> longer;
    for (const int64_t number : numbers) {
      for (int64_t at = 0; at < product[i]; ++at) {
        longer.push_back(number * dim + (dim == 1 ? 0 : at));
      }
    }
    numbers = std::move(longer);
  }
  return numbers;
}

// Matrices of A that follow one another and meet the same matrix of B are one matrix with more
// rows: returns how many there are to each such product of the batch.
size_t rows_together(const std::vector<int64_t>& left, const std::vector<int64_t>& right) {
  const auto goes_on = [&](size_t i) {
    return left[i] == left[i - 1] + 1 && right[i] == right[i - 1];
  };
  size_t count = 1;
  while (count < left.size() && goes_on(count)) ++count;
  if (left.size() % count != 0) return 1;
  for (size_t i = 1; i < left.size(); ++i) {
    if (i % count != 0 && !goes_on(i)) return 1;
  }
  return count;
}

ProductMatrices of_matmul(const Node& node) {
  const auto& attributes = node.as<MatmulAttributes>();
  const Shape &a = node.input(0).shape(), &b = node.input(1).shape(), &c = node.type().shape;
  ProductMatrices p;
  p.m = c[c.rank() - 2];
  p.n = c.back();
  p.k = a[a.rank() - (attributes.transpose_a ? 2 : 1)];
  p.a = {.input = 0, .transposed = attributes.transpose_a, .stride = a.back(), .windows = {}};
  p.b = {.input = 1, .transposed = attributes.transpose_b, .stride = b.back(), .windows = {}};
  p.c_stride = p.n;
  p.wide = attributes.wide;
  p.rows_alone = attributes.rows_alone;
  const auto left = matrices_of_batch(a, c), right = matrices_of_batch(b, c);
  const size_t together = attributes.transpose_a ? 1 : rows_together(left, right);
  for (size_t i = 0; i < left.size(); i += together) {
    p.batch.push_back(
        {left[i] * p.m * p.k, right[i] * p.k * p.n, static_cast<int64_t>(i) * p.m * p.n});
  }
  p.m *= static_cast<int64_t>(together);
  return p;
}

// ---- convolutions
//
// A row of C is a pixel, and k runs over taps and channels. What lies side by side in C and in the
// images is one dimension. The gradient of the weights sums over all pixels. Images whose channels
// come first are turned (decompositions, ops/conv.cpp).

using Axis = WindowRows::Axis;

// The windows of a convolution over its images, a tap being a column.
Axis windows_over_images(const WindowAxis& w, int64_t pitch) {
  return {.windows = w.out,
          .taps = w.taps,
          .size = w.in,
          .first = -w.low,
          .step = w.stride,
          .tap_step = w.dilation,
          .pitch = pitch};
}
// With stride 1, pixel y of the images meets tap a of the weights in result y + low - a *
// dilation. The taps come from the last to the first, so that those of one
// window lie side by side.
Axis turned_windows_over_results(const WindowAxis& w, int64_t pitch) {
  return {.windows = w.in,
          .taps = w.taps,
          .size = w.out,
          .first = w.low - (w.taps - 1) * w.dilation,
          .step = 1,
          .tap_step = w.dilation,
          .pitch = pitch};
}
// `count` rows that are `pitch` elements apart, or as many columns.
Axis rows_apart(int64_t count, int64_t pitch) {
  return {.windows = count, .size = count, .pitch = pitch};
}
Axis columns_apart(int64_t count, int64_t pitch) {
  return {.taps = count, .size = count, .pitch = pitch};
}

class ConvMatrices {
 public:
  ConvMatrices(const Conv2dAttributes& a, const Shape& images, const Shape& weights)
      : g_(a, images, weights),
        wide_(a.wide),
        direct_(a.algorithm == kDirectAlgorithm),
        rows_alone_(a.rows_alone),
        images_(g_.places[kImages]),
        weights_(g_.places[kWeights]),
        results_(g_.places[kResults]),
        pixels_(g_.windows[0].in * g_.windows[1].in),
        windows_(g_.windows[0].out * g_.windows[1].out) {}

  ProductMatrices forward() const { return completed(forward_matrices()); }
  ProductMatrices input_gradient() const { return completed(input_gradient_matrices()); }
  ProductMatrices weight_gradient() const { return completed(weight_gradient_matrices()); }

 private:
  ProductMatrices completed(ProductMatrices p) const {
    p.wide = wide_;
    p.direct = direct_;
    p.rows_alone = rows_alone_;
    return p;
  }

  WindowRows windows_of_images() const {
    return {.axes = {windows_over_images(g_.windows[0], images_.spatial[0]),
                     windows_over_images(g_.windows[1], images_.spatial[1])},
            .image_pitch = images_.batch,
            .channels = g_.in};
  }
  WindowRows turned_windows_of_results() const {
    return {.axes = {turned_windows_over_results(g_.windows[0], results_.spatial[0]),
                     turned_windows_over_results(g_.windows[1], results_.spatial[1])},
            .image_pitch = results_.batch,
            .channels = g_.out};
  }
  template <class F>
  std::vector<Starts> each_group(const F& starts) const {
    std::vector<Starts> batch;
    for (int64_t group = 0; group < g_.groups; ++group) batch.push_back(starts(group));
    return batch;
  }
  // [windows, taps, in] x [taps, in, out]
  ProductMatrices forward_matrices() const {
    ProductMatrices p{.m = g_.rows(), .n = g_.out, .k = g_.taps() * g_.in};
    p.a = {.input = 0, .windows = windows_of_images()};
    p.b = {.input = 1, .stride = weights_.in};
    p.c_stride = results_.spatial[1];
    p.batch = each_group([&](int64_t group) -> Starts {
      return {group * g_.in, group * g_.out, group * g_.out};
    });
    return p;
  }
  // [pixels, taps, out] x [taps, out, in], the taps turned; B is stored [in, taps, out], a tap of
  // it far from the next.
  ProductMatrices input_gradient_matrices() const {
    ProductMatrices p{.m = g_.batch * pixels_, .n = g_.in, .k = g_.taps() * g_.out};
    p.a = {.input = 0, .windows = turned_windows_of_results()};
    Axis taps = columns_apart(g_.taps(), weights_.spatial[1]);
    taps.first = g_.taps() - 1;
    taps.tap_step = -1;
    p.b = {
        .input = 1,
        .transposed = true,
        .windows = WindowRows{.axes = {taps, rows_apart(g_.in, weights_.in)}, .channels = g_.out}};
    p.c_stride = images_.spatial[1];
    p.batch = each_group([&](int64_t group) -> Starts {
      return {group * g_.out, group * g_.out, group * g_.in};
    });
    return p;
  }
  // [taps, in, windows] x [windows, out], the left one stored by windows
  ProductMatrices weight_gradient_matrices() const {
    ProductMatrices p{.m = g_.taps() * g_.in, .n = g_.out, .k = g_.rows()};
    p.a = {.input = 0, .transposed = true, .windows = windows_of_images()};
    p.b = {.input = 1, .stride = results_.spatial[1]};
    p.c_stride = weights_.in;
    p.batch = each_group([&](int64_t group) -> Starts {
      return {group * g_.in, group * g_.out, group * g_.out};
    });
    return p;
  }
  const ConvGeometry g_;
  const bool wide_, direct_, rows_alone_;
  const Places &images_, &weights_, &results_;
  const int64_t pixels_, windows_;  // of an image, of the windows over it
};

// The names of the three products are this room's own.
enum class Product : uint8_t { kMatrices, kConv, kInputGradient, kWeightGradient };
Product kind_of(const Node& node) {
  const std::string& name = node.op_name();
  if (name == "conv2d") return Product::kConv;
  if (name == "conv2d_input_gradient") return Product::kInputGradient;
  if (name == "conv2d_weight_gradient") return Product::kWeightGradient;
  return Product::kMatrices;
}

Shape images_of(const Node& node, Product kind) {
  return kind == Product::kInputGradient ? node.type().shape : node.input(0).shape();
}
Shape weights_of(const Node& node, Product kind) {
  return kind == Product::kWeightGradient ? node.type().shape : node.input(1).shape();
}
const Conv2dAttributes& attributes_of(const Node& node, Product kind) {
  if (kind == Product::kConv) return node.as<Conv2dAttributes>();
  return node.as<Conv2dGradientAttributes>();
}

bool is_known(const Node& node) {
  return node.input(0).shape().known() && node.input(1).shape().known() &&
         node.type().shape.known();
}
bool is_empty(const Shape& shape) { return shape.num_elements() == 0; }

}  // namespace

std::string why_no_matrices(const Node& product) {
  const Product kind = kind_of(product);
  if (kind == Product::kMatrices) return "";
  if (!is_known(product)) return "its dimensions are not known";
  if (is_empty(product.input(0).shape()) || is_empty(product.input(1).shape()) ||
      is_empty(product.type().shape)) {
    return "a convolution without elements";
  }
  const Conv2dAttributes& attributes = attributes_of(product, kind);
  if (attributes.layout == kChannelsFirst)
    return "images whose channels come first are turned, and results are turned back";
  const ConvGeometry g(attributes, images_of(product, kind), weights_of(product, kind));
  if (g.depthwise()) {
    return "a depthwise convolution has only its " + std::to_string(g.taps()) +
           " taps to sum: element-wise multiplications do that";
  }
  const bool strided = std::any_of(g.windows.begin(), g.windows.end(),
                                   [](const WindowAxis& w) { return w.stride > 1 && w.out > 1; });
  if (kind == Product::kInputGradient && strided) {
    return "with a stride most products for the images would be with zeros: each phase of the "
           "stride is a convolution of its own";
  }
  return "";
}

namespace {

// `images`: how many there are to a convolution.
ProductMatrices matrices_of(const Node& product, Product kind, int64_t images) {
  if (kind == Product::kMatrices) return of_matmul(product);
  const ConvMatrices conv(attributes_of(product, kind),
                          images_of(product, kind).with_dim(0, images), weights_of(product, kind));
  if (kind == Product::kConv) return conv.forward();
  return kind == Product::kInputGradient ? conv.input_gradient() : conv.weight_gradient();
}

int64_t parts_of(const Node& product, Product kind) {
  if (kind == Product::kMatrices) return product.as<MatmulAttributes>().parts;
  if (kind == Product::kWeightGradient) return product.as<Conv2dGradientAttributes>().parts;
  return 1;
}

void set_parts(const Node& product, int64_t parts, ProductMatrices& p) {
  p.parts = parts;
  if (parts == 1) return;
  p.part_step = {product.input(p.a.input).shape().num_elements() / parts,
                 product.input(p.b.input).shape().num_elements() / parts, 0};
}

}  // namespace

ProductMatrices product_matrices(const Node& product) {
  const Product kind = kind_of(product);
  const int64_t images = kind == Product::kMatrices ? 0 : images_of(product, kind)[0];
  ProductMatrices p = matrices_of(product, kind, images);
  set_parts(product, parts_of(product, kind), p);
  return p;
}

ProductMatrices matrices_of_part(const Node& product) {
  const Product kind = kind_of(product);
  const int64_t parts = parts_of(product, kind);
  const int64_t images = kind == Product::kMatrices ? 0 : images_of(product, kind)[0];
  ProductMatrices p = matrices_of(product, kind, images / parts);
  if (kind == Product::kMatrices) p.k /= parts;
  set_parts(product, parts, p);
  return p;
}

}  // namespace keel
