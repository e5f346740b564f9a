// Two convolutions with pooling, then two dense layers: LeNet-5 with ReLU and more channels, as the
// tutorials of most frameworks train it on MNIST.
#include "models/classifier.h"

namespace keel_examples {
namespace {

struct LeNet : keel::Module {
  keel::Conv2d conv1, conv2;
  keel::Dense dense1, dense2;
  keel::Dropout dropout;

  explicit LeNet(const keel::Scope& scope)
      : Module(scope),
        conv1(scope / "conv1", 1, 32, {5, 5}),
        conv2(scope / "conv2", 32, 64, {5, 5}),
        dense1(scope / "dense1", 7 * 7 * 64, 512, {.weights = keel::he_uniform}),
        dense2(scope / "dense2", 512, 10),
        dropout(scope / "dropout", 0.4) {}

  keel::Value operator()(keel::Value x, keel::Mode mode) const {
    x = max_pool2d(relu(conv1(reshape(x, {-1, 28, 28, 1}))), {.window = {2, 2}});
    x = max_pool2d(relu(conv2(x)), {.window = {2, 2}});
    x = relu(dense1(reshape(x, {-1, 7 * 7 * 64})));
    return dense2(dropout(x, mode));
  }
};

}  // namespace

Classifier build_lenet(keel::Graph& graph, keel::DType image) {
  return classify(graph, image, LeNet(keel::Scope(graph)));
}

}  // namespace keel_examples
