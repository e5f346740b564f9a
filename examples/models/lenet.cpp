// Two convolutions with pooling, then two dense layers: LeNet-5 with ReLU and more channels, as the
// tutorials of most frameworks train it on MNIST.
#include "models/classifier.h"

namespace keel_examples {
namespace {

struct LeNet : keel::Module {
  ImageFormat format;
  int64_t features;  // behind the second pooling
  keel::Conv2d conv1, conv2;
  keel::Dense dense1, dense2;
  keel::Dropout dropout;

  LeNet(const keel::Scope& scope, const ImageFormat& images)
      : Module(scope),
        format(images),
        features((format.height / 4) * (format.width / 4) * 64),
        conv1(scope / "conv1", format.channels, 32, {5, 5}),
        conv2(scope / "conv2", 32, 64, {5, 5}),
        dense1(scope / "dense1", features, 512, {.weights = keel::he_uniform}),
        dense2(scope / "dense2", 512, format.classes),
        dropout(scope / "dropout", 0.4) {}

  keel::Value operator()(keel::Value x, keel::Mode mode) const {
    x = max_pool2d(relu(conv1(reshape(x, {-1, format.height, format.width, format.channels}))),
                   {.window = {2, 2}});
    x = max_pool2d(relu(conv2(x)), {.window = {2, 2}});
    x = relu(dense1(reshape(x, {-1, features})));
    return dense2(dropout(x, mode));
  }
};

}  // namespace

Classifier build_lenet(keel::Graph& graph, const ImageFormat& format) {
  if (format.height < 4 || format.width < 4) {
    throw keel::Error({.op = "lenet",
                       .expected = "images of at least 4x4",
                       .got = std::to_string(format.height) + "x" + std::to_string(format.width),
                       .fix = "use another model, such as mlp"});
  }
  return classify(graph, format, LeNet(keel::Scope(graph), format));
}

}  // namespace keel_examples
