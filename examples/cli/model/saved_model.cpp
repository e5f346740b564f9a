#include "cli/model/saved_model.h"

#include <utility>
#include <vector>

#include <fmt/core.h>
#include <keel/core/base/read_budget.h>
#include <keel/graph/ir/skipped_steps.h>

#include "cli/base/errors.h"
#include "cli/base/flag_errors.h"
#include "cli/model/f16_overflow.h"
#include "cli/model/finite_states.h"
#include "cli/model/image_model.h"
#include "cli/model/task.h"

namespace keel_cli {
namespace {

constexpr const char* kDtype = "image_dtype";
constexpr const char* kHeight = "image_height";
constexpr const char* kWidth = "image_width";
constexpr const char* kChannels = "image_channels";
constexpr const char* kClasses = "classes";

}  // namespace

SavedModel::SavedModel(std::string flag, std::string path)
    : flag_(std::move(flag)),
      path_(std::move(path)),
      file_(in_flag(flag_, [&] { return keel::read_safetensors(path_); })) {}

std::optional<std::string> SavedModel::find(const std::string& name) const {
  const auto it = file_.metadata.find(name);
  return it == file_.metadata.end() ? std::nullopt : std::optional(it->second);
}

SavedModel::SavedModel(std::shared_ptr<const ChosenModel> model)
    : flag_("--model"), path_(model->model.name), own_model_(std::move(model)) {
  file_.tensors = own_model_->weights;
}

std::shared_ptr<const ChosenModel> SavedModel::model(
    const std::optional<std::string>& given) const {
  if (own_model_) return own_model_;
  const std::optional<std::string> own = find("model");
  const bool moved = given && own && is_model_file(*own) && is_model_file(*given);
  if (given && own && *own != *given && !moved) {
    throw keel::Error({.op = "--model",
                       .expected = *own + ", as " + path_ + " was trained with",
                       .got = *given,
                       .fix = "drop the flag, or give another file"});
  }
  if (!given && !own) {
    throw keel::Error({.op = flag_,
                       .argument = path_,
                       .message = "does not say which model it is of",
                       .fix = "add --model " + model_choices(),
                       .kind = keel::ErrorKind::kInvalidArgument});
  }
  if (!given) require_labelled(*own);
  auto model = given ? choose_model(*given) : own_model(*own);
  if (own) require_same_model_file(*model, find("model_sha256"), path_);
  return model;
}

std::shared_ptr<const ChosenModel> SavedModel::own_model(const std::string& name) const {
  try {
    return choose_model(name);
  } catch (const keel::Error& error) {
    throw keel::Error(
        {.op = flag_ + ": " + path_,
         .message = error.what(),
         .fix = is_model_file(name) ? "say with --model FILE where its model is now" : ""});
  }
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
  const auto channels = [&]() -> int64_t {
    return keel::parse_choice(find(kChannels).value_or(""), kChannels, {"1", "3"}) == "1" ? 1 : 3;
  };
  const auto own = keel::parse_in_file(flag_ + ": " + path_, [&] {
    const std::string name = keel::parse_choice(*dtype, kDtype, {"u8", "f32"});
    return keel_examples::ImageFormat{.dtype = name == "u8" ? keel::u8 : keel::f32,
                                      .height = dimension(kHeight, kMostOfADimension),
                                      .width = dimension(kWidth, kMostOfADimension),
                                      .channels = channels(),
                                      .classes = dimension(kClasses, kMostOfADimension)};
  });
  const auto bytes = static_cast<uint64_t>(own.numbers()) * keel::size_of(own.dtype);
  if (bytes > keel::read_budget())
    throw keel::over_read_budget(path_, "an image of " + describe(own), keel::read_budget());
  return own;
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

std::optional<int64_t> SavedModel::count_of_updates(const std::string& name) const {
  const auto count = file_.tensors.find(name);
  if (count == file_.tensors.end()) return std::nullopt;
  const keel::Type one{keel::i64, {}};
  if (const keel::Type type = count->second.type(); type != one) {
    throw keel::Error({.op = flag_,
                       .argument = path_,
                       .expected = "'" + name + "' as a count of updates, " + keel::to_string(one),
                       .got = keel::to_string(type),
                       .fix = "write the file without it: of another program's file it is not "
                              "needed"});
  }
  return count->second.item<int64_t>();
}

// Goes by the state's own count of the steps that did not average it. Averages that are made
// together have one, named for the first of them, and files may lack a count of 0: states without a
// count are taken for averaged.
bool SavedModel::never_averaged(const std::string& state) const {
  const auto skipped = count_of_updates(std::string(keel::kSkippedStates) + state + kAverage);
  return skipped && skipped == count_of_updates(keel::kStepState);
}

SavedModel::Usable SavedModel::usable(const keel::Values& states) const {
  Usable weights{.tensors = file_.tensors, .averaged = {}};
  // Before the first update averages are 0, and a training measures the weights themselves.
  const std::optional<int64_t> updates = count_of_updates(keel::kUpdatesState);
  if ((updates ? updates : count_of_updates(keel::kStepState)) == 0) return weights;
  std::set<std::string> names;
  for (const keel::Value& state : states) names.insert(keel::name_of(state.node()));
  for (const std::string& name : names) {
    const auto average = weights.tensors.find(name + kAverage);
    if (average == weights.tensors.end() || names.contains(average->first)) continue;
    if (never_averaged(name)) continue;
    weights.tensors[name] = average->second;
    weights.tensors.erase(average);
    weights.averaged.insert(name);
  }
  return weights;
}

void SavedModel::require_states(const keel::Values& states) const {
  const keel::WeightsMatch match = keel::match_weights(states, usable(states).tensors);
  if (match.complete()) return;
  throw keel::Error({.op = flag_,
                     .argument = path_,
                     .message = "does not hold the states of this model: " + keel::describe(match),
                     .fix = "give the --model that it was trained with"});
}

LoadedWeights SavedModel::load(keel::Session& session, const keel::Values& states,
                               const Usable& weights) const {
  LoadedWeights loaded{.match = keel::load_weights(session, states, weights.tensors)};
  for (const std::string& name : loaded.match.matched)
    loaded.averaged += weights.averaged.contains(name) ? 1 : 0;
  return loaded;
}

LoadedWeights SavedModel::load_all(keel::Session& session, const keel::Values& states) const {
  require_states(states);
  return load(session, states, usable(states));
}

LoadedWeights SavedModel::load_matching(keel::Session& session, const keel::Values& states) const {
  const Usable weights = usable(states);
  const keel::WeightsMatch match = keel::match_weights(states, weights.tensors);
  if (match.matched.empty()) {
    throw keel::Error({.op = flag_,
                       .argument = path_,
                       .message = "holds no state of this model: " + keel::describe(match),
                       .fix = "give a file of the same model"});
  }
  return load(session, states, weights);
}

void SavedModel::require_finite(const std::string& fix) const {
  const auto problem = non_finite_state(file_.tensors);
  if (!problem) return;
  throw keel::Error({.op = flag_, .argument = path_, .message = *problem, .fix = fix});
}

void SavedModel::warn_of_other_overflow(const keel::Graph& graph, const keel::Device& device,
                                        const keel::Precision& precision) const {
  const std::string warning = other_f16_overflow(file_.metadata, {graph, device, precision}, path_);
  if (!warning.empty()) print_warning(warning);
}

void SavedModel::add_format(const keel_examples::ImageFormat& format,
                            std::map<std::string, std::string>& metadata) {
  metadata[kDtype] = keel::name_of(format.dtype);
  metadata[kHeight] = std::to_string(format.height);
  metadata[kWidth] = std::to_string(format.width);
  metadata[kChannels] = std::to_string(format.channels);
  metadata[kClasses] = std::to_string(format.classes);
}

SavedModel saved_weights(const std::string& load, const std::optional<std::string>& model) {
  return load.empty() ? SavedModel(choose_model(*model)) : SavedModel("--load", load);
}

std::vector<NamedFile> weight_files(const std::string& load,
                                    const std::optional<std::string>& model,
                                    const SavedModel& saved) {
  std::vector<NamedFile> files = model_files(model ? *model : saved.find("model").value_or(""));
  files.push_back({"--load", load});
  return files;
}

std::string describe(const keel_examples::ImageFormat& format) {
  return fmt::format("{}x{}x{} {}, {} classes", format.height, format.width, format.channels,
                     keel::name_of(format.dtype), format.classes);
}

std::string describe(const LoadedWeights& weights) {
  std::string text = keel::describe(weights.match);
  if (weights.averaged == 0) return text;
  return fmt::format("{}; {} taken as averages over the training", text, weights.averaged);
}

}  // namespace keel_cli
