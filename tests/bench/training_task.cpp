#include "bench/training_task.h"

namespace keel_bench {
namespace {

std::vector<TrainingTask> tasks() {
  return {{.name = "softmax",
           .widths = {784, 10},
           .batch = 100,
           .step_rate = 0.01,
           .rate = 0.5,
           .accuracy = 0.92,
           .test_every = 100},
          {.name = "mlp",
           .widths = {784, 512, 512, 10},
           .batch = 128,
           .step_rate = 0.01,
           .rate = 0.1,
           .momentum = 0.9,
           .accuracy = 0.98,
           .test_every = 117},
          {.name = "tanh",
           .widths = {784, 300, 77, 10},
           .tanh = true,
           .adam = true,
           .batch = 50,
           .step_rate = 0.001},
          {.name = "lenet",
           .adam = true,
           .batch = 64,
           .step_rate = 0.001,
           .rate = 0.001,
           .accuracy = 0.99,
           .test_every = 117},
          {.name = "resnet", .adam = true, .batch = 100, .step_rate = 0.001},
          {.name = "transformer", .adam = true, .batch = 100, .step_rate = 0.001},
          {.name = "lstm", .adam = true, .batch = 100, .step_rate = 0.001},
          {.name = "charlm", .adam = true, .batch = 32, .step_rate = 0.001}};
}

TrainingTask find_task(const std::string& name) {
  std::string names;
  for (const TrainingTask& task : tasks()) {
    if (task.name == name) return task;
    names += (names.empty() ? "" : ", ") + task.name;
  }
  throw keel::Error({.op = "TASK", .expected = "one of " + names, .got = name});
}

}  // namespace

keel::LabelledSplits TrainingCommand::load() const {
  return source == "digits" ? keel::make_digits() : keel::load_mnist(source);
}

void require_reached(const TrainingTask& task, double accuracy) {
  if (accuracy >= task.accuracy) return;
  throw keel::Error({.op = task.name,
                     .expected = "accuracy " + std::to_string(task.accuracy) + " within " +
                                 std::to_string(kMostEpochs) + " epochs",
                     .got = std::to_string(accuracy)});
}

TrainingCommand parse_training(const std::vector<std::string>& words) {
  TrainingCommand command;
  command.to_accuracy = !words.empty() && words[0] == "accuracy";
  const bool other_batch = words.size() == 6 && !command.to_accuracy;
  if ((words.size() != 5 && !other_batch) || (words[0] != "step" && !command.to_accuracy)) {
    throw keel::Error({.op = "command line",
                       .expected = "step TASK THREADS STEPS DATA [BATCH], or accuracy TASK THREADS "
                                   "SEED DATA"});
  }
  command.task = find_task(words[1]);
  command.threads = static_cast<int>(keel::parse_integer(words[2], "THREADS", 1, 1024));
  if (command.to_accuracy) {
    command.seed = static_cast<uint64_t>(keel::parse_integer(words[3], "SEED", 0));
    if (command.task.accuracy == 0)
      throw keel::Error({.op = "TASK", .expected = "softmax, mlp or lenet", .got = words[1]});
  } else {
    command.steps = keel::parse_integer(words[3], "STEPS", 1);
  }
  command.source = words[4];
  if (other_batch) command.task.batch = keel::parse_integer(words[5], "BATCH", 1, 1 << 16);
  return command;
}

}  // namespace keel_bench
