#include "cli/train/evaluation.h"

#include <algorithm>

namespace keel_cli {
namespace {

constexpr int64_t kBatch = 500;
// The same for all sets: a program belongs to a queue of that name.
constexpr const char* kQueue = "evaluation";

}  // namespace

int64_t evaluation_batch(int64_t images) { return std::clamp<int64_t>(images, 1, kBatch); }

Evaluation::Evaluation(keel::Graph& graph, const keel_examples::Classifier& model, int64_t top_k)
    : model_(model), top_k_(std::min(top_k, model.logits.shape()[1])) {
  mask_ = graph.input("mask", keel::boolean, {-1});
  const auto label = cast(model.label, keel::i64);
  const auto hit = equal(argmax(model.logits), label);
  correct_ = sum(cast(logical_and(hit, mask_), keel::f32));
  // At most one of the k indices is the label.
  const auto hits = equal(keel::top_k(model.logits, top_k_).indices, expand_dims(label, {1}));
  among_first_ = sum(cast(logical_and(hits, expand_dims(mask_, {1})), keel::f32));
  const auto losses = softmax_cross_entropy(model.logits, model.label);
  loss_ = sum(select(mask_, losses, 0.0f));
}

Evaluation::Set Evaluation::on(keel::Session& session, const keel::Dataset& images,
                               int64_t batch) const {
  const int64_t count = images.size().value();
  const auto feeder =
      keel::feed(images.batch(batch, keel::Tail::kPad),
                 session.spec({model_.image, model_.label, mask_}), {.name = kQueue});
  return Set(std::make_unique<keel::Evaluator>(
      session, keel::EvaluatorOptions{.sums = {correct_, among_first_, loss_},
                                      .source = feeder,
                                      .batches = (count + batch - 1) / batch,
                                      .items = count}));
}

Scores Evaluation::Set::scores() {
  const std::vector<double> means = evaluator_->means();
  return {.accuracy = means[0], .top_k = means[1], .loss = means[2]};
}

}  // namespace keel_cli
