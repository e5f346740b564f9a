// Evaluation: how good a model is on sets of items, on the session's device: batches in order, the
// last one padded with a mask, one launch for a whole set, and one compiled step for all sets. The
// session must outlive it.
#ifndef KEEL_EXAMPLES_CLI_MODEL_EVALUATION_H
#define KEEL_EXAMPLES_CLI_MODEL_EVALUATION_H

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include <keel/keel.h>

namespace keel_cli {

inline constexpr int64_t kUsualTopK = 5;

// Holds the values by which a model is measured. They are built for evaluation, not for training:
// without dropout, for instance.
struct Measured {
  keel::Values inputs;
  keel::Value output;  // f32: logits [batch, classes], or without labels the losses [batch]
  std::optional<keel::Value> label;  // u8 [batch], one of the inputs
};

struct Scores {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  double accuracy = kNone;  // share of the items whose largest logit is at their label
  double top_k = kNone;     // whose label is among the k largest
  double loss = kNone;      // mean; of logits the cross entropy
};

class Evaluation {
 public:
  // Adds what it needs to the graph. Of fewer classes than `top_k`, all count; without labels it
  // is 0.
  Evaluation(keel::Graph& graph, Measured model, int64_t top_k);

  // A set that is measured again and again. All sets of an Evaluation have the same batch size.
  class Set {
   public:
    Scores scores();

   private:
    friend class Evaluation;
    explicit Set(std::unique_ptr<keel::Evaluator> evaluator) : evaluator_(std::move(evaluator)) {}
    std::unique_ptr<keel::Evaluator> evaluator_;
  };
  // Takes items that have the model's inputs as fields, in batches of `batch`, or of as many as the
  // model takes.
  // `group`: the ranks that measure it together (EvaluatorOptions::group).
  Set on(keel::Session& session, const keel::Dataset& items, int64_t batch,
         const std::shared_ptr<keel::Group>& group = nullptr) const;

  int64_t top_k() const noexcept { return top_k_; }

 private:
  Measured model_;
  int64_t top_k_ = 0;
  keel::Value mask_;
  keel::Values sums_;  // over the real items of a batch: correct and among the first, where there
                       // are labels, and the losses
};

// For sets of up to so many items.
int64_t evaluation_batch(int64_t items);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_MODEL_EVALUATION_H
