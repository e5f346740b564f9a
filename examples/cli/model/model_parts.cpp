#include "cli/model/model_parts.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <keel/core/base/printable.h>

namespace keel_cli {
namespace {

using Named = std::vector<std::pair<std::string, keel::Value>>;

constexpr const char* kBindFix =
    "make the others constants: keel import MODEL --bind NAME=FILE.npy --out model.keel";

std::string list_of(const Named& values) {
  std::string text;
  for (const auto& [name, value] : values)
    text +=
        (text.empty() ? "" : ", ") + keel::printable(name) + " " + keel::to_string(value.type());
  return text.empty() ? "none" : text;
}

// How many classes scores of that type tell apart; 0: they are no scores.
int64_t classes_of(const keel::Type& type) {
  if (!keel::is_float(type.dtype) || type.shape.rank() < 2) return 0;
  for (size_t i = 2; i < type.shape.rank(); ++i)
    if (type.shape[i] != 1) return 0;
  return type.shape[1] > 1 ? type.shape[1] : 0;
}

bool is_loss(const keel::Type& type) {
  return keel::is_float(type.dtype) && type.shape.rank() == 0;
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
keel::Value before_softmax(const keel::Value& scores) {
  keel::Value last = scores;
  while (keeps_order(last.node())) last = last.node().input(0);
  const keel::Node& node = last.node();
  if (node.op_name() != "softmax") return scores;
  const keel::Shape& shape = node.input(0).shape();
  return shape[shape.rank() - 1] == classes_of(scores.type()) ? node.input(0) : scores;
}

// Says whether a trainable state is under the value along floats alone. No gradient flows through
// what compares or counts, such as an accuracy.
bool has_gradient(const keel::Graph& graph, const keel::Value& value) {
  const keel::Values states = keel::trainable_states(value);
  std::vector<bool> under(graph.size(), false);
  under[value.node_id()] = true;
  for (uint32_t id = static_cast<uint32_t>(graph.size()); id-- > 0;) {
    if (!under[id]) continue;
    for (const keel::Value& input : graph.node(id).inputs())
      if (keel::is_float(input.dtype())) under[input.node_id()] = true;
  }
  return std::any_of(states.begin(), states.end(),
                     [&](const keel::Value& state) { return under[state.node_id()]; });
}

class Finding {
 public:
  Finding(const std::string& path, const ModelFile& file) : path_(path), file_(file) {
    parts_.update = {file.graph->updates()};
  }

  ModelParts run() {
    find_loss();
    find_scores();
    find_image();
    find_label();
    return std::move(parts_);
  }

 private:
  // Nodes that assign are among the outputs of a training graph, and give the next values.
  bool is_assigned(const keel::Value& value) const {
    const auto& assignments = parts_.update.assignments;
    return std::any_of(assignments.begin(), assignments.end(), [&](const keel::Assignment& a) {
      return a.next == value || a.state == value;
    });
  }

  // The inputs that some of these values are computed of.
  Named inputs_of(const keel::Values& values) const {
    const std::vector<bool> under = nodes_under(*file_.graph, values);
    Named found;
    for (const auto& input : file_.inputs)
      if (under[input.second.node_id()]) found.push_back(input);
    return found;
  }

  void find_loss() {
    for (const auto& output : file_.outputs)
      if (is_loss(output.second.type()) && !is_assigned(output.second) &&
          !inputs_of({output.second}).empty())
        scalars_.push_back(output);
    for (const auto& output : scalars_)
      if (has_gradient(*file_.graph, output.second)) losses_.push_back(output);
    if (losses_.size() == 1) parts_.loss = losses_[0].second;
  }

  void find_scores() {
    Named fitting;
    keel::Values scores;  // of those, before their softmax
    const auto add = [&](const std::string& name, const keel::Value& value) {
      if (classes_of(value.type()) == 0 || is_assigned(value) || inputs_of({value}).empty()) return;
      fitting.emplace_back(name, value);
      const keel::Value before = before_softmax(value);
      if (std::find(scores.begin(), scores.end(), before) != scores.end()) return;
      scores.push_back(before);
      parts_.classes = classes_of(value.type());
    };
    for (const auto& output : file_.outputs) add(output.first, output.second);
    if (scores.empty() && parts_.loss.valid()) {
      const std::vector<bool> under = nodes_under(*file_.graph, {parts_.loss});
      for (const keel::Node& node : file_.graph->nodes())
        if (under[node.id()] && node.op_name() == "softmax_cross_entropy")
          add("scores of a cross entropy", node.input(0));
    }
    if (scores.size() != 1) {
      refuse_model(path_, "outputs", "one of floats [batch, classes]",
                   list_of(fitting.empty() ? file_.outputs : fitting),
                   fitting.empty() && parts_.update.empty()
                       ? ""
                       : "keep one: keel import MODEL --outputs NAME,... --out model.keel");
    }
    parts_.scores = scores[0];
  }

  void find_image() {
    const Named images = inputs_of({parts_.scores});
    if (images.size() != 1)
      refuse_model(path_, "inputs", "one, which takes the images", list_of(images), kBindFix);
    parts_.image = images[0].second;
  }

  // Labels are what the loss or the update needs and the scores do not.
  void find_label() {
    keel::Values trained;
    for (const auto& scalar : scalars_) trained.push_back(scalar.second);
    for (const keel::Assignment& a : parts_.update.assignments) trained.push_back(a.next);
    Named others;
    for (const auto& input : inputs_of(trained))
      if (input.second != parts_.image) others.push_back(input);
    if (file_.inputs.size() > 1 + others.size())
      refuse_model(path_, "inputs", "one, which takes the images", list_of(file_.inputs), kBindFix);
    try {
      require_labels(others);
    } catch (const keel::Error& error) {
      parts_.loss = {};
      if (losses_.empty() && !scalars_.empty()) parts_.no_loss = error;
      // A graph that only answers, or is trained by an optimizer, needs no loss of its own.
      else if (!others.empty() && parts_.update.empty())
        throw;
      parts_.untrainable = error;
      return;
    }
    parts_.label = others[0].second;
    const keel::Shape& shape = parts_.label.shape();
    parts_.one_hot = shape.rank() == 2 && shape[1] != 1;
  }

  void require_labels(const Named& others) const {
    if (losses_.empty() && !scalars_.empty())
      refuse_model(path_, "outputs", "one that is a single float, the loss of this training graph",
                   list_of(scalars_) + ", through which no gradient reaches a trained state",
                   "keep the loss: keel import MODEL --outputs LOSS,SCORES,TRAIN --out model.keel");
    if (losses_.size() != 1) {
      refuse_model(path_, "outputs", "one that is a single float, the loss of this training graph",
                   list_of(losses_.empty() ? file_.outputs : losses_),
                   "keep it: keel import MODEL --outputs LOSS,SCORES,TRAIN --out model.keel");
    }
    if (others.size() == 1 && fits_labels(others[0].second.type())) return;
    Named all = others;
    all.insert(all.begin(), {keel::name_of(parts_.image.node()), parts_.image});
    refuse_model(path_, "inputs",
                 fmt::format("one with the images and, for the loss, one with the labels: class "
                             "ids [batch], or [batch, {}] with 1 for the class",
                             parts_.classes),
                 list_of(all), kBindFix);
  }

  bool fits_labels(const keel::Type& type) const {
    const keel::Shape& shape = type.shape;
    if (shape.rank() == 0 || shape.rank() > 2) return false;
    const keel::Shape& images = parts_.image.shape();
    if (images.rank() > 0 && images[0] > 0 && shape[0] > 0 && images[0] != shape[0]) return false;
    return shape.rank() == 1 || shape[1] < 0 || shape[1] == 1 || shape[1] == parts_.classes;
  }

  const std::string& path_;
  const ModelFile& file_;
  ModelParts parts_;
  Named scalars_;  // outputs of one float
  Named losses_;   // those that train a state
};

}  // namespace

std::vector<bool> nodes_under(const keel::Graph& graph, const keel::Values& values) {
  std::vector<bool> under(graph.size(), false);
  for (const keel::Value& value : values) under[value.node_id()] = true;
  for (uint32_t id = static_cast<uint32_t>(graph.size()); id-- > 0;) {
    if (!under[id]) continue;
    for (const keel::Value& input : graph.node(id).inputs()) under[input.node_id()] = true;
  }
  return under;
}

void refuse_model(const std::string& path, const std::string& argument, const std::string& expected,
                  const std::string& got, const std::string& fix) {
  throw keel::Error({.op = "--model " + path,
                     .argument = argument,
                     .expected = expected,
                     .got = got,
                     .fix = fix});
}

ModelParts model_parts(const std::string& path, const ModelFile& file) {
  return Finding(path, file).run();
}

}  // namespace keel_cli
