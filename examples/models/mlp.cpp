#include "models/classifier.h"

namespace keel_examples {

Classifier build_mlp(keel::Graph& graph, const ImageFormat& format) {
  Classifier model;
  const auto x = add_inputs(model, graph, format);
  const auto h1 = relu(keel::dense(x, 512, {.name = "hidden1", .weights = keel::he_uniform}));
  const auto h2 = relu(keel::dense(h1, 512, {.name = "hidden2", .weights = keel::he_uniform}));
  model.logits = keel::dense(h2, format.classes, {.name = "logits"});
  model.loss = named(mean(softmax_cross_entropy(model.logits, model.label)), "loss");
  return model;
}

}  // namespace keel_examples
