#include "cli/saved_model.h"

#include <utility>
#include <vector>

#include <fmt/core.h>

#include "cli/train/finite_states.h"
#include "cli/train/task.h"

namespace keel_cli {
namespace {

constexpr const char* kDtype = "image_dtype";
constexpr const char* kHeight = "image_height";
constexpr const char* kWidth = "image_width";
constexpr const char* kChannels = "image_channels";
constexpr const char* kClasses = "classes";
// Far beyond any image, and far from where products of three of them overflow.
constexpr int64_t kMostOfADimension = int64_t{1} << 20;

}  // namespace

SavedModel::SavedModel(std::string flag, std::string path)
    : flag_(std::move(flag)), path_(std::move(path)), file_(keel::read_safetensors(path_)) {}

std::optional<std::string> SavedModel::find(const std::string& name) const {
  const auto it = file_.metadata.find(name);
  return it == file_.metadata.end() ? std::nullopt : std::optional(it->second);
}

const keel_examples::Model& SavedModel::model(const std::optional<std::string>& given) const {
  const std::optional<std::string> own = find("model");
  if (given) {
    const keel_examples::Model& model = keel_examples::find_model(*given);
    if (!own || *own == *given) return model;
    throw keel::Error({.op = "--model",
                       .expected = *own + ", as " + path_ + " was trained with",
                       .got = *given,
                       .fix = "drop the flag, or give another file"});
  }
  if (!own) {
    throw keel::Error({.op = flag_,
                       .argument = path_,
                       .message = "does not say which model it is of",
                       .fix = "add --model " + keel_examples::model_names(),
                       .kind = keel::ErrorKind::kInvalidArgument});
  }
  require_labelled(*own);
  return *keel::parse_in_file(flag_ + ": " + path_,
                              [&] { return &keel_examples::find_model(*own); });
}

void SavedModel::require_labelled(const std::string& model) const {
  for (const TaskKind& kind : task_kinds()) {
    if (kind.name != model || kind.labelled) continue;
    throw keel::Error({.op = flag_,
                       .argument = path_,
                       .message = "is of the model " + model + ", which has no classes",
                       .fix = "give a file of a classifier; keel train measures a " + model +
                              ", and keel sample writes what a charlm draws"});
  }
}

std::optional<keel_examples::ImageFormat> SavedModel::format() const {
  const std::optional<std::string> dtype = find(kDtype);
  if (!dtype) return std::nullopt;
  const auto dimension = [&](const char* name, int64_t most) {
    return keel::parse_integer(find(name).value_or(""), name, 1, most);
  };
  return keel::parse_in_file(flag_ + ": " + path_, [&] {
    const std::string name = keel::parse_choice(*dtype, kDtype, {"u8", "f32"});
    return keel_examples::ImageFormat{.dtype = name == "u8" ? keel::u8 : keel::f32,
                                      .height = dimension(kHeight, kMostOfADimension),
                                      .width = dimension(kWidth, kMostOfADimension),
                                      .channels = dimension(kChannels, 4),
                                      .classes = dimension(kClasses, 256)};
  });
}

keel_examples::ImageFormat SavedModel::require_format(const keel_examples::ImageFormat& given,
                                                      const std::string& data) const {
  std::optional<keel_examples::ImageFormat> own = format();
  if (!own) return given;
  keel_examples::ImageFormat same = given;
  // Rows of a table may lack the classes that come last.
  if (given.classes < own->classes) same.classes = own->classes;
  if (same == *own) return *own;
  throw keel::Error(
      {.op = "--data",
       .argument = data,
       .expected = "images of " + describe(*own) + ", as " + path_ + " was trained on",
       .got = describe(given)});
}

void SavedModel::load_all(keel::Session& session, const keel::Values& states) const {
  const keel::WeightsMatch match = keel::match_weights(states, file_.tensors);
  if (!match.complete()) {
    throw keel::Error(
        {.op = flag_,
         .argument = path_,
         .message = "does not hold the states of this model: " + keel::describe(match),
         .fix = "give the --model that it was trained with"});
  }
  keel::load_weights(session, states, file_.tensors);
}

keel::WeightsMatch SavedModel::load_matching(keel::Session& session,
                                             const keel::Values& states) const {
  keel::WeightsMatch match = keel::match_weights(states, file_.tensors);
  if (match.matched.empty()) {
    throw keel::Error({.op = flag_,
                       .argument = path_,
                       .message = "holds no state of this model: " + keel::describe(match),
                       .fix = "give a file of the same model"});
  }
  return keel::load_weights(session, states, file_.tensors);
}

void SavedModel::require_finite(const std::string& fix) const {
  const auto problem = non_finite_state(file_.tensors);
  if (!problem) return;
  throw keel::Error({.op = flag_, .argument = path_, .message = *problem, .fix = fix});
}

void SavedModel::add_format(const keel_examples::ImageFormat& format,
                            std::map<std::string, std::string>& metadata) {
  metadata[kDtype] = keel::name_of(format.dtype);
  metadata[kHeight] = std::to_string(format.height);
  metadata[kWidth] = std::to_string(format.width);
  metadata[kChannels] = std::to_string(format.channels);
  metadata[kClasses] = std::to_string(format.classes);
}

std::string describe(const keel_examples::ImageFormat& format) {
  return fmt::format("{}x{}x{} {}, {} classes", format.height, format.width, format.channels,
                     keel::name_of(format.dtype), format.classes);
}

}  // namespace keel_cli
