// A model as a file that `keel import` wrote: its graph as text, and beside it, under the same name
// with .safetensors behind it, the values of its states; of `keel freeze` the text alone. `keel
// run` reads either of these, an .onnx file or a TensorFlow graph that is frozen. Plain value.
#ifndef KEEL_EXAMPLES_CLI_ONNX_MODEL_FILE_H
#define KEEL_EXAMPLES_CLI_ONNX_MODEL_FILE_H

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <keel/keel.h>

#include "cli/base/output_files.h"

namespace keel_cli {

struct ModelFile {
  std::unique_ptr<keel::Graph> graph;
  std::vector<std::pair<std::string, keel::Value>> inputs, outputs;
  std::map<std::string, keel::Tensor> weights;  // of all states but the graph's own, by name
};

// "model.keel.safetensors".
std::string weights_path(const std::string& path);
// The states that a model's weights are about: all but the graph's own, such as its random key.
keel::Values weight_states(const keel::Graph& graph);

// The value of each "NAME=FILE.npy" by its name. Throws keel::Error naming the flag.
std::map<std::string, keel::Tensor> named_tensors(const std::string& flag,
                                                  const std::vector<std::string>& given);

// The files of those, for require_distinct.
std::vector<NamedFile> named_files(const std::string& flag, const std::vector<std::string>& given);
// The files that a model is read from: an .onnx one with those that hold its data, a .keel one with
// its weights, or a TensorFlow graph.
std::vector<NamedFile> files_of_model(const std::string& flag, const std::string& path);

// Writes what read_model_file reads: the graph, and its weights beside it, which note what the
// outputs are called: a graph's text cannot hold every name. Throws keel::Error.
void write_model_file(const std::string& path, const keel::Graph& graph,
                      const std::map<std::string, keel::Tensor>& weights,
                      const std::vector<std::string>& outputs);
// Throws keel::Error for a file that cannot be read or imported, for weights that were written with
// another graph, and where `bind` is given for a
// .keel file.
ModelFile read_model_file(const std::string& path, const std::map<std::string, keel::Tensor>& bind);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_ONNX_MODEL_FILE_H
