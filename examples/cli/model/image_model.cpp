#include "cli/model/image_model.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/core.h>

namespace keel_cli {
namespace {

using keel_examples::ImageFormat;

// One of the graph's own next values beside those of what is trained.
struct Statistic {
  keel::Assignment assignment;
  std::vector<bool> under;  // by node id: what the next value is computed of
  bool reads_step = false;
  bool kept = false;
};

// Keeps what a kept statistic reads, such as the count of steps behind its rate, and where that
// reads a step, leaves both out: neither would be what the graph says.
void keep_together(std::vector<Statistic>& statistics) {
  bool changed = true;
  while (changed) {
    changed = false;
    for (Statistic& s : statistics) {
      for (Statistic& other : statistics) {
        if (!s.kept || other.kept || !s.under[other.assignment.state.node_id()]) continue;
        changed = true;
        if (!other.reads_step) {
          other.kept = true;
          continue;
        }
        s.kept = false;
        s.reads_step = true;  // so that nobody keeps it again
      }
    }
  }
}

}  // namespace

ImageModel::ImageModel(std::string path, ModelFile file)
    : path_(std::move(path)), file_(std::move(file)), parts_(model_parts(path_, file_)) {}

std::optional<int64_t> ImageModel::batch() const {
  for (const keel::Value& input : {parts_.image, parts_.label}) {
    if (!input.valid()) continue;
    const keel::Shape& shape = input.shape();
    if (shape.rank() > 0 && shape[0] > 0) return shape[0];
  }
  return std::nullopt;
}

std::optional<ImageModel::Layout> ImageModel::layout_of(const ImageFormat& format) const {
  const keel::Shape& shape = input_type().shape;
  const auto is = [&](std::initializer_list<int64_t> image) {
    if (shape.rank() != image.size() + 1) return false;
    size_t i = 1;
    for (const int64_t dim : image) {
      if (shape[i] >= 0 && shape[i] != dim) return false;
      ++i;
    }
    return true;
  };
  const int64_t h = format.height, w = format.width, c = format.channels;
  if (is({format.numbers()})) return Layout::kNumbers;
  if (is({h, w * c})) return Layout::kRows;
  if (is({c, h, w})) return Layout::kChannelsFirst;
  if (is({h, w, c})) return Layout::kChannelsLast;
  return std::nullopt;
}

std::optional<ImageFormat> ImageModel::usual() const {
  const keel::Shape& shape = input_type().shape;
  ImageFormat format;
  format.classes = parts_.classes;
  for (size_t i = 1; i < shape.rank(); ++i)
    if (shape[i] < 1 || shape[i] > kMostOfADimension) return std::nullopt;
  if (shape.rank() == 4) {
    const bool last = shape[3] == 1 || shape[3] == 3;
    const bool first = shape[1] == 1 || shape[1] == 3;
    if (!first && !last) return std::nullopt;
    format.channels = first ? shape[1] : shape[3];
    format.height = first ? shape[2] : shape[1];
    format.width = first ? shape[3] : shape[2];
  } else if (shape.rank() == 3) {
    format.height = shape[1];
    format.width = shape[2];
  } else if (shape.rank() == 2 && shape[1] != format.numbers()) {
    format.height = 1;
    format.width = shape[1];
  }
  return format;
}

ImageFormat ImageModel::fit(const ImageFormat& format) const {
  const std::string got =
      fmt::format("images of {}x{}x{} {} (height, width, channels)", format.height, format.width,
                  format.channels, keel::name_of(format.dtype));
  if (!layout_of(format)) refuse_model(path_, "its input", keel::to_string(input_type()), got);
  const bool bytes = input_type().dtype == keel::u8;
  if ((bytes && format.dtype != keel::u8) || (!bytes && !keel::is_float(input_type().dtype)))
    refuse_model(path_, "its input", keel::to_string(input_type()), got);
  if (format.classes > parts_.classes) {
    refuse_model(path_, "classes",
                 fmt::format("at most the {} that it tells apart", parts_.classes),
                 std::to_string(format.classes));
  }
  ImageFormat own = format;
  own.classes = parts_.classes;
  return own;
}

keel::Value ImageModel::as_input(const keel::Value& image, const ImageFormat& format) const {
  const keel::DType dtype = input_type().dtype;
  keel::Value x = image;
  if (format.dtype == keel::u8 && dtype != keel::u8) x = cast(x, keel::f32) / 255.0f;
  x = cast(x, dtype);
  const int64_t batch = image.shape()[0];
  switch (*layout_of(format)) {
    case Layout::kNumbers:
      return x;
    case Layout::kRows:
      return reshape(x, {batch, format.height, format.width * format.channels});
    case Layout::kChannelsFirst:
      if (format.channels == 1) return reshape(x, {batch, 1, format.height, format.width});
      return transpose(reshape(x, {batch, format.height, format.width, format.channels}),
                       {0, 3, 1, 2});
    case Layout::kChannelsLast:
      return reshape(x, {batch, format.height, format.width, format.channels});
  }
  return x;
}

keel::Value ImageModel::as_labels(const keel::Value& label) const {
  const keel::Type& wanted = parts_.label.type();
  if (parts_.one_hot) return cast(one_hot(label, parts_.classes), wanted.dtype);
  const keel::Value ids = cast(label, wanted.dtype);
  return wanted.shape.rank() == 1 ? ids : reshape(ids, {label.shape()[0], 1});
}

keel::Update ImageModel::statistics() const {
  const keel::Graph& graph = *file_.graph;
  keel::Update kept;
  if (!parts_.loss.valid()) return kept;
  const keel::Values trained = keel::trainable_states(parts_.loss);
  keel::Values steps;  // the graph's own, which an optimizer of ours replaces
  std::vector<Statistic> statistics;
  for (const keel::Assignment& a : parts_.update.assignments) {
    if (std::find(trained.begin(), trained.end(), a.state) != trained.end())
      steps.push_back(a.next);
    else
      statistics.push_back({a, nodes_under(graph, {a.next})});
  }
  const std::vector<bool> read = nodes_under(graph, {parts_.scores, parts_.loss});
  const std::vector<bool> of_steps = nodes_under(graph, steps);
  for (Statistic& s : statistics) {
    // Averages of weights read a step, and a step reads its optimizer's memory.
    s.reads_step = std::any_of(steps.begin(), steps.end(),
                               [&](const keel::Value& step) { return s.under[step.node_id()]; });
    const size_t state = s.assignment.state.node_id();
    s.kept = read[state] || (!of_steps[state] && !s.reads_step);
  }
  keep_together(statistics);
  for (const Statistic& s : statistics)
    if (s.kept) kept.assignments.push_back(s.assignment);
  return kept;
}

keel_examples::Classifier ImageModel::build(keel::Graph& graph, const ImageFormat& format) const {
  return build(graph, format, statistics(), /*attached=*/true);
}

keel_examples::Classifier ImageModel::build_with_update(keel::Graph& graph,
                                                        const ImageFormat& format) const {
  if (parts_.untrainable) throw keel::Error(*parts_.untrainable);
  return build(graph, format, parts_.update, /*attached=*/false);
}

keel_examples::Classifier ImageModel::build(keel::Graph& graph, const ImageFormat& format,
                                            const keel::Update& update, bool attached) const {
  keel_examples::Classifier model;
  const int64_t batch = this->batch().value_or(-1);
  model.image = graph.input("image", format.dtype, {batch, format.numbers()});
  model.label = graph.input("label", keel::u8, {batch});
  std::vector<std::pair<keel::Value, keel::Value>> inputs = {
      {parts_.image, as_input(model.image, format)}};
  if (parts_.label.valid()) inputs.emplace_back(parts_.label, as_labels(model.label));
  // All at once, so that a loss and its update share what both are computed of.
  keel::Values wanted = {parts_.scores};
  if (parts_.loss.valid()) wanted.push_back(parts_.loss);
  for (const keel::Assignment& a : update.assignments)
    wanted.insert(wanted.end(), {a.state, a.next});
  const keel::Values made = keel::inline_graph(graph, *file_.graph, wanted, inputs);
  auto next = made.begin();
  model.logits = cast(reshape(*next++, {batch, parts_.classes}), keel::f32);
  model.loss = parts_.loss.valid() ? cast(*next++, keel::f32)
                                   : mean(softmax_cross_entropy(model.logits, model.label));
  for (; next != made.end(); next += 2) {
    if (attached)
      graph.attach_update(model.loss, next[0], next[1]);
    else
      model.update.assignments.push_back({next[0], next[1]});
  }
  return model;
}

}  // namespace keel_cli
