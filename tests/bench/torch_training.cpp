// What libtorch takes for the trainings that Keel is measured by: eager mode, autograd, its own
// optimizers, a float set that is ready in memory; batches are slices of it where steps are timed,
// and shuffled anew each epoch where an accuracy is to be reached. Usage: bench_torch_training
// step TASK THREADS STEPS DATA (prints microseconds a step) | accuracy TASK THREADS SEED DATA
// (prints seconds of training, steps, accuracy). ratio_table.sh has the environment it wants.
#include <chrono>
#include <cstdio>
#include <memory>

#include <torch/torch.h>

#include "bench/training_task.h"

namespace keel_bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Net : torch::nn::Module {
  explicit Net(const TrainingTask& task) : tanh(task.tanh) {
    for (size_t i = 0; i + 1 < task.widths.size(); ++i) {
      layers.push_back(register_module("layer" + std::to_string(i),
                                       torch::nn::Linear(task.widths[i], task.widths[i + 1])));
    }
  }
  torch::Tensor forward(torch::Tensor x) {
    for (size_t i = 0; i < layers.size(); ++i) {
      x = layers[i](x);
      if (i + 1 < layers.size()) x = tanh ? torch::tanh(x) : torch::relu(x);
    }
    return x;
  }
  bool tanh;
  std::vector<torch::nn::Linear> layers;
};

struct Set {
  torch::Tensor images;  // f32 [count, 784] in 0 .. 1
  torch::Tensor labels;  // i64 [count]
};

Set as_floats(keel::LabelledImages& set) {
  const int64_t count = set.count();
  return {torch::from_blob(set.images.raw(), {count, 784}, torch::kUInt8).to(torch::kFloat32) / 255,
          torch::from_blob(set.labels.raw(), {count}, torch::kUInt8).to(torch::kInt64)};
}

class Training {
 public:
  Training(const TrainingTask& task, double rate, double momentum, uint64_t seed)
      : net_((torch::manual_seed(seed), task)) {
    if (task.adam) {
      optimizer_ =
          std::make_unique<torch::optim::Adam>(net_.parameters(), torch::optim::AdamOptions(rate));
    } else {
      optimizer_ = std::make_unique<torch::optim::SGD>(
          net_.parameters(), torch::optim::SGDOptions(rate).momentum(momentum));
    }
  }

  void step(const torch::Tensor& x, const torch::Tensor& y) {
    optimizer_->zero_grad();
    torch::nn::functional::cross_entropy(net_.forward(x), y).backward();
    optimizer_->step();
  }

  double accuracy(const Set& test) {
    const torch::NoGradGuard no_gradients;
    const auto hits = net_.forward(test.images).argmax(1).eq(test.labels).sum().item<int64_t>();
    return static_cast<double>(hits) / static_cast<double>(test.labels.size(0));
  }

 private:
  Net net_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
};

void time_steps(const TrainingCommand& command, const Set& train) {
  const int64_t batch = command.task.batch, batches = train.labels.size(0) / batch;
  Training training(command.task, command.task.step_rate, 0, 1);
  const auto step = [&](int64_t i) {
    const int64_t first = i % batches * batch;
    training.step(train.images.narrow(0, first, batch), train.labels.narrow(0, first, batch));
  };
  for (int64_t i = 0; i < 20; ++i) step(i);
  const auto start = Clock::now();
  for (int64_t i = 0; i < command.steps; ++i) step(i);
  std::printf("%.3f\n", seconds_since(start) * 1e6 / static_cast<double>(command.steps));
}

void time_to_accuracy(const TrainingCommand& command, const Set& train, const Set& test) {
  const TrainingTask& task = command.task;
  const int64_t count = train.labels.size(0), batches = count / task.batch;
  Training training(task, task.rate, task.momentum, command.seed);
  torch::Tensor order;
  double seconds = 0, accuracy = 0;
  int64_t steps = 0;
  while (accuracy < task.accuracy && steps < kMostEpochs * batches) {
    const auto start = Clock::now();
    for (int64_t i = 0; i < task.test_every; ++i, ++steps) {
      if (steps % batches == 0) order = torch::randperm(count);
      const auto rows = order.narrow(0, steps % batches * task.batch, task.batch);
      training.step(train.images.index_select(0, rows), train.labels.index_select(0, rows));
    }
    seconds += seconds_since(start);
    accuracy = training.accuracy(test);
  }
  require_reached(task, accuracy);
  std::printf("%.4f %lld %.4f\n", seconds, static_cast<long long>(steps), accuracy);
}

}  // namespace
}  // namespace keel_bench

int main(int argc, char** argv) {
  try {
    const auto command = keel_bench::parse_training({argv + 1, argv + argc});
    torch::set_num_threads(command.threads);
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
