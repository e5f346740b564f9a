// A small residual net with batch norm: three blocks, of which the second and the third have half
// the height and width and twice the channels of the one before. Source: He et al., "Deep Residual
// Learning for Image Recognition" (2015).
#include "models/classifier.h"

namespace keel_examples {
namespace {

// The norm behind a convolution has an offset of its own, so none is needed here.
keel::Conv2d conv(const keel::Scope& scope, int64_t in, int64_t out, int64_t kernel,
                  int64_t stride = 1) {
  return {scope, in, out, {kernel}, {.stride = {stride}, .use_bias = false}};
}

// x + f(x), where f is two convolutions; where they change the size, x goes through one of its own.
keel::Residual block(const keel::Scope& scope, int64_t in, int64_t out) {
  const int64_t stride = out / in;
  const keel::Conv2d conv1 = conv(scope / "conv1", in, out, 3, stride);
  const keel::Conv2d conv2 = conv(scope / "conv2", out, out, 3);
  const keel::BatchNorm norm1(scope / "norm1", out), norm2(scope / "norm2", out);
  keel::Sequential f(scope);
  f.add(conv1).add(norm1).add(keel::relu).add(conv2).add(norm2);
  if (in == out) return keel::Residual(scope, f);
  return keel::Residual(scope, f, conv(scope / "shortcut", in, out, 1, stride));
}

struct ResNet : keel::Module {
  ImageFormat format;
  keel::Sequential layers;

  ResNet(const keel::Scope& scope, const ImageFormat& images)
      : Module(scope), format(images), layers(scope) {
    const keel::Conv2d first = conv(scope / "first", format.channels, 16, 3);
    const keel::BatchNorm norm(scope / "norm", 16);
    const keel::Dense logits(scope / "logits", 64, format.classes);
    layers.add(first).add(norm).add(keel::relu);
    int64_t in = 16, number = 0;
    for (const int64_t out : {16, 32, 64}) {
      layers.add(block(scope / "blocks" / number++, in, out)).add(keel::relu);
      in = out;
    }
    layers.add(keel::GlobalAvgPool2d(scope / "pool")).add(logits);
  }

  keel::Value operator()(keel::Value x, keel::Mode mode) const {
    return layers(reshape(x, {-1, format.height, format.width, format.channels}), mode);
  }
};

}  // namespace

Classifier build_resnet(keel::Graph& graph, const ImageFormat& format) {
  return classify(graph, format, ResNet(keel::Scope(graph), format));
}

}  // namespace keel_examples
