// The models that the `keel` tool trains: ordinary user code, functions that build a classifier of
// 28x28 grey images in a graph of the caller's.
#ifndef KEEL_EXAMPLES_MODELS_CLASSIFIER_H
#define KEEL_EXAMPLES_MODELS_CLASSIFIER_H

#include <string>
#include <vector>

#include <keel/keel.h>

namespace keel_examples {

struct Classifier {
  keel::Value image;   // u8 or f32 [batch, 784], an input
  keel::Value label;   // u8 [batch], an input
  keel::Value logits;  // f32 [batch, 10], as in evaluation
  keel::Value loss;    // f32, mean cross entropy, as in training
};

// `image` is the dtype in which the images arrive: bytes, scaled by the graph, or floats in 0 .. 1.

// Softmax regression: 784-10.
Classifier build_softmax(keel::Graph& graph, keel::DType image = keel::u8);
// 784-512-512-10 with ReLU.
Classifier build_mlp(keel::Graph& graph, keel::DType image = keel::u8);

// Two convolutions with pooling, two dense layers.
Classifier build_lenet(keel::Graph& graph, keel::DType image = keel::u8);
// Convolutions with shortcuts and batch norm.
Classifier build_resnet(keel::Graph& graph, keel::DType image = keel::u8);
// Attention over the image's rows.
Classifier build_transformer(keel::Graph& graph, keel::DType image = keel::u8);
// Recurrence over the image's rows.
Classifier build_lstm(keel::Graph& graph, keel::DType image = keel::u8);

// The inputs of all: fills model.image and model.label, returns the images in 0 .. 1.
keel::Value add_inputs(Classifier& model, keel::Graph& graph, keel::DType image);

// The classifier that a module makes, called with images in 0 .. 1 and a mode: once for training
// and once for evaluation, with the same parameters.
template <class M>
Classifier classify(keel::Graph& graph, keel::DType image, const M& module) {
  Classifier model;
  const auto x = add_inputs(model, graph, image);
  model.loss =
      named(mean(softmax_cross_entropy(module(x, keel::Mode::kTraining), model.label)), "loss");
  model.logits = module(x, keel::Mode::kEvaluation);
  return model;
}

struct Model {
  std::string name;
  Classifier (*builder)(keel::Graph& graph, keel::DType image);
  double sgd_rate;        // a learning rate that plain descent does well with
  std::string optimizer;  // that does well with it

  Classifier build(keel::Graph& graph, keel::DType image = keel::u8) const {
    return builder(graph, image);
  }
};
const std::vector<Model>& models();
// "softmax|mlp|...", for help texts.
std::string model_names();
// Throws keel::Error that names the choices.
const Model& find_model(const std::string& name);

}  // namespace keel_examples

#endif  // KEEL_EXAMPLES_MODELS_CLASSIFIER_H
