// One training program on every backend: the first losses side by side, and whether the states end
// up bit-equal from run to run on each.
#include <iostream>
#include <string>
#include <vector>

#include <keel/keel.h>

#include "models/classifier.h"

namespace {

struct Run {
  std::vector<double> losses;
  std::string hash;
};

Run train(const std::string& backend, const keel::LabelledImages& images) {
  keel::Graph g;
  const auto model = keel_examples::build_softmax(g);
  const auto update = keel::sgd(0.5).minimize(model.loss);
  keel::Session session(g, keel::device(backend));
  const auto batches = keel::Dataset::from_images(images).shuffle(0).batch(100);
  auto loop =
      session.sink({.update = update,
                    .fetches = {model.loss},
                    .source = keel::feed(batches, session.spec({model.image, model.label}))});
  const auto losses = loop.run(10)[model.loss];
  return {losses, session.state_sha256()};
}

}  // namespace

int main() {
  const auto digits = keel::make_digits({.train_count = 1000, .test_count = 1});
  for (const std::string& backend : keel::backend_names()) {
    const Run first = train(backend, digits.train);
    const Run again = train(backend, digits.train);
    std::cout << backend << ": losses";
    for (const double loss : first.losses) std::cout << " " << loss;
    std::cout << "\n  states " << first.hash.substr(0, 16)
              << (first.hash == again.hash ? ", the same again\n"
                                           : ", DIFFERENT in a second run\n");
  }
  return 0;
}
