// The models that the `keel` tool trains: ordinary user code, functions that build a classifier of
// images in a graph of the caller's: of 28x28 grey images in ten classes, or of another format.
#ifndef KEEL_EXAMPLES_MODELS_CLASSIFIER_H
#define KEEL_EXAMPLES_MODELS_CLASSIFIER_H

#include <functional>
#include <string>
#include <vector>

#include <keel/keel.h>

namespace keel_examples {

// How the images arrive.
struct ImageFormat {
  keel::DType dtype = keel::u8;  // bytes, scaled by the graph to 0 .. 1, or floats as they are
  int64_t height = 28, width = 28, channels = 1;
  int64_t classes = 10;

  int64_t numbers() const noexcept { return height * width * channels; }  // of an image
  bool operator==(const ImageFormat&) const = default;
};

struct Classifier {
  keel::Value image;         // u8 or f32 [batch, height * width * channels], an input
  keel::Value label;         // u8 [batch], an input
  keel::Value logits;        // f32 [batch, classes], as in evaluation
  keel::Value loss;          // f32, mean cross entropy, as in training
  keel::Update update = {};  // of a model that brings its own; else an optimizer makes one
};

// Softmax regression: one dense layer.
Classifier build_softmax(keel::Graph& graph, const ImageFormat& format = {});
// Two hidden layers of 512 with ReLU.
Classifier build_mlp(keel::Graph& graph, const ImageFormat& format = {});

// Two convolutions with pooling, two dense layers; for images of at least 4x4.
Classifier build_lenet(keel::Graph& graph, const ImageFormat& format = {});
// Convolutions with shortcuts and batch norm.
Classifier build_resnet(keel::Graph& graph, const ImageFormat& format = {});
// Attention over the image's rows.
Classifier build_transformer(keel::Graph& graph, const ImageFormat& format = {});
// Recurrence over the image's rows.
Classifier build_lstm(keel::Graph& graph, const ImageFormat& format = {});

// The inputs of all: fills model.image and model.label, returns the images as f32, bytes in 0 .. 1.
keel::Value add_inputs(Classifier& model, keel::Graph& graph, const ImageFormat& format);

// The classifier that a module makes, called with those images and a mode: once for training
// and once for evaluation, with the same parameters.
template <class M>
Classifier classify(keel::Graph& graph, const ImageFormat& format, const M& module) {
  Classifier model;
  const auto x = add_inputs(model, graph, format);
  model.loss =
      named(mean(softmax_cross_entropy(module(x, keel::Mode::kTraining), model.label)), "loss");
  model.logits = module(x, keel::Mode::kEvaluation);
  return model;
}

struct Model {
  std::string name;
  std::function<Classifier(keel::Graph& graph, const ImageFormat& format)> builder;
  double sgd_rate = 0;                // a learning rate that plain descent does well with
  std::string optimizer;              // that does well with it
  double adam_rate = 0.001;           // a learning rate that adam and its kin do well with
  std::string schedule = "constant";  // of the rate, by the names of keel train --schedule

  Classifier build(keel::Graph& graph, const ImageFormat& format = {}) const {
    return builder(graph, format);
  }
};
const std::vector<Model>& models();
// "softmax|mlp|...", for help texts.
std::string model_names();
// Throws keel::Error that names the choices.
const Model& find_model(const std::string& name);

}  // namespace keel_examples

#endif  // KEEL_EXAMPLES_MODELS_CLASSIFIER_H
