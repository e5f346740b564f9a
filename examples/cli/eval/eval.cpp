#include <algorithm>
#include <iostream>
#include <utility>

#include <fmt/core.h>
#include <keel/core/base/file.h>
#include <keel/core/base/json.h>
#include <keel/core/base/printable.h>
#include <keel/keel.h>
#include <nlohmann/json.hpp>

#include "cli/base/commands.h"
#include "cli/base/errors.h"
#include "cli/base/output_files.h"
#include "cli/base/run_flags.h"
#include "cli/eval/classification.h"
#include "cli/eval/predictor.h"
#include "cli/model/evaluation.h"

namespace keel_cli {
namespace {

struct EvalFlags {
  PredictorFlags predictor;
  int64_t batch = 500;
  int64_t top_k = kUsualTopK;
  std::string json;
};

EvalFlags read_eval_flags(const CommandLine& line) {
  return {.predictor = read_predictor_flags(line),
          .batch = line.integer("batch", 1, kMostCount).value_or(500),
          .top_k = line.integer("top-k", 1, kMostCount).value_or(kUsualTopK),
          .json = line.text("json").value_or("")};
}

Classification classify(Predictor& predictor, const ChosenImages& images, int64_t classes,
                        const EvalFlags& flags) {
  Classification result(classes, flags.top_k);
  const int64_t batch = std::min(flags.batch, images.count);
  keel::DatasetIterator batches(images.items.batch(batch, keel::Tail::kPad));
  while (const auto fields = batches.next()) {
    const keel::Tensor logits = predictor.logits((*fields)[0]);
    const auto labels = (*fields)[1].data<uint8_t>();
    const auto real = (*fields)[2].data<bool>();
    const auto rows = logits.data<float>();
    for (size_t i = 0; i < labels.size(); ++i) {
      if (!real[i]) continue;
      const auto width = static_cast<size_t>(classes);
      result.add(rows.subspan(i * width, width), labels[i]);
    }
  }
  return result;
}

int evaluate(const EvalFlags& flags) {
  const SavedModel saved = saved_weights(flags.predictor.load, flags.predictor.model);
  std::vector<NamedFile> inputs = data_files(data_of(flags.predictor, saved));
  for (NamedFile& file : weight_files(flags.predictor.load, flags.predictor.model, saved))
    inputs.push_back(std::move(file));
  require_distinct({{"--json", flags.json}}, inputs);
  require_writable("--json", flags.json);
  const auto model = saved.model(flags.predictor.model);
  const ChosenImages images = choose_images(flags.predictor, saved);
  const auto format = saved.require_format(model->fitted(format_of(images.set)), images.data);
  Predictor predictor(flags.predictor, saved, model, format);
  std::cout << predictor.describe() << "\n"
            << fmt::format("data: {}, {} images ({})\n", keel::printable(images.origin),
                           images.count, flags.predictor.split);
  const Classification result = classify(predictor, images, format.classes, flags);
  std::cout << result.text();
  if (result.non_finite() > 0) {
    print_warning(fmt::format(
        "{} of {} images have logits that are NaN or infinite, the first one image {}: they count "
        "as wrong, and not in loss and confusion",
        result.non_finite(), result.images(), result.first_non_finite()));
  }
  if (flags.json.empty()) return kExitDone;
  keel::Json json = result.json();
  json["keel_version"] = KEEL_VERSION;
  json["model"] = predictor.model();
  json["load"] = saved.path();
  json["weights"] = predictor.weights();
  json["data"] = images.origin;
  json["split"] = flags.predictor.split;
  json["backend"] = flags.predictor.backend;
  json["precision"] = predictor.precision();
  keel::write_file_atomically(flags.json, keel::write_json(json, 2) + "\n");
  return kExitDone;
}

}  // namespace

int run_eval(const std::vector<std::string>& words) {
  CommandLine line("eval", "measures saved weights on a set of images: accuracy, loss, confusion");
  declare_predictor_flags(line);
  line.add("batch", "N", "images at a time (500)");
  line.add("top-k", "K", "count a label that is among the K largest logits (5)");
  line.add("json", "FILE", "all of it as one JSON object");
  line.parse(words);
  if (line.wants_help()) {
    std::cout << line.help();
    return kExitDone;
  }
  return evaluate(read_eval_flags(line));
}

}  // namespace keel_cli
