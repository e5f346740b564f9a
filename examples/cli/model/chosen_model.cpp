#include "cli/model/chosen_model.h"

#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

#include <fmt/core.h>
#include <keel/core/base/file.h>
#include <keel/core/base/sha256.h>
#include <keel/ops/exchange/graphdef/file/read_graph_def.h>

#include "cli/model/image_model.h"
#include "cli/onnx/model_file.h"

namespace keel_cli {

keel_examples::ImageFormat ChosenModel::known_format(const std::string& purpose) const {
  if (usual) return fitted(*usual);
  throw keel::Error({.op = purpose,
                     .argument = model.name,
                     .message = "takes images of any size, so none is known",
                     .fix = "export it for one size"});
}

void require_same_model_file(const ChosenModel& model, const std::optional<std::string>& sha256,
                             const std::string& path) {
  if (model.model_sha256 == sha256.value_or("")) return;
  throw keel::Error({.op = "--model " + model.model.name,
                     .expected = "the model that " + path + " was trained with",
                     .got = "another one",
                     .fix = "give the file that it was with --model FILE"});
}

void require_batch(const ChosenModel& model, int64_t batch) {
  if (!model.batch || batch == *model.batch) return;
  throw keel::Error({.op = "--batch",
                     .expected = fmt::format("{}: {} takes so many images at a time", *model.batch,
                                             model.model.name),
                     .got = std::to_string(batch),
                     .kind = keel::ErrorKind::kInvalidArgument});
}

std::string model_choices() {
  return keel_examples::model_names() + "|FILE.onnx|FILE.pb|FILE.keel";
}

bool is_model_file(const std::string& name) {
  return name.ends_with(".onnx") || name.ends_with(".keel") ||
         keel::graphdef::is_graph_def_path(name);
}

const keel_examples::Model& built_in_model(const std::string& name) {
  std::vector<std::string> choices;
  for (const keel_examples::Model& model : keel_examples::models()) {
    if (model.name == name) return model;
    choices.push_back(model.name);
  }
  choices.insert(choices.end(), {"FILE.onnx", "FILE.pb", "FILE.keel"});
  keel::parse_choice(name, "--model", choices);  // throws
  return keel_examples::models().front();
}

std::vector<NamedFile> model_files(const std::string& name) {
  std::error_code unknown;
  // A file that is not there is an error of whoever reads it, who can say what to do.
  if (!is_model_file(name) || !std::filesystem::exists(name, unknown)) return {};
  return files_of_model("--model", name);
}

namespace {

// A TensorFlow graph with variables has to be told which of its values are meant.
ModelFile read_file_of(const std::string& path) {
  try {
    return read_model_file(path, {});
  } catch (const keel::Error& error) {
    keel::ErrorInfo info = error.info();
    if (info.argument != "--outputs") throw;
    info.fix = "keel import " + path + " --outputs NAME,... --out model.keel, and take that (" +
               info.fix + ")";
    throw keel::Error(std::move(info));
  }
}

}  // namespace

std::shared_ptr<const ChosenModel> choose_model(const std::string& name) {
  auto chosen = std::make_shared<ChosenModel>();
  if (!is_model_file(name)) {
    chosen->model = built_in_model(name);
    return chosen;
  }
  ModelFile file = read_file_of(name);
  chosen->weights = std::move(file.weights);
  chosen->model_sha256 =
      keel::sha256_hex(keel::read_file(name, std::numeric_limits<int32_t>::max()));
  const auto images = std::make_shared<const ImageModel>(name, std::move(file));
  chosen->batch = images->batch();
  chosen->usual = images->usual();
  chosen->no_loss = images->no_loss();
  chosen->fit = [images](const keel_examples::ImageFormat& format) { return images->fit(format); };
  if (images->has_update()) {
    chosen->with_own_update = [images](keel::Graph& graph,
                                       const keel_examples::ImageFormat& format) {
      return images->build_with_update(graph, format);
    };
  }
  chosen->model = {.name = std::filesystem::absolute(name).string(),
                   .builder =
                       [images](keel::Graph& graph, const keel_examples::ImageFormat& format) {
                         return images->build(graph, format);
                       },
                   .sgd_rate = 0.01,
                   .optimizer = "adam"};
  return chosen;
}

}  // namespace keel_cli
