#include "cli/model/evaluation.h"

#include <algorithm>
#include <limits>

#include <keel/core/group/group.h>

namespace keel_cli {
namespace {

constexpr int64_t kBatch = 500;
// The same for all sets: a program belongs to a queue of that name.
constexpr const char* kQueue = "evaluation";

}  // namespace

int64_t evaluation_batch(int64_t items) { return std::clamp<int64_t>(items, 1, kBatch); }

Evaluation::Evaluation(keel::Graph& graph, Measured model, int64_t top_k)
    : model_(std::move(model)) {
  mask_ = graph.input("mask", keel::boolean, {-1});
  keel::Value losses = model_.output;
  if (model_.label) {
    const keel::Value logits = model_.output;
    top_k_ = std::min(top_k, logits.shape()[1]);
    const auto label = cast(*model_.label, keel::i64);
    const auto hit = equal(argmax(logits), label);
    // An image whose logits are not all finite is found in no class, as `keel eval` has it.
    const auto largest = max(abs(logits), {1});
    const auto counts = logical_and(mask_, less(largest, std::numeric_limits<double>::infinity()));
    sums_.push_back(sum(cast(logical_and(hit, counts), keel::f32)));
    sums_.push_back(sum(select(counts, keel::top_k_hits(logits, label, top_k_), 0.0f)));
    losses = softmax_cross_entropy(logits, *model_.label);
  }
  sums_.push_back(sum(select(mask_, losses, 0.0f)));
}

Evaluation::Set Evaluation::on(keel::Session& session, const keel::Dataset& items, int64_t batch,
                               const std::shared_ptr<keel::Group>& group) const {
  const int64_t count = items.size().value();
  if (const int64_t fixed = model_.inputs[0].shape()[0]; fixed > 0) batch = fixed;
  keel::Values inputs = model_.inputs;
  inputs.push_back(mask_);
  keel::Dataset batches = items.batch(batch, keel::Tail::kPad);
  if (group != nullptr) batches = batches.shard(group->size(), group->rank());
  const auto feeder = keel::feed(batches, session.spec(inputs), {.name = kQueue});
  return Set(std::make_unique<keel::Evaluator>(
      session, keel::EvaluatorOptions{.sums = sums_,
                                      .source = feeder,
                                      .batches = (count + batch - 1) / batch,
                                      .items = count,
                                      .group = group}));
}

Scores Evaluation::Set::scores() {
  const std::vector<double> means = evaluator_->means();
  if (means.size() == 1) return {.loss = means[0]};
  return {.accuracy = means[0], .top_k = means[1], .loss = means[2]};
}

}  // namespace keel_cli
