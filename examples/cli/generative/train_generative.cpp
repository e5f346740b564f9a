#include <algorithm>
#include <csignal>
#include <iostream>
#include <optional>

#include <fmt/core.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/generative/generative.h"
#include "cli/output_files.h"
#include "cli/run_flags.h"
#include "cli/train/metrics_file.h"
#include "cli/train/notices.h"
#include "cli/train/progress.h"
#include "cli/train/stop_signals.h"
#include "cli/train/training_update.h"

namespace keel_cli {
namespace {

constexpr int64_t kMost = int64_t{1} << 40;
constexpr double kMostRate = 1e6;

CommandLine declared() {
  CommandLine line("train --model vae|charlm",
                   "trains a model of the data themselves: vae of images, charlm of a text");
  line.add("model", "vae|charlm", "what to train");
  line.add("data", "digits|DIR|FILE",
           "vae: the built-in digits, or a folder with the MNIST files (digits); charlm: any text");
  line.add("backend", "ref|cpu|npu", "where to train (npu)");
  line.add("threads", "N", "compute threads, the device's included (all)");
  line.add("batch", "N", "images, or windows of text, a step (100; charlm 32)");
  line.add("epochs", "N", "passes over the training data (10)");
  line.add("steps", "N", "steps, instead of epochs");
  line.add("optimizer", "sgd|momentum|adam|adamw|rmsprop|lion|adagrad|lamb", "(adam)");
  line.add("lr", "RATE", "learning rate (vae 0.001, charlm 0.003)");
  declare_update_flags(line);
  line.add("loop-size", "N", "steps in one launch (NPU_LOOP_SIZE, else 100)");
  line.add("seed", "N", "of initial values, noise and the shuffle (0)");
  line.add("metrics", "FILE", "JSON lines, one object a step: step, epoch, loss");
  line.add("save", "FILE", "all states, as safetensors: for keel sample");
  line.add("quiet", "", "print nothing but errors and warnings");
  return line;
}

void require_one_length(const CommandLine& line) {
  if (!line.has("epochs") || !line.has("steps")) return;
  throw keel::Error({.op = "--steps",
                     .message = "--epochs is given as well",
                     .fix = "give one of the two",
                     .kind = keel::ErrorKind::kInvalidArgument});
}

std::string read_data_flag(const CommandLine& line, const std::string& model) {
  if (const auto data = line.text("data")) return *data;
  if (model != "charlm") return kDigits;
  throw keel::Error({.op = "--data",
                     .expected = "a text file for charlm",
                     .got = "none",
                     .fix = "give --data FILE",
                     .kind = keel::ErrorKind::kInvalidArgument});
}

class GenerativeRun {
 public:
  explicit GenerativeRun(const CommandLine& line)
      : line_(line),
        model_(line.choice("model", generative_names()).value()),
        data_(read_data_flag(line, model_)),
        save_(line.text("save").value_or("")),
        batch_(line.integer("batch", 1, kMost).value_or(model_ == "charlm" ? 32 : 100)),
        seed_(static_cast<uint64_t>(line.integer("seed", 0).value_or(0))),
        backend_(read_backend(line)),
        update_(read_update_flags(line, std::nullopt)),
        threads_(read_threads(line)) {
    require_one_length(line);
    const std::string metrics = line.text("metrics").value_or("");
    require_distinct(
        {{"--metrics", metrics}, {"--save", save_}},
        model_ == "charlm" ? std::vector<NamedFile>{{"--data", data_}} : data_files(data_));
    require_writable("--save", save_);
    task_ = model_ == "charlm" ? make_charlm_task(graph_, data_) : make_vae_task(graph_, data_);
    const int64_t count = task_.items.shape()[0];
    steps_per_epoch_ = count / batch_;
    if (steps_per_epoch_ == 0) {
      throw keel::Error({.op = "--batch",
                         .expected = fmt::format("at most the {} items to train on", count),
                         .got = std::to_string(batch_)});
    }
    const int64_t epochs = line.integer("epochs", 1, kMost).value_or(10);
    steps_ = line.integer("steps", 1, kMost)
                 .value_or(keel::checked_mul(epochs, steps_per_epoch_, "--epochs"));
  }

