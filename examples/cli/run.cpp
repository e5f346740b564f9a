#include <algorithm>
#include <filesystem>
#include <iostream>
#include <set>
#include <system_error>

#include <fmt/core.h>
#include <keel/core/base/file.h>
#include <keel/core/base/printable.h>
#include <keel/core/tensor/npy.h>
#include <keel/keel.h>

#include "cli/base/command_line.h"
#include "cli/base/commands.h"
#include "cli/base/run_flags.h"
#include "cli/onnx/model_file.h"

namespace keel_cli {
namespace {

// The file of an output: its name, with what no file name can hold replaced.
std::string file_name(const std::string& output) {
  std::string name = keel::printable(output, 200);
  for (char& c : name)
    if (c == '/' || c == '\\') c = '_';
  return (name.starts_with('.') ? "_" + name : name) + ".npy";
}

// NumPy has no bf16, and f32 holds each of its values.
keel::Tensor in_npy(const keel::Tensor& tensor) {
  return tensor.dtype() == keel::bf16 ? tensor.cast(keel::f32) : tensor;
}

keel::Feeds feeds_of(const ModelFile& model, const std::map<std::string, keel::Tensor>& inputs) {
  std::string known;
  for (const auto& input : model.inputs) known += (known.empty() ? "" : ", ") + input.first;
  for (const auto& given : inputs) {
    const bool found = std::any_of(model.inputs.begin(), model.inputs.end(),
                                   [&](const auto& input) { return input.first == given.first; });
    if (found) continue;
    throw keel::Error({.op = "--input",
                       .expected = known.empty() ? "no inputs" : "one of: " + known,
                       .got = given.first,
                       .fix = model.weights.count(given.first) == 0
                                  ? ""
                                  : "the model has a value for it; --bind " + given.first +
                                        "=FILE.npy replaces one that an .onnx file lists as an "
                                        "input, too",
                       .kind = keel::ErrorKind::kInvalidArgument});
  }
  keel::Feeds feeds;
  for (const auto& [name, input] : model.inputs) {
    const auto given = inputs.find(name);
    if (given == inputs.end()) {
      throw keel::Error({.op = "keel run",
                         .message = "the model's input '" + name + "', " +
                                    keel::to_string(input.type()) + ", is not given",
                         .fix = "--input " + name + "=FILE.npy",
                         .kind = keel::ErrorKind::kInvalidArgument});
    }
    const keel::Type& wanted = input.type();
    const keel::Type got = given->second.type();
    const bool rounds = wanted.dtype == keel::bf16 && got.dtype == keel::f32;
    if ((wanted.dtype != got.dtype && !rounds) || !keel::matches(wanted.shape, got.shape)) {
      throw keel::Error({.op = "--input",
                         .argument = name,
                         .expected = keel::to_string(wanted),
                         .got = keel::to_string(got)});
    }
    feeds.emplace_back(input, rounds ? given->second.cast(keel::bf16) : given->second);
  }
  return feeds;
}

}  // namespace

int run_run(const std::vector<std::string>& words) {
  CommandLine line(
      "run", "MODEL: runs an .onnx or a .pb file, or what `keel import` made of one, on arrays");
  line.add_repeated("input", "NAME=FILE.npy", "the value of an input");
  line.add_repeated("bind", "NAME=FILE.npy", "makes an input of an .onnx file a constant");
  line.add("output-dir", "DIR", "where each output goes, as <name>.npy (.)");
  declare_backend_flag(line, "where to run");
  declare_device_flag(line);
  declare_placement_flag(line);
  line.add_subject("model", "keel run model.onnx --input x=x.npy");
  line.parse(words);
  if (line.wants_help()) {
    std::cout << line.help();
    return kExitDone;
  }
  const std::filesystem::path folder = line.text("output-dir").value_or(".");
  if (std::error_code unknown;
      std::filesystem::exists(folder, unknown) && !std::filesystem::is_directory(folder, unknown)) {
    throw keel::Error({.op = "--output-dir",
                       .expected = "a folder",
                       .got = folder.string() + ", which is none",
                       .kind = keel::ErrorKind::kInvalidArgument});
  }
  const auto inputs = named_tensors("--input", line.texts("input"));
  ModelFile model = read_model_file(line.subject(), named_tensors("--bind", line.texts("bind")));
  const keel::Feeds feeds = feeds_of(model, inputs);
  std::set<std::string> files;
  keel::Values fetches;
  for (const auto& output : model.outputs) {
    fetches.push_back(output.second);
    if (!files.insert(file_name(output.first)).second) {
      throw keel::Error({.op = "keel run",
                         .message = "two outputs would be written to " + file_name(output.first)});
    }
  }
  std::vector<NamedFile> read = files_of_model("keel run", line.subject()), written;
  for (const char* flag : {"input", "bind"}) {
    for (NamedFile& file : named_files(std::string("--") + flag, line.texts(flag)))
      read.push_back(std::move(file));
  }
  for (const std::string& file : files)
    written.push_back({"--output-dir", (folder / file).string()});
  require_distinct(written, read);
  keel::Session session(*model.graph, keel::device(read_device(line), {}),
                        {.placement = read_placement(line)});
  if (!model.weights.empty()) {
    const keel::WeightsMatch match =
        keel::load_weights(session, weight_states(*model.graph), model.weights);
    if (!match.complete())
      throw keel::Error({.op = weights_path(line.subject()), .message = keel::describe(match)});
  }
  keel::make_folder(folder.string());
  const std::vector<keel::Tensor> results = session.run(fetches, feeds);
  for (size_t i = 0; i < results.size(); ++i) {
    const auto path = (folder / file_name(model.outputs[i].first)).string();
    const keel::Tensor array = in_npy(results[i]);
    keel::write_npy(path, array);
    std::cout << keel::printable(path) << " " << keel::to_string(array.type()) << "\n";
  }
  return kExitDone;
}

}  // namespace keel_cli
