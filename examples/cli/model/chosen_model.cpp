#include "cli/model/chosen_model.h"

#include <filesystem>
#include <limits>
#include <utility>

#include <keel/core/base/file.h>
#include <keel/core/base/sha256.h>

#include "cli/model/image_model.h"
#include "cli/onnx/model_file.h"

namespace keel_cli {

std::string model_choices() { return keel_examples::model_names() + "|FILE.onnx|FILE.keel"; }

bool is_model_file(const std::string& name) {
  return name.ends_with(".onnx") || name.ends_with(".keel");
}

std::vector<NamedFile> model_files(const std::string& name) {
  if (!is_model_file(name)) return {};
  std::vector<NamedFile> files = {{"--model", name}};
  if (name.ends_with(".keel")) files.push_back({"--model", weights_path(name)});
  return files;
}

std::shared_ptr<const ChosenModel> choose_model(const std::string& name) {
  auto chosen = std::make_shared<ChosenModel>();
  if (!is_model_file(name)) {
    chosen->model = keel_examples::find_model(name);
    return chosen;
  }
  ModelFile file = read_model_file(name, {});
  chosen->weights = std::move(file.weights);
  chosen->model_sha256 =
      keel::sha256_hex(keel::read_file(name, std::numeric_limits<int32_t>::max()));
  const auto images = std::make_shared<const ImageModel>(name, std::move(file));
  chosen->batch = images->batch();
  chosen->usual = images->usual();
  chosen->fit = [images](const keel_examples::ImageFormat& format) { return images->fit(format); };
  chosen->model = {.name = std::filesystem::absolute(name).lexically_normal().string(),
                   .builder =
                       [images](keel::Graph& graph, const keel_examples::ImageFormat& format) {
                         return images->build(graph, format);
                       },
                   .sgd_rate = 0.01,
                   .optimizer = "adam"};
  return chosen;
}

}  // namespace keel_cli
