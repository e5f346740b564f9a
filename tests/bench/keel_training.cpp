// Trainings that `keel train` has no flags for, written as a user would, with the public C++ API:
// the counterparts of bench_torch_training. Shuffling and scaling the bytes are part of the steps.
// Usage: bench_keel_training BACKEND PRECISION step|accuracy ... (its words and what it prints) |
// load FOLDER (prints the seconds until gzipped files are a set on the npu, ready to train).
#include <chrono>
#include <cstdio>
#include <optional>

#include "bench/training_task.h"
#include "models/classifier.h"

namespace keel_bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Training {
 public:
  Training(const TrainingTask& task, double rate, double momentum, const std::string& backend,
           keel::SessionOptions options)
      : task_(task), seed_(options.seed) {
    const keel_examples::Classifier model =
        task.widths.empty() ? keel_examples::find_model(task.name).build(graph_) : dense_layers();
    image_ = model.image;
    label_ = model.label;
    loss_ = model.loss;
    hits_ = sum(cast(equal(argmax(model.logits), cast(label_, keel::i64)), keel::f32));
    update_ =
        (task.adam ? keel::adam(rate) : keel::sgd(rate, {.momentum = momentum})).minimize(loss_);
    session_.emplace(graph_, keel::device(backend + ":0"), options);
  }

  // Uploads the set. The set's memory is shared.
  std::shared_ptr<keel::Feeder> feed(const keel::LabelledImages& train) {
    const keel::FeedSpec spec = session_->spec({image_, label_});
    const auto batches = keel::Dataset::from_images(train)
                             .cache(spec.device)
                             .shuffle(seed_)
                             .batch(task_.batch)
                             .repeat();
    return keel::feed(batches, spec);
  }

  keel::Loop sink(std::shared_ptr<keel::Feeder> feeder) {
    return session_->sink({.update = update_, .fetches = {loss_}, .source = std::move(feeder)});
  }

  double accuracy(const keel::LabelledImages& test) {
    if (!evaluator_) {
      const int64_t batches = test.count() / kTestBatch;
      const auto items = keel::Dataset::from_images(test).batch(kTestBatch);
      evaluator_.emplace(
          *session_,
          keel::EvaluatorOptions{.sums = {hits_},
                                 .source = keel::feed(items, session_->spec({image_, label_})),
                                 .batches = batches,
                                 .items = batches * kTestBatch});
    }
    return evaluator_->means()[0];
  }

 private:
  keel_examples::Classifier dense_layers() {
    keel_examples::Classifier model;
    const auto images = keel_examples::add_inputs(model, graph_, {});
    model.logits = layers(images);
    model.loss = mean(softmax_cross_entropy(model.logits, model.label));
    return model;
  }
  keel::Value layers(keel::Value x) {
    for (size_t i = 1; i < task_.widths.size(); ++i) {
      const bool last = i + 1 == task_.widths.size();
      const bool rectified = !last && !task_.tanh;
      const keel::InitializerFunction weights = task_.widths.size() == 2 ? keel::zeros
                                                : rectified              ? keel::he_uniform
                                                                         : keel::glorot_uniform;
      x = keel::dense(x, task_.widths[i], {.weights = weights});
      if (!last) x = task_.tanh ? tanh(x) : relu(x);
    }
    return x;
  }

  TrainingTask task_;
  uint64_t seed_;
  keel::Graph graph_;
  keel::Value image_, label_, loss_, hits_;
  keel::Update update_;
  std::optional<keel::Session> session_;
  std::optional<keel::Evaluator> evaluator_;
};

void time_steps(const TrainingCommand& command, const std::string& backend,
                const std::string& precision) {
  const keel::LabelledSplits data = command.load();
  Training training(command.task, command.task.step_rate, 0, backend, {.precision = precision});
  keel::Loop loop = training.sink(training.feed(data.train));
  loop.run(20);
  const auto start = Clock::now();
  loop.run(command.steps);
  std::printf("%.3f\n", seconds_since(start) * 1e6 / static_cast<double>(command.steps));
}

void time_to_accuracy(const TrainingCommand& command, const std::string& backend,
                      const std::string& precision) {
  const keel::LabelledSplits data = command.load();
  const TrainingTask& task = command.task;
  Training training(task, task.rate, task.momentum, backend,
                    {.seed = command.seed, .precision = precision});
  keel::Loop loop = training.sink(training.feed(data.train));
  double seconds = 0, accuracy = 0;
  int64_t steps = 0;
  while (accuracy < task.accuracy && steps < kMostEpochs * data.train.count() / task.batch) {
    const auto start = Clock::now();
    loop.run(task.test_every);
    seconds += seconds_since(start);
    steps += task.test_every;
    accuracy = training.accuracy(data.test);
  }
  require_reached(task, accuracy);
  std::printf("%.4f %lld %.4f\n", seconds, static_cast<long long>(steps), accuracy);
}

void time_loading(const std::string& folder) {
  const TrainingCommand softmax = parse_training({"step", "softmax", "2", "1", folder});
  const keel::ComputeThreads threads(softmax.threads);
  Training training(softmax.task, softmax.task.step_rate, 0, "npu", {});
  const auto start = Clock::now();
  const keel::LabelledSplits data = softmax.load();
  const auto feeder = training.feed(data.train);
  std::printf("%.4f\n", seconds_since(start));
}

int run(const std::vector<std::string>& words) {
  if (words.size() == 2 && words[0] == "load") {
    time_loading(words[1]);
    return 0;
  }
  if (words.size() < 3) {
    throw keel::Error({.op = "command line", .expected = "BACKEND PRECISION step|accuracy ..."});
  }
  const TrainingCommand command = parse_training({words.begin() + 2, words.end()});
  const keel::ComputeThreads threads(command.threads);
  (command.to_accuracy ? time_to_accuracy : time_steps)(command, words[0], words[1]);
  return 0;
}

}  // namespace
}  // namespace keel_bench

int main(int argc, char** argv) {
  try {
    return keel_bench::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
