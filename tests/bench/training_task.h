// TrainingTask: a training that Keel and libtorch both do, each by a program of its own: the same
// shapes, batches, optimizer, rates and checks. TrainingCommand: the words of those programs. Plain
// values.
#ifndef KEEL_TESTS_BENCH_TRAINING_TASK_H
#define KEEL_TESTS_BENCH_TRAINING_TASK_H

#include <cstdint>
#include <string>
#include <vector>

#include <keel/keel.h>

namespace keel_bench {

struct TrainingTask {
  std::string name;
  std::vector<int64_t> widths{};  // features, then the units of each layer; none: a model by name
  bool tanh = false;              // between the layers; else ReLU
  bool adam = false;              // else descent
  int64_t batch = 0;
  double step_rate = 0;  // learning rate where steps are timed
  // Time to an accuracy: the test set is looked at every `test_every` steps, the clock stopped.
  double rate = 0;
  double momentum = 0;
  double accuracy = 0;  // 0: the task is there for its steps alone
  int64_t test_every = 0;
};

struct TrainingCommand {
  bool to_accuracy = false;
  TrainingTask task;
  int threads = 1;
  int64_t steps = 0;   // to time
  uint64_t seed = 0;   // of weights and shuffle, where an accuracy is to be reached
  std::string source;  // of the data

  keel::LabelledSplits load() const;
};

// Characters that charlm looks back at; examples/models/generative.h has the same number.
inline constexpr int64_t kTextWindow = 64;
// Test images that go through a model at once, a divisor of the 10,000 that there are: all of them
// would take lenet a gigabyte.
inline constexpr int64_t kTestBatch = 1000;
// No accuracy that is asked for takes more.
inline constexpr int64_t kMostEpochs = 30;

// Throws keel::Error where the task's accuracy was not reached: a time without it means nothing.
void require_reached(const TrainingTask& task, double accuracy);

// "step TASK THREADS STEPS DATA [BATCH]" or "accuracy TASK THREADS SEED DATA", where TASK is one of
// those in training_task.cpp, DATA a folder, "digits", or charlm's text, and BATCH stands for the
// task's own. Throws keel::Error.
TrainingCommand parse_training(const std::vector<std::string>& words);

}  // namespace keel_bench

#endif  // KEEL_TESTS_BENCH_TRAINING_TASK_H
