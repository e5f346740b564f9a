#include "cli/model/image_model.h"

#include <utility>

#include <fmt/core.h>
#include <keel/core/base/printable.h>

namespace keel_cli {
namespace {

using keel_examples::ImageFormat;

std::string list_of(const std::vector<std::pair<std::string, keel::Value>>& values) {
  std::string text;
  for (const auto& [name, value] : values)
    text +=
        (text.empty() ? "" : ", ") + keel::printable(name) + " " + keel::to_string(value.type());
  return text.empty() ? "none" : text;
}

[[noreturn]] void refuse(const std::string& path, const std::string& argument,
                         const std::string& expected, const std::string& got,
                         const std::string& fix = "") {
  throw keel::Error({.op = "--model " + path,
                     .argument = argument,
                     .expected = expected,
                     .got = got,
                     .fix = fix});
}

// How many classes scores of that type tell apart; 0: they are no scores.
int64_t classes_of(const keel::Type& type) {
  if (!keel::is_float(type.dtype) || type.shape.rank() < 2) return 0;
  for (size_t i = 2; i < type.shape.rank(); ++i)
    if (type.shape[i] != 1) return 0;
  return type.shape[1] > 1 ? type.shape[1] : 0;
}

// Says whether a node leaves the scores of an image in their order: the import has such nodes
// around a softmax.
bool keeps_order(const keel::Node& node) {
  if (node.op_name() == "reshape" || node.op_name() == "cast") return true;
  if (node.op_name() != "transpose") return false;
  const auto& perm = node.as<keel::TransposeAttributes>().perm;
  const keel::Shape& shape = node.input(0).shape();
  int64_t last = -1;
  for (const int64_t axis : perm) {
    if (shape[static_cast<size_t>(axis)] == 1) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

// The values that a softmax at the end was made of; else the scores themselves.
keel::Value before_softmax(const keel::Value& scores, int64_t classes) {
  keel::Value last = scores;
  while (keeps_order(last.node())) last = last.node().input(0);
  const keel::Node& node = last.node();
  if (node.op_name() != "softmax") return scores;
  const keel::Shape& shape = node.input(0).shape();
  return shape[shape.rank() - 1] == classes ? node.input(0) : scores;
}

// Far beyond any image, and far from where products of three of them overflow.
constexpr int64_t kMostOfADimension = int64_t{1} << 20;

}  // namespace

ImageModel::ImageModel(std::string path, ModelFile file)
    : path_(std::move(path)), file_(std::move(file)) {
  if (file_.inputs.size() != 1) {
    refuse(
        path_, "inputs", "one, which takes the images", list_of(file_.inputs),
        "make the others constants: keel import MODEL.onnx --bind NAME=FILE.npy --out model.keel");
  }
  input_ = file_.inputs[0].second;
  std::vector<std::pair<std::string, keel::Value>> fitting;
  for (const auto& output : file_.outputs)
    if (classes_of(output.second.type()) != 0) fitting.push_back(output);
  if (fitting.size() != 1) {
    refuse(path_, "outputs", "one of floats [batch, classes]",
           list_of(fitting.empty() ? file_.outputs : fitting),
           fitting.empty() ? "" : "keep one: keel import MODEL --outputs NAME --out model.keel");
  }
  classes_ = classes_of(fitting[0].second.type());
  scores_ = before_softmax(fitting[0].second, classes_);
}

std::optional<int64_t> ImageModel::batch() const {
  const keel::Shape& shape = input_type().shape;
  if (shape.rank() == 0 || shape[0] < 1) return std::nullopt;
  return shape[0];
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
  format.classes = classes_;
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
  if (!layout_of(format)) refuse(path_, "its input", keel::to_string(input_type()), got);
  const bool bytes = input_type().dtype == keel::u8;
  if ((bytes && format.dtype != keel::u8) || (!bytes && !keel::is_float(input_type().dtype)))
    refuse(path_, "its input", keel::to_string(input_type()), got);
  if (format.classes > classes_) {
    refuse(path_, "classes", fmt::format("at most the {} that it tells apart", classes_),
           std::to_string(format.classes));
  }
  ImageFormat own = format;
  own.classes = classes_;
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

keel_examples::Classifier ImageModel::build(keel::Graph& graph, const ImageFormat& format) const {
  keel_examples::Classifier model;
  const int64_t batch = this->batch().value_or(-1);
  model.image = graph.input("image", format.dtype, {batch, format.numbers()});
  model.label = graph.input("label", keel::u8, {batch});
  const keel::Values scores =
      keel::inline_graph(graph, *file_.graph, {scores_}, {{input_, as_input(model.image, format)}});
  model.logits = cast(reshape(scores[0], {batch, classes_}), keel::f32);
  model.loss = mean(softmax_cross_entropy(model.logits, model.label));
  return model;
}

}  // namespace keel_cli
