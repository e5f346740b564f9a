#include "cli/train/judging_flags.h"

#include <vector>

#include "cli/base/flag_errors.h"

namespace keel_cli {
namespace {

// By --metric or the value of --keep-best.
std::optional<std::string> read_metric(const CommandLine& line) {
  const std::vector<std::string> metrics = {"accuracy", "top-k", "loss"};
  auto metric = line.choice("metric", metrics);
  const std::string best = line.text("keep-best").value_or("");
  if (best.empty()) return metric;
  keel::parse_choice(best, "--keep-best", metrics);
  if (metric && *metric != best)
    refuse_flag("--keep-best", "is by " + best + ", and --metric is " + *metric,
                "give one of the two");
  return best;
}

// A model of the data themselves has one measure, its loss.
void refuse_labels(const CommandLine& line, const JudgingFlags& flags, const TaskKind& task) {
  const std::string message = "is about classes, and " + task.name + " has none";
  if (line.has("top-k")) refuse_flag("--top-k", message, "drop it");
  if (flags.metric != "loss") refuse_flag("--metric", flags.metric + " " + message, "use loss");
}

}  // namespace

double JudgingFlags::of(const Scores& scores) const {
  if (metric == "loss") return scores.loss;
  return metric == "top-k" ? scores.top_k : scores.accuracy;
}

void declare_judging_flags(CommandLine& line) {
  line.add("validation", "N", "keep the last N training items aside to judge by (0: the test set)");
  line.add("eval-every", "N", "judge after every N steps (at the end of each epoch)");
  line.add("metric", "accuracy|top-k|loss", "judge by this (accuracy; vae and charlm: loss)");
  line.add("top-k", "K", "count a label that is among the K largest logits (5)");
  line.add("patience", "N", "stop when N judgements in a row were not the best");
  line.add("min-gain", "D", "the best has to be better by more than D (0)");
  line.add("stop-at", "VALUE", "stop when the metric is that good");
  line.add("save-best", "FILE", "all states each time they are the best, like --save");
  line.add("keep-best", "[METRIC]",
           "end with the best states, by METRIC or --metric: what --save writes and the test "
           "measures; with --checkpoint their file stays");
}

JudgingFlags read_judging_flags(const CommandLine& line, const TaskKind& task) {
  JudgingFlags flags;
  flags.validation = line.integer("validation", 0, kMostCount).value_or(0);
  flags.every_n_steps = line.integer("eval-every", 1, kMostCount).value_or(0);
  flags.keep_best = line.has("keep-best");
  flags.metric = read_metric(line).value_or(task.labelled ? "accuracy" : "loss");
  if (!task.labelled) refuse_labels(line, flags, task);
  flags.top_k = line.integer("top-k", 1, kMostCount).value_or(flags.top_k);
  flags.patience = line.integer("patience", 1, kMostCount).value_or(0);
  flags.min_gain = line.number("min-gain", 0, 1e300).value_or(0);
  const bool share = flags.larger_is_better();
  flags.target = line.number("stop-at", 0, share ? 1 : 1e300);
  flags.save_best = line.text("save-best").value_or("");
  const bool keeps_best = flags.keep_best || !flags.save_best.empty();
  // --stop-at goes by the value alone.
  if (line.has("min-gain") && flags.patience == 0 && !keeps_best)
    refuse_flag("--min-gain", "nothing goes by what is best",
                "add --patience, --save-best or --keep-best");
  if (line.has("metric") && !flags.decides()) {
    refuse_flag("--metric", "nothing goes by it",
                "add --patience, --stop-at, --save-best or --keep-best");
  }
  return flags;
}

}  // namespace keel_cli
