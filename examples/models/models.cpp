#include "models/classifier.h"

namespace keel_examples {

keel::Value add_inputs(Classifier& model, keel::Graph& graph, const ImageFormat& format) {
  model.image = graph.input("image", format.dtype, {-1, format.numbers()});
  model.label = graph.input("label", keel::u8, {-1});
  return format.dtype == keel::u8 ? cast(model.image, keel::f32) / 255.0f : model.image;
}

const std::vector<Model>& models() {
  static const std::vector<Model> all = {
      {"softmax", build_softmax, 0.5, "sgd"},
      {"mlp", build_mlp, 0.1, "sgd"},
      {"lenet", build_lenet, 0.05, "adam"},
      {"resnet", build_resnet, 0.1, "adam"},
      {"transformer", build_transformer, 0.05, "adam", 0.003, "cosine"},
      {"lstm", build_lstm, 0.1, "adam", 0.002}};
  return all;
}

std::string model_names() {
  std::string names;
  for (const Model& model : models()) names += (names.empty() ? "" : "|") + model.name;
  return names;
}

const Model& find_model(const std::string& name) {
  std::vector<std::string> names;
  for (const Model& model : models()) {
    if (model.name == name) return model;
    names.push_back(model.name);
  }
  keel::parse_choice(name, "--model", names);  // throws
  return models().front();
}

}  // namespace keel_examples
