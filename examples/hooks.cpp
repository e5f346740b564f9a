// The hooks that TensorFlow 1 had, by their names, on one training: a launch has up to 100 steps,
// and each hook runs at its own step all the same.
#include <filesystem>
#include <iostream>
#include <string>

#include <keel/keel.h>

#include "models/classifier.h"

int main() {
  const auto digits = keel::make_digits({.train_count = 1000, .test_count = 1});
  keel::Graph g;
  const auto model = keel_examples::build_softmax(g);
  keel::Session session(g, keel::device("npu"));
  keel::Trainer trainer(
      session,
      {.update = keel::sgd(0.5).minimize(model.loss),
       .fetches = {model.loss},
       .source = keel::feed(keel::Dataset::from_images(digits.train).shuffle(0).batch(50).repeat(),
                            session.spec({model.image, model.label}))});

  const auto folder = std::filesystem::temp_directory_path() / "keel_hooks";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const auto print = [](const std::string& line) { std::cout << line << "\n"; };
  const auto report = trainer.fit(
      {.steps = 1000,
       .loop_size = 100,
       .hooks = {
           keel::CheckpointSaverHook{.folder = (folder / "runs").string(), .every_n_steps = 150},
           keel::LoggingHook{.every_n_steps = 50, .write = print},
           keel::StepCounterHook{.every_n_steps = 100, .write = print},
           keel::SummaryHook{.path = (folder / "scalars.csv").string(), .every_n_steps = 10},
           keel::NanGuardHook{},
           keel::StopAtStepHook{.last_step = 207},
       }});
  std::cout << "stopped behind step " << report.steps << " of 1000, after " << report.launches
            << " launches, with the last checkpoint of step " << *report.checkpoint.last_step
            << "\n";
  std::filesystem::remove_all(folder);
  return 0;
}
