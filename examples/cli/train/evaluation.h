// Evaluation: how good a classifier is on sets of images, on the session's device: batches in
// order, the last one padded with a mask, one launch for a whole set, and one compiled step for all
// sets. The session must outlive it.
#ifndef KEEL_EXAMPLES_CLI_EVALUATION_H
#define KEEL_EXAMPLES_CLI_EVALUATION_H

#include <cstdint>
#include <memory>
#include <utility>

#include <keel/keel.h>

#include "models/classifier.h"

namespace keel_cli {

inline constexpr int64_t kUsualTopK = 5;

struct Scores {
  double accuracy = 0;  // share of the images whose largest logit is at their label
  double top_k = 0;     // whose label is among the k largest
  double loss = 0;      // mean cross entropy, in evaluation mode
};

class Evaluation {
 public:
  // Adds what it needs to the model's graph. Of fewer classes than `top_k`, all count.
  Evaluation(keel::Graph& graph, const keel_examples::Classifier& model, int64_t top_k);

  // A set that is measured again and again. All sets of an Evaluation have the same batch size.
  class Set {
   public:
    Scores scores();

   private:
    friend class Evaluation;
    explicit Set(std::unique_ptr<keel::Evaluator> evaluator) : evaluator_(std::move(evaluator)) {}
    std::unique_ptr<keel::Evaluator> evaluator_;
  };
  // Takes images as Dataset::from_images gives them, in batches of `batch`.
  Set on(keel::Session& session, const keel::Dataset& images, int64_t batch) const;

  int64_t top_k() const noexcept { return top_k_; }

 private:
  keel_examples::Classifier model_;
  int64_t top_k_;
  keel::Value mask_;
  keel::Value correct_, among_first_, loss_;  // sums over the real images of a batch
};

// For sets of so many images, the largest of them.
int64_t evaluation_batch(int64_t images);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_EVALUATION_H
