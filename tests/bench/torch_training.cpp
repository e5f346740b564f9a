// What libtorch takes for the trainings that Keel is measured by: eager mode, autograd, its own
// optimizers, a float set that is ready in memory; batches are slices of it where steps are timed,
// and shuffled anew each epoch where an accuracy is to be reached. Usage: bench_torch_training
// step TASK THREADS STEPS DATA (prints microseconds a step, peak MiB) | accuracy TASK THREADS SEED
// DATA (prints seconds of training, steps, accuracy, peak MiB). ratio_table.sh has the environment
// it wants.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include <sys/resource.h>
#include <torch/torch.h>

#include "bench/torch_models.h"
#include "bench/training_task.h"

namespace keel_bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Returns the most memory that the process has had in RAM.
double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

struct Set {
  torch::Tensor items;   // f32 [count, 784] in 0 .. 1; of a text i64 [count, window]
  torch::Tensor labels;  // i64 [count]; of a text [count, window], the characters behind
};

Set as_floats(keel::LabelledImages& set) {
  const int64_t count = set.count();
  return {torch::from_blob(set.images.raw(), {count, 784}, torch::kUInt8).to(torch::kFloat32) / 255,
          torch::from_blob(set.labels.raw(), {count}, torch::kUInt8).to(torch::kInt64)};
}

Set as_windows(const std::string& path, int64_t batch) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw keel::Error({.op = path, .message = "cannot open"});
  std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto size = static_cast<int64_t>(text.size());
  if (size < kTextWindow + batch)
    throw keel::Error({.op = path, .expected = "a text with a batch of windows"});
  const torch::Tensor windows = torch::from_blob(text.data(), {size}, torch::kUInt8)
                                    .to(torch::kInt64)
                                    .unfold(0, kTextWindow + 1, 1);
  return {windows.narrow(1, 0, kTextWindow).contiguous(),
          windows.narrow(1, 1, kTextWindow).contiguous()};
}

class Training {
 public:
  Training(const TrainingTask& task, double rate, double momentum, uint64_t seed,
           bool channels_last)
      : model_((torch::manual_seed(seed), make_torch_model(task, channels_last))) {
    if (task.adam) {
      optimizer_ = std::make_unique<torch::optim::Adam>(model_->parameters(),
                                                        torch::optim::AdamOptions(rate));
    } else {
      optimizer_ = std::make_unique<torch::optim::SGD>(
          model_->parameters(), torch::optim::SGDOptions(rate).momentum(momentum));
    }
  }

  void step(const torch::Tensor& x, const torch::Tensor& y) {
    optimizer_->zero_grad();
    torch::nn::functional::cross_entropy(model_->forward(x), y.reshape({-1})).backward();
    optimizer_->step();
  }

  double accuracy(const Set& test) {
    const torch::NoGradGuard no_gradients;
    model_->eval();
    int64_t hits = 0;
    const int64_t count = test.labels.size(0);
    for (int64_t first = 0; first < count; first += kTestBatch) {
      const int64_t size = std::min(kTestBatch, count - first);
      const torch::Tensor best = model_->forward(test.items.narrow(0, first, size)).argmax(1);
      hits += best.eq(test.labels.narrow(0, first, size)).sum().item<int64_t>();
    }
    model_->train();
    return static_cast<double>(hits) / static_cast<double>(count);
  }

 private:
  std::shared_ptr<TorchModel> model_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
};

// Returns the seconds that steps [first, first + steps) take.
double timed(Training& training, const TrainingTask& task, const Set& train, int64_t first,
             int64_t steps) {
  const int64_t batches = train.labels.size(0) / task.batch;
  const auto start = Clock::now();
  for (int64_t i = first; i < first + steps; ++i) {
    const int64_t at = i % batches * task.batch;
    training.step(train.items.narrow(0, at, task.batch), train.labels.narrow(0, at, task.batch));
  }
  return seconds_since(start);
}

// Steps ahead of those that count: fewer where each takes long.
int64_t warm_up_steps(const TrainingTask& task) {
  return std::clamp<int64_t>(2500 / task.batch, 2, 20);
}

// libtorch at its best: with the layout of images in which a model's convolutions are quicker here.
bool prefers_channels_last(const TrainingTask& task, const Set& train) {
  if (task.name != "lenet" && task.name != "resnet") return false;
  double seconds[2];
  for (const bool channels_last : {false, true}) {
    Training training(task, task.step_rate, 0, 1, channels_last);
    timed(training, task, train, 0, 2);
    seconds[channels_last ? 1 : 0] = timed(training, task, train, 2, warm_up_steps(task) / 2);
  }
  return seconds[1] < seconds[0];
}

void time_steps(const TrainingCommand& command, const Set& train) {
  const TrainingTask& task = command.task;
  Training training(task, task.step_rate, 0, 1, prefers_channels_last(task, train));
  const int64_t first = warm_up_steps(task);
  timed(training, task, train, 0, first);
  const double seconds = timed(training, task, train, first, command.steps);
  std::printf("%.3f %.1f\n", seconds * 1e6 / static_cast<double>(command.steps), peak_mib());
}

void time_to_accuracy(const TrainingCommand& command, const Set& train, const Set& test) {
  const TrainingTask& task = command.task;
  const int64_t count = train.labels.size(0), batches = count / task.batch;
  Training training(task, task.rate, task.momentum, command.seed,
                    prefers_channels_last(task, train));
  torch::Tensor order;
  double seconds = 0, accuracy = 0;
  int64_t steps = 0;
  while (accuracy < task.accuracy && steps < kMostEpochs * batches) {
    const auto start = Clock::now();
    for (int64_t i = 0; i < task.test_every; ++i, ++steps) {
      if (steps % batches == 0) order = torch::randperm(count);
      const auto rows = order.narrow(0, steps % batches * task.batch, task.batch);
      training.step(train.items.index_select(0, rows), train.labels.index_select(0, rows));
    }
    seconds += seconds_since(start);
    accuracy = training.accuracy(test);
  }
  require_reached(task, accuracy);
  std::printf("%.4f %lld %.4f %.1f\n", seconds, static_cast<long long>(steps), accuracy,
              peak_mib());
}

}  // namespace
}  // namespace keel_bench

int main(int argc, char** argv) {
  try {
    const auto command = keel_bench::parse_training({argv + 1, argv + argc});
    torch::set_num_threads(command.threads);
    if (command.task.name == "charlm") {
      keel_bench::time_steps(command, keel_bench::as_windows(command.source, command.task.batch));
      return 0;
    }
    keel::LabelledSplits data = command.load();
    const keel_bench::Set train = keel_bench::as_floats(data.train);
    if (command.to_accuracy) {
      keel_bench::time_to_accuracy(command, train, keel_bench::as_floats(data.test));
    } else {
      keel_bench::time_steps(command, train);
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
