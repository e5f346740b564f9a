#include "models/classifier.h"

namespace keel_examples {

Classifier build_softmax(keel::Graph& graph) {
  Classifier model;
  model.image = graph.input("image", keel::u8, {-1, 784});
  model.label = graph.input("label", keel::u8, {-1});
  const auto x = cast(model.image, keel::f32) / 255.0f;
  const auto w = graph.state("w", keel::zeros({784, 10}));
  const auto b = graph.state("b", keel::zeros({10}));
  model.logits = matmul(x, w) + b;
  model.loss = mean(softmax_cross_entropy(model.logits, model.label));
  return model;
}

}  // namespace keel_examples
