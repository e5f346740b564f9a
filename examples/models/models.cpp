#include "models/classifier.h"

namespace keel_examples {

const std::vector<Model>& models() {
  static const std::vector<Model> all = {{"softmax", build_softmax, 0.5}, {"mlp", build_mlp, 0.1}};
  return all;
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
