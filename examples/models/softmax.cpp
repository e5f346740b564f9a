#include "models/classifier.h"

namespace keel_examples {

Classifier build_softmax(keel::Graph& graph, keel::DType image) {
  Classifier model;
  const auto x = add_inputs(model, graph, image);
  const auto w = graph.state("w", keel::zeros({784, 10}));
  const auto b = graph.state("b", keel::zeros({10}));
  model.logits = matmul(x, w) + b;
  model.loss = named(mean(softmax_cross_entropy(model.logits, model.label)), "loss");
  return model;
}

}  // namespace keel_examples
