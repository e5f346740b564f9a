#include "models/classifier.h"

namespace keel_examples {

Classifier build_softmax(keel::Graph& graph, const ImageFormat& format) {
  Classifier model;
  const auto x = add_inputs(model, graph, format);
  const auto w = graph.state("w", keel::zeros({format.numbers(), format.classes}));
  const auto b = graph.state("b", keel::zeros({format.classes}));
  model.logits = matmul(x, w) + b;
  model.loss = named(mean(softmax_cross_entropy(model.logits, model.label)), "loss");
  return model;
}

}  // namespace keel_examples
