// Evaluation: the accuracy of a classifier on a test set, on the session's device: batches in
// order, the last one padded with a mask, one launch for the whole set. The session must outlive
// it.
#ifndef KEEL_EXAMPLES_CLI_EVALUATION_H
#define KEEL_EXAMPLES_CLI_EVALUATION_H

#include <memory>

#include <keel/keel.h>

#include "models/classifier.h"

namespace keel_cli {

class Evaluation {
 public:
  // Adds what it needs to the model's graph.
  Evaluation(keel::Graph& graph, const keel_examples::Classifier& model);
  // Share of the set's images whose largest logit is at their label.
  double accuracy(keel::Session& session, const keel::LabelledImages& set);

 private:
  keel_examples::Classifier model_;
  keel::Value mask_;
  keel::Value correct_;
  std::shared_ptr<keel::Feeder> feeder_;
  std::unique_ptr<keel::Loop> loop_;
  int64_t batches_ = 0;
};

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_EVALUATION_H
