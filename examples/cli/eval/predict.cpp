#include <algorithm>
#include <cstring>
#include <iostream>
#include <numeric>
#include <optional>

#include <fmt/core.h>
#include <keel/core/base/file.h>
#include <keel/core/base/json.h>
#include <keel/core/base/printable.h>
#include <keel/keel.h>
#include <nlohmann/json.hpp>

#include "cli/base/commands.h"
#include "cli/base/output_files.h"
#include "cli/base/run_flags.h"
#include "cli/eval/classification.h"
#include "cli/eval/predictor.h"
#include "cli/model/finite_states.h"
#include "cli/model/picture.h"

namespace keel_cli {
namespace {

constexpr size_t kMostShown = 10;  // classes, the likeliest first

struct PredictFlags {
  PredictorFlags predictor;
  std::optional<int64_t> index;
  std::string image;  // file
  bool invert = false;
  std::string json;
};

// An image as the model takes it, and what is known of it.
struct Subject {
  std::string origin;
  keel::Tensor numbers;  // [1, numbers]
  std::optional<int64_t> label;
};

PredictFlags read_predict_flags(const CommandLine& line) {
  PredictFlags flags{.predictor = read_predictor_flags(line),
                     .index = line.integer("index", 0),
                     .image = line.text("image").value_or(""),
                     .invert = line.has("invert"),
                     .json = line.text("json").value_or("")};
  const auto refuse = [](const char* flag, const std::string& message, const std::string& fix) {
    throw keel::Error(
        {.op = flag, .message = message, .fix = fix, .kind = keel::ErrorKind::kInvalidArgument});
  };
  if (flags.index.has_value() == !flags.image.empty())
    refuse("keel predict", flags.index ? "--index and --image are both given" : "no image is named",
           "give --index N, an image of --data, or --image FILE");
  for (const char* flag : {"data", "label", "split"}) {
    if (!flags.image.empty() && line.has(flag))
      refuse("--image", std::string("--") + flag + " is about the images of a set",
             "drop one of the two");
  }
  if (flags.invert && flags.image.empty())
    refuse("--invert", "is about an image file", "drop it, or use --image FILE");
  return flags;
}

Subject subject_of_set(const PredictFlags& flags, const ChosenImages& images) {
  if (*flags.index >= images.count) {
    throw keel::Error({.op = "--index",
                       .expected = fmt::format("0 to {}, of the {} images ({})", images.count - 1,
                                               images.count, flags.predictor.split),
                       .got = std::to_string(*flags.index)});
  }
  keel::DatasetIterator one(images.items.skip(*flags.index).take(1).batch(1));
  const auto fields = one.next();
  return {.origin = fmt::format("image {} of {} ({})", *flags.index, images.origin,
                                flags.predictor.split),
          .numbers = fields->at(0),
          .label = fields->at(1).data<uint8_t>()[0]};
}

keel_examples::ImageFormat format_for_file(const PredictFlags& flags, const SavedModel& saved,
                                           const ChosenModel& model) {
  const keel_examples::ImageFormat format =
      saved.format() ? *saved.format() : model.known_format("--image");
  if (format.dtype != keel::u8 || format.height < 2) {
    throw keel::Error({.op = "--image",
                       .argument = flags.image,
                       .message = "is an image, and " + saved.path() +
                                  " was trained on rows of numbers: " + describe(format),
                       .fix = "use --index with --data FILE.csv"});
  }
  return format;
}

Subject subject_of_file(const PredictFlags& flags, const keel_examples::ImageFormat& format) {
  const Picture read = read_picture(flags.image);
  Picture picture = resized(with_channels(read, format.channels), format.height, format.width);
  if (flags.invert) picture = inverted(picture);
  keel::Tensor numbers(keel::u8, {1, format.numbers()});
  std::memcpy(numbers.raw(), picture.pixels.data(), picture.pixels.size());
  std::string origin = flags.image;
  if (read.height != format.height || read.width != format.width) {
    origin += fmt::format(", resized from {}x{} to {}x{}", read.height, read.width, format.height,
                          format.width);
  }
  return {.origin = std::move(origin), .numbers = std::move(numbers), .label = std::nullopt};
}

// Nothing where the numbers are no image.
std::string picture_of(const Subject& subject, const keel_examples::ImageFormat& format) {
  if (format.dtype != keel::u8 || format.height < 2) return "";
  const auto pixels = subject.numbers.data<uint8_t>();
  return drawn({.height = format.height,
                .width = format.width,
                .channels = format.channels,
                .pixels = {pixels.begin(), pixels.end()}});
}

void require_finite(const keel::Tensor& logits, const Subject& subject) {
  const auto at = keel::first_non_finite(logits);
  if (!at) return;
  throw keel::Error({.op = "keel predict",
                     .argument = subject.origin,
                     .message = fmt::format("the logit of class {} is {}", *at,
                                            name_of_non_finite(logits.at(*at))),
                     .fix = "look at the weights with keel inspect, and take an older file"});
}

std::string bars(const std::vector<double>& probabilities, const std::vector<size_t>& order,
                 const std::optional<int64_t>& label) {
  constexpr double kWidth = 40;
  std::string text;
  for (size_t i = 0; i < std::min(order.size(), kMostShown); ++i) {
    const size_t c = order[i];
    const auto length = static_cast<size_t>(std::lround(probabilities[c] * kWidth));
    text += fmt::format("{:>5}  {:.4f}  {}{}\n", c, probabilities[c], std::string(length, '#'),
                        label && static_cast<size_t>(*label) == c ? " <- its class" : "");
  }
  return text;
}

int predict(const PredictFlags& flags) {
  const SavedModel saved = saved_weights(flags.predictor.load, flags.predictor.model);
  std::vector<NamedFile> inputs = weight_files(flags.predictor.load, flags.predictor.model, saved);
  inputs.push_back({"--image", flags.image});
  if (flags.index) {
    for (NamedFile& file : data_files(data_of(flags.predictor, saved)))
      inputs.push_back(std::move(file));
  }
  require_distinct({{"--json", flags.json}}, inputs);
  require_writable("--json", flags.json);
  const auto model = saved.model(flags.predictor.model);
  std::optional<ChosenImages> images;
  if (flags.index) images = choose_images(flags.predictor, saved);
  const auto format =
      images ? saved.require_format(model->fitted(format_of(images->set)), images->data)
             : format_for_file(flags, saved, *model);
  Predictor predictor(flags.predictor, saved, model, format);
  // Behind the states, which show whether images of that size are the model's.
  const Subject subject = images ? subject_of_set(flags, *images) : subject_of_file(flags, format);
  const keel::Tensor logits = predictor.logits(subject.numbers);
  require_finite(logits, subject);
  const std::vector<double> probabilities = softmax_of(logits.data<float>());
  std::vector<size_t> order(probabilities.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return probabilities[a] > probabilities[b]; });
  std::cout << predictor.describe() << "\n"
            << keel::printable(subject.origin) << "\n"
            << picture_of(subject, format) << bars(probabilities, order, subject.label);
  if (flags.json.empty()) return kExitDone;
  keel::Json json;
  json["keel_version"] = KEEL_VERSION;
  json["model"] = predictor.model();
  json["load"] = saved.path();
  json["weights"] = predictor.weights();
  json["image"] = subject.origin;
  json["predicted"] = order[0];
  json["probabilities"] = probabilities;
  if (subject.label) json["label"] = *subject.label;
  keel::write_file_atomically(flags.json, keel::write_json(json, 2) + "\n");
  return kExitDone;
}

}  // namespace

int run_predict(const std::vector<std::string>& words) {
  CommandLine line("predict", "what saved weights make of one image: probabilities and a picture");
  declare_predictor_flags(line);
  line.add("index", "N", "image N of --data and --split, from 0");
  line.add("image", "FILE", "a PGM, PPM or PNG file, made as large as the model's images");
  line.add("invert", "", "of --image: dark on bright becomes bright on dark, as MNIST has it");
  line.add("json", "FILE", "the probabilities as one JSON object");
  line.parse(words);
  if (line.wants_help()) {
    std::cout << line.help();
    return kExitDone;
  }
  return predict(read_predict_flags(line));
}

}  // namespace keel_cli
