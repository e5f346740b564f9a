// ModelParts: what the inputs, outputs and updates of a model out of a file are for, where it
// classifies images. A training graph has labels as a second input, a loss and an update of its own
// beside the scores; its inputs are told apart by what is computed of them, never by their names.
// Plain value; its values are those of the file's graph.
#ifndef KEEL_EXAMPLES_CLI_MODEL_MODEL_PARTS_H
#define KEEL_EXAMPLES_CLI_MODEL_MODEL_PARTS_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <keel/keel.h>

#include "cli/onnx/model_file.h"

namespace keel_cli {

struct ModelParts {
  keel::Value image;   // what the scores are computed of
  keel::Value scores;  // [batch, classes], perhaps with dimensions of 1 behind; before a softmax
  int64_t classes = 0;
  keel::Value label;  // what the loss needs beside the images; invalid: the model takes none
  bool one_hot = false;
  keel::Value loss;     // a scalar; invalid: it has none that needs labels
  keel::Update update;  // its own next values of its states
  // Says why the update cannot be what trains it, where that is so.
  std::optional<keel::Error> untrainable;
  // Says that its outputs of one float are no losses, where it has such and no other.
  std::optional<keel::Error> no_loss;
};

// Throws keel::Error naming `path` where there is not one output [batch, classes] of floats, or not
// one input that it is computed of; and for a graph without an update where other inputs are no
// labels of one loss.
ModelParts model_parts(const std::string& path, const ModelFile& file);

// By node id: what any of these values depends on.
std::vector<bool> nodes_under(const keel::Graph& graph, const keel::Values& values);

// Throws keel::Error that begins with "--model PATH".
[[noreturn]] void refuse_model(const std::string& path, const std::string& argument,
                               const std::string& expected, const std::string& got,
                               const std::string& fix = "");

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_MODEL_MODEL_PARTS_H
