#include <iostream>

#include <keel/keel.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/train_options.h"

namespace keel_cli {

int run_graph(const std::vector<std::string>& words) {
  CommandLine line("graph", "prints a model's training step as text");
  line.add("model", "softmax|mlp", "which model (softmax)");
  line.add("optimizer", "sgd|momentum|adam|adamw", "whose update to show (sgd)");
  line.add("dot", "", "for Graphviz: keel graph --dot | dot -Tsvg");
  line.add("compiled", "", "the task list that a backend makes of it, the loop around it included");
  line.add("backend", "ref|cpu|npu", "for --compiled (npu)");
  line.add("batch", "N", "for --compiled (100)");
  declare_precision_flag(line);
  line.parse(words);
  if (line.wants_help()) {
    std::cout << line.help();
    return kExitDone;
  }
  const auto& model = keel_examples::find_model(line.text("model").value_or("softmax"));
  const std::string optimizer =
      line.choice("optimizer", {"sgd", "momentum", "adam", "adamw"}).value_or("sgd");
  const std::string backend = line.choice("backend", keel::backend_names()).value_or("npu");
  const int64_t batch = line.integer("batch", 1, int64_t{1} << 32).value_or(100);

  const std::string precision = read_precision(line);
  if (line.has("precision") && !line.has("compiled")) {
    throw keel::Error({.op = "--precision",
                       .message = "is decided when the step is compiled",
                       .fix = "add --compiled",
                       .kind = keel::ErrorKind::kInvalidArgument});
  }

  keel::Graph graph;
  const auto classifier = model.build(graph);
  const keel::Update update = make_optimizer(optimizer, model.sgd_rate).minimize(classifier.loss);
  if (line.has("compiled")) {
    keel::Session session(graph, keel::device(backend + ":0"), {.precision = precision});
    keel::ElementSpec element{
        {{"image", {keel::u8, {batch, 784}}}, {"label", {keel::u8, {batch}}}}};
    const auto queue =
        std::make_shared<keel::DeviceQueue>(session.device(), std::move(element),
                                            keel::DeviceQueueOptions{.name = "train", .depth = 1});
    const keel::Loop loop = session.sink(update, {classifier.loss}, queue);
    std::cout << loop.describe();
    std::cout << "loop: " << keel::name_of(loop.kind());
    if (!loop.placement().reason.empty()) std::cout << " (" << loop.placement().reason << ")";
    std::cout << "\ninserted:";
    for (const keel::InsertedOp& op : loop.compile_report().inserted_ops)
      std::cout << " " << op.type << " " << op.name << ";";
    std::cout << "\n";
    std::cout << "not fused:\n";
    for (const std::string& reason : loop.compile_report().not_fused)
      std::cout << "  " << reason << "\n";
    if (precision == keel::kDefaultPrecision) return kExitDone;
    std::cout << "precision: " << precision << "\n";
    for (const auto& decision : loop.compile_report().precision.decisions)
      std::cout << "  " << keel::to_string(decision) << "\n";
    return kExitDone;
  }
  graph.prepare_loop(update, {classifier.loss});
  std::cout << (line.has("dot") ? keel::to_dot(graph) : keel::print_graph(graph)) << "\n";
  return kExitDone;
}

}  // namespace keel_cli