  int run() {
    StopSignals signals;
    const auto optimizer = line_.choice("optimizer", optimizer_names()).value_or("adam");
    const double rate = line_.number("lr", 0, kMostRate).value_or(task_.rate);
    const keel::Update update = make_update(task_.loss, optimizer, rate, update_,
                                            {.steps = steps_, .steps_per_epoch = steps_per_epoch_});
    keel::Session session(graph_, keel::device(backend_ + ":0"), {.seed = seed_});
    session.loop_size() = loop_size();
    const auto items =
        keel::Dataset::from_tensors({{keel::name_of(task_.input.node()), task_.items}});
    const auto feeder = keel::feed(items.shuffle(seed_).batch(batch_).repeat(),
                                   session.spec({task_.input}), {.name = "train"});
    keel::Trainer trainer(session, {.update = update, .fetches = {task_.loss}, .source = feeder});
    Progress progress(steps_, batch_, line_.has("quiet"));
    progress.line("data: " + task_.origin);
    progress.line(
        fmt::format("training {} on {}:0, {} steps of {}", model_, backend_, steps_, batch_));
    {
      const StopSignals::Watch watch(signals, trainer);
      train(trainer, progress, signals);
    }
    if (!save_.empty()) trainer.save(save_, {{"model", model_}});
    progress.line(task_.report(session));
    if (task_.picture) progress.line(task_.picture(session));
    if (!notices_.errors().empty()) return kExitFailed;
    return signals.signal() == 0 ? kExitDone : kExitSignalled + signals.signal();
  }

 private:
  keel::LoopSize loop_size() const {
    keel::LoopSize size{100};
    if (const auto text = line_.text("loop-size")) size.set(*text, "--loop-size");
    return size;
  }

  void train(keel::Trainer& trainer, Progress& progress, StopSignals& signals) {
    MetricsFile metrics(line_.text("metrics").value_or(""), /*append=*/false,
                        {.on_failure = [&](const keel::Error& error) { notices_.report(error); },
                         .on_closed_pipe = [&] { signals.stop(SIGPIPE); },
                         .stopping = [&] { return signals.signal() != 0; }});
    double loss = 0;
    trainer.fit({.steps = steps_,
                 .steps_per_epoch = steps_per_epoch_,
                 .on_step =
                     [&](int64_t step, std::span<const double> row, uint32_t float_status) {
                       loss = row[0];
                       metrics.write(step, (step - 1) / steps_per_epoch_ + 1, loss, float_status);
                       progress.step(step, loss);
                     },
                 .on_epoch_end =
                     [&](int64_t epoch) {
                       progress.line(fmt::format("epoch {}  loss {:.4f}  {}", epoch, loss,
                                                 task_.report(trainer.session())));
                     }});
    metrics.close();
  }

  const CommandLine& line_;
  std::string model_, data_, save_;
  int64_t batch_;
  uint64_t seed_;
  std::string backend_;
  UpdateFlags update_;
  const keel::ComputeThreads threads_;
  keel::Graph graph_;
  GenerativeTask task_;
  Notices notices_;
  int64_t steps_per_epoch_ = 0;
  int64_t steps_ = 0;
};

}  // namespace

const std::vector<std::string>& generative_names() {
  static const std::vector<std::string> names = {"vae", "charlm"};
  return names;
}

bool names_generative_model(const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    for (const std::string& name : generative_names()) {
      if (words[i] == "--model=" + name) return true;
      if (words[i] == "--model" && i + 1 < words.size() && words[i + 1] == name) return true;
    }
  }
  return false;
}

int run_train_generative(const std::vector<std::string>& words) {
  CommandLine line = declared();
  line.parse(words);
  if (line.wants_help()) {
    std::cout << line.help();
    return kExitDone;
  }
  return GenerativeRun(line).run();
}

}  // namespace keel_cli
