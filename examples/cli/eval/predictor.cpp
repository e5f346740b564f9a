#include "cli/eval/predictor.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include <fmt/core.h>
#include <keel/core/base/printable.h>

#include "cli/base/pass_flags.h"
#include "cli/base/run_flags.h"
#include "cli/model/saved_run.h"
#include "cli/model/table_columns.h"
#include "cli/onnx/model_file.h"

namespace keel_cli {
namespace {

std::string label_of(const PredictorFlags& flags, const SavedModel& saved,
                     const std::string& data) {
  if (flags.label.empty()) return saved.find("label").value_or("");
  if (is_csv(data)) return flags.label;
  throw keel::Error({.op = "--label",
                     .message = "is about a table, and " + saved.path() + " was trained on " + data,
                     .fix = "drop it, or give --data FILE.csv",
                     .kind = keel::ErrorKind::kInvalidArgument});
}

keel::LabelledSplits load_chosen(const PredictorFlags& flags, const SavedModel& saved,
                                 const std::string& data) {
  const std::string label = label_of(flags, saved, data);
  if (flags.data) return load_data(data, label);
  try {
    return load_data(data, label);
  } catch (const keel::Error& error) {
    throw keel::Error(
        {.op = "--load",
         .argument = saved.path(),
         .message = std::string("was trained on data that are not read: ") + error.what(),
         .fix = "say with --data where they are now",
         .kind = error.info().kind});
  }
}

// Whole numbers in a table are bytes to its reader; a model that was trained on floats takes them
// as such.
void take_dtype_of(const SavedModel& saved, const std::string& data, keel::LabelledSplits& splits) {
  const auto own = saved.format();
  if (!own || own->dtype != keel::f32 || !is_csv(data)) return;
  for (keel::LabelledImages* set : {&splits.train, &splits.test}) {
    if (set->images.dtype() != own->dtype) set->images = set->images.cast(own->dtype);
    // A square number of bytes reads as an image.
    if (set->height * set->width * set->channels != own->numbers()) continue;
    set->height = own->height;
    set->width = own->width;
    set->channels = own->channels;
  }
}

// Returns how many of these training images the training kept aside with --validation: 0 if it had
// none, or if these images are another set than the one it was trained on.
int64_t validation_of(const SavedModel& saved, const keel::LabelledImages& train) {
  const auto own = saved.find("validation");
  if (!own || saved.find("data_sha256") != data_sha256(train)) return 0;
  return keel::parse_in_file("--load: " + saved.path(), [&] {
    return keel::parse_integer(*own, "validation", 0, train.count() - 1);
  });
}

keel::Dataset split_of(const std::string& split, const keel::LabelledSplits& data,
                       const SavedModel& saved) {
  const auto train = keel::Dataset::from_images(data.train);
  const auto test = keel::Dataset::from_images(data.test);
  if (split == "test") return test;
  if (split == "all") return train.concatenate(test);
  const int64_t aside = validation_of(saved, data.train);
  if (split == "train") return aside == 0 ? train : train.split(aside).first;
  if (aside == 0) {
    throw keel::Error(
        {.op = "--split",
         .expected = "test, train or all: " + saved.path() +
                     (saved.find("validation") ? " kept images of another training set aside"
                                               : " was trained without --validation"),
         .got = split});
  }
  return train.split(aside).second;
}

void copy_rows(const keel::Tensor& from, int64_t from_row, keel::Tensor& to, int64_t to_row,
               int64_t rows) {
  const size_t row = from.num_bytes() / static_cast<size_t>(from.shape()[0]);
  std::memcpy(static_cast<std::byte*>(to.raw()) + static_cast<size_t>(to_row) * row,
              static_cast<const std::byte*>(from.raw()) + static_cast<size_t>(from_row) * row,
              static_cast<size_t>(rows) * row);
}

}  // namespace

void declare_predictor_flags(CommandLine& line) {
  line.add("load", "FILE", "the states of keel train --save or --save-best");
  line.add("model", model_choices(),
           "what they are of (what the file says); a model's file has weights of its own");
  line.add("data", "digits|DIR|FILE.csv", "as for keel train (what the file says)");
  line.add("label", "COLUMN", "of a table: the column with the classes (what the file says)");
  line.add("split", "test|train|validation|all", "which images; validation: kept aside (test)");
  declare_place_flags(line, "where to compute");
  declare_device_flag(line);
  declare_computing_flags(line);
  declare_pass_flag(line);
}

PredictorFlags read_predictor_flags(const CommandLine& line) {
  PredictorFlags flags;
  flags.model = line.text("model");
  flags.load = line.text("load").value_or("");
  if (flags.load.empty() && !(flags.model && is_model_file(*flags.model))) {
    throw keel::Error({.op = "--load",
                       .message = "is missing: the file with the states",
                       .fix = "keel train --save FILE writes one; --model FILE.onnx has its own",
                       .kind = keel::ErrorKind::kInvalidArgument});
  }
  if (flags.model && !is_model_file(*flags.model)) built_in_model(*flags.model);
  flags.data = line.text("data");
  flags.label = flags.data ? read_label(line, *flags.data) : line.text("label").value_or("");
  flags.split = line.choice("split", {"test", "train", "validation", "all"}).value_or(flags.split);
  flags.backend = read_backend(line);
  flags.device = read_device(line);
  flags.threads = read_threads(line);
  flags.computing = read_computing_flags(line);
  flags.disabled_passes = read_disabled_passes(line);
  return flags;
}

std::string data_of(const PredictorFlags& flags, const SavedModel& saved) {
  if (flags.data) return *flags.data;
  const auto own = saved.find("data");
  if (own || flags.load.empty()) return own.value_or(kDigits);
  throw keel::Error({.op = "--load",
                     .argument = saved.path(),
                     .message = "does not say on which data it was trained",
                     .fix = "add --data digits|DIR|FILE.csv",
                     .kind = keel::ErrorKind::kInvalidArgument});
}

ChosenImages choose_images(const PredictorFlags& flags, const SavedModel& saved) {
  std::string data = data_of(flags, saved);
  keel::LabelledSplits splits = load_chosen(flags, saved, data);
  const std::string label = label_of(flags, saved, data);
  require_own_label(saved.find("label"), saved.path(), data, label);
  arrange_columns(saved, data, label, splits);
  take_dtype_of(saved, data, splits);
  keel::Dataset items = split_of(flags.split, splits, saved);
  const int64_t count = items.size().value();
  keel::LabelledImages& set = flags.split == "test" ? splits.test : splits.train;
  return {.data = std::move(data),
          .origin = std::move(splits.origin),
          .set = std::move(set),
          .items = items,
          .count = count};
}

Predictor::Predictor(const PredictorFlags& flags, const SavedModel& saved,
                     std::shared_ptr<const ChosenModel> model,
                     const keel_examples::ImageFormat& format)
    : model_(std::move(model)), threads_(flags.threads) {
  classifier_ = model_->model.build(graph_, format);
  const keel::Values states = weight_states(graph_);
  saved.require_states(states);
  saved.require_finite("look at it with keel inspect, and take an older file");
  const PrecisionFlags precision = precision_of(flags.computing, saved);
  const keel::Device device = keel::device(flags.device, {});
  precision_ = precision.mode_on(device.backend());
  session_.emplace(graph_, device,
                   keel::SessionOptions{.disabled_passes = flags.disabled_passes,
                                        .precision = precision.value,
                                        .placement = placement_of(flags.computing, saved)});
  saved.warn_of_other_overflow(graph_, session_->device(), precision.value);
  averaged_ = saved.load_all(*session_, states).averaged > 0;
  origin_ = saved.path();
  if (const auto step = saved.find("step")) origin_ += ", step " + *step;
}

keel::Tensor Predictor::logits(const keel::Tensor& images) {
  if (model_->batch) return logits_in_parts(images, *model_->batch);
  return session_->run(classifier_.logits, {{classifier_.image, images}});
}

// The last part is filled up with zeros.
keel::Tensor Predictor::logits_in_parts(const keel::Tensor& images, int64_t batch) {
  const int64_t count = images.shape()[0];
  keel::Tensor result;
  for (int64_t first = 0; first < count; first += batch) {
    const int64_t rows = std::min(batch, count - first);
    keel::Tensor part = keel::Tensor::full(images.dtype(), images.shape().with_dim(0, batch), 0.0);
    copy_rows(images, first, part, 0, rows);
    const keel::Tensor logits = session_->run(classifier_.logits, {{classifier_.image, part}});
    if (first == 0) result = keel::Tensor(logits.dtype(), logits.shape().with_dim(0, count));
    copy_rows(logits, 0, result, first, rows);
  }
  return result;
}

std::string Predictor::describe() const {
  return fmt::format("{} from {}{}, on {} in {}", keel::printable(model_->model.name),
                     keel::printable(origin_), averaged_ ? ", averaged weights" : "",
                     session_->device().name(), precision_);
}

}  // namespace keel_cli
