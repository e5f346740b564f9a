#include "cli/onnx/model_file.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <system_error>

#include <fmt/core.h>
#include <keel/core/base/environment.h>
#include <keel/core/base/file.h>
#include <keel/core/base/printable.h>
#include <keel/core/base/sha256.h>
#include <keel/core/tensor/npy.h>
#include <keel/graph/ir/label.h>
#include <keel/ops/exchange/graphdef/file/read_graph_def.h>
#include <keel/ops/exchange/graphdef/import.h>
#include <keel/ops/exchange/onnx/import.h>

#include "cli/base/text_list.h"

namespace keel_cli {
namespace {

// In the metadata of the weights.
constexpr const char* kGraph = "graph_sha256";
constexpr const char* kOutputs = "output_names";  // a JSON list of texts

// The names that the outputs had in the imported file, or none.
std::vector<std::string> noted_outputs(const keel::Safetensors& weights, const std::string& path) {
  const auto entry = weights.metadata.find(kOutputs);
  if (entry == weights.metadata.end()) return {};
  return read_text_list(entry->second, path + ": " + kOutputs);
}

}  // namespace

std::string weights_path(const std::string& path) { return path + ".safetensors"; }

keel::Values weight_states(const keel::Graph& graph) {
  keel::Values states;
  for (const keel::Value& state : graph.states())
    if (!keel::name_of(state.node()).starts_with("keel/")) states.push_back(state);
  return states;
}

std::map<std::string, keel::Tensor> named_tensors(const std::string& flag,
                                                  const std::vector<std::string>& given) {
  std::map<std::string, keel::Tensor> tensors;
  for (const std::string& text : given) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
      throw keel::Error({.op = flag,
                         .expected = "NAME=FILE.npy",
                         .got = text,
                         .kind = keel::ErrorKind::kInvalidArgument});
    }
    const std::string name = text.substr(0, equals);
    if (!tensors.emplace(name, keel::read_npy(text.substr(equals + 1))).second) {
      throw keel::Error({.op = flag,
                         .message = "gives '" + name + "' twice",
                         .kind = keel::ErrorKind::kInvalidArgument});
    }
  }
  return tensors;
}

std::vector<NamedFile> named_files(const std::string& flag, const std::vector<std::string>& given) {
  std::vector<NamedFile> files;
  for (const std::string& text : given) files.push_back({flag, text.substr(text.find('=') + 1)});
  return files;
}

std::vector<NamedFile> files_of_model(const std::string& flag, const std::string& path) {
  std::vector<NamedFile> files = {{flag, path}};
  if (path.ends_with(".onnx")) {
    for (std::string& file : keel::onnx::external_files(keel::onnx::read_model(path)))
      files.push_back({flag, std::move(file)});
  } else if (path.ends_with(".keel")) {
    files.push_back({flag, weights_path(path)});
  }
  return files;
}

void write_model_file(const std::string& path, const keel::Graph& graph,
                      const std::map<std::string, keel::Tensor>& weights,
                      const std::vector<std::string>& outputs) {
  const std::string text = keel::print_graph(graph) + "\n";
  std::map<std::string, std::string> metadata = {{"keel_version", KEEL_VERSION},
                                                 {kGraph, keel::sha256_hex(text)}};
  const bool are_text = std::all_of(outputs.begin(), outputs.end(), [](const std::string& name) {
    return keel::printable(name) == name;  // as saved files hold it
  });
  if (are_text) metadata[kOutputs] = write_text_list(outputs);
  // Both files are whole and on the disk before the first takes its place: weights beside the graph
  // of an older model are of no use.
  keel::AtomicFile graph_file(path);
  graph_file.write(text);
  graph_file.commit([&] { keel::write_safetensors(weights_path(path), weights, metadata); });
}

ModelFile read_model_file(const std::string& path,
                          const std::map<std::string, keel::Tensor>& bind) {
  ModelFile model;
  const bool graph_def = keel::graphdef::is_graph_def_path(path);
  if (graph_def || path.ends_with(".onnx")) {
    keel::onnx::ImportedModel imported =
        graph_def ? keel::graphdef::load(path, {.bind = bind, .weights_in_graph = false})
                  : keel::onnx::load(path, {.bind = bind, .weights_in_graph = false});
    model.graph = std::move(imported.graph);
    model.inputs = std::move(imported.inputs);
    model.outputs = std::move(imported.outputs);
    model.weights = std::move(imported.weights);
    return model;
  }
  if (!bind.empty()) {
    throw keel::Error(
        {.op = "--bind",
         .message = "goes with a file of another format; " + path + " is imported already",
         .fix = "bind where you import: keel import --bind NAME=FILE.npy",
         .kind = keel::ErrorKind::kInvalidArgument});
  }
  constexpr uint64_t kMostBytes = std::numeric_limits<int32_t>::max();
  std::error_code unknown;
  const bool has_weights = std::filesystem::exists(weights_path(path), unknown);
  keel::Safetensors weights;
  if (has_weights) weights = keel::read_safetensors(weights_path(path));
  const std::string text = keel::read_file(path, kMostBytes);
  // The two appear one after the other: a crash in between leaves weights of another graph.
  const auto graph = weights.metadata.find(kGraph);
  if (graph != weights.metadata.end() && graph->second != keel::sha256_hex(text)) {
    throw keel::Error({.op = path,
                       .message = weights_path(path) + " was written with another graph",
                       .fix = "import the model again"});
  }
  model.weights = std::move(weights.tensors);
  int64_t bytes = 0;
  for (const auto& entry : model.weights) bytes += static_cast<int64_t>(entry.second.num_bytes());
  // The graph's own states, such as its random key, are not among the weights.
  constexpr int64_t kReservedStates = 64;
  model.graph = keel::parse_in_file(path, [&] {
    return keel::parse_graph(text, keel::builtin_ops(),
                             {.max_state_bytes = has_weights ? bytes + kReservedStates : 0});
  });
  // Only a frozen graph needs none: throws the error of the missing file.
  if (!has_weights && !weight_states(*model.graph).empty())
    keel::read_safetensors(weights_path(path));
  for (const keel::Value& input : model.graph->inputs())
    model.inputs.emplace_back(keel::name_of(input.node()), input);
  const std::vector<std::string> noted = noted_outputs(weights, weights_path(path));
  for (size_t i = 0; i < model.graph->outputs().size(); ++i) {
    const keel::Value output = model.graph->outputs()[i];
    std::string name = output.node().label().name;
    if (noted.size() == model.graph->outputs().size()) name = noted[i];
    model.outputs.emplace_back(name.empty() ? fmt::format("output_{}", i) : name, output);
  }
  return model;
}

}  // namespace keel_cli
