#include <filesystem>
#include <iostream>
#include <utility>

#include <fmt/core.h>
#include <keel/core/base/file.h>
#include <keel/core/base/printable.h>
#include <keel/keel.h>
#include <keel/ops/exchange/onnx/export.h>

#include "cli/base/commands.h"
#include "cli/model/inference_model.h"
#include "cli/onnx/model_file.h"

namespace keel_cli {
namespace {

constexpr const char* kOutput = "logits";

void require_graph_ending(const std::string& out) {
  if (out.ends_with(".keel") || out.ends_with(".onnx")) return;
  throw keel::Error({.op = "--out",
                     .expected = "FILE.keel or FILE.onnx",
                     .got = out,
                     .kind = keel::ErrorKind::kInvalidArgument});
}

// A frozen graph has its weights in itself: those beside it would be taken for them.
void require_no_weights_beside(const std::string& out) {
  const std::string weights = weights_path(out);
  std::error_code unknown;
  if (!out.ends_with(".keel") || !std::filesystem::exists(weights, unknown)) return;
  throw keel::Error(
      {.op = "--out",
       .argument = out,
       .message = "has weights beside it, " + weights + ", and a frozen graph has its own",
       .fix = "remove them, or choose another name"});
}

// The same graph for one size of the batch.
std::unique_ptr<keel::Graph> with_batch(const keel::Graph& frozen, int64_t batch) {
  auto fixed = std::make_unique<keel::Graph>();
  std::vector<std::pair<keel::Value, keel::Value>> inputs;
  for (const keel::Value& input : frozen.inputs()) {
    const keel::Type& type = input.type();
    inputs.emplace_back(input, fixed->input(keel::name_of(input.node()), type.dtype,
                                            type.shape.with_dim(0, batch)));
  }
  fixed->set_outputs(keel::inline_graph(*fixed, frozen, frozen.outputs(), inputs));
  return fixed;
}

int64_t count_constants(const keel::Graph& frozen) {
  int64_t count = 0;
  for (const keel::Node& node : frozen.nodes())
    count += keel::is_marked(node, keel::kFoldAttribute, keel::kExactFold) ? 1 : 0;
  return count;
}

int freeze_model(const InferenceFlags& flags) {
  require_graph_ending(flags.out);
  keel::require_one_rank(keel::read_job_environment());
  const SavedModel saved = saved_weights(flags.load, flags.model);
  require_distinct({{"--out", flags.out}}, weight_files(flags.load, flags.model, saved));
  require_no_weights_beside(flags.out);
  require_writable("--out", flags.out);
  const InferenceModel model = inference_model(flags, saved, "keel freeze");
  std::unique_ptr<keel::Graph> frozen;
  try {
    frozen = keel::freeze(*model.graph, model.weights, {{kOutput, model.classifier.logits}});
  } catch (const keel::Error& error) {
    throw error.with_context(saved.path());
  }
  if (flags.batch > 0) frozen = with_batch(*frozen, flags.batch);
  if (flags.out.ends_with(".onnx")) {
    keel::onnx::save(*frozen, {}, frozen->outputs(), flags.out,
                     {.names = {kOutput}, .metadata = {{"model", keel::printable(model.name)}}});
  } else {
    keel::write_file_atomically(flags.out, keel::print_graph(*frozen) + "\n");
  }
  for (const keel::Value& input : frozen->inputs())
    std::cout << "input " << keel::printable(keel::name_of(input.node())) << " "
              << keel::to_string(input.type()) << "\n";
  std::cout << fmt::format("output {} {}\nwrote {}: {}, {} weights as constants\n", kOutput,
                           keel::to_string(frozen->outputs()[0].type()), keel::printable(flags.out),
                           keel::printable(model.name), count_constants(*frozen));
  return kExitDone;
}

}  // namespace

int run_freeze(const std::vector<std::string>& words) {
  CommandLine line("freeze", "makes one graph of a model and its weights, which only answers");
  declare_inference_flags(line, "FILE.keel or FILE.onnx: the frozen graph");
  line.parse(words);
  if (line.wants_help()) {
    std::cout << line.help();
    return kExitDone;
  }
  return freeze_model(read_inference_flags(line, "frozen.keel", /*needs_load=*/false));
}

}  // namespace keel_cli
