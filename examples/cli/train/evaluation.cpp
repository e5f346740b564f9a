#include "cli/train/evaluation.h"

#include <algorithm>

namespace keel_cli {
namespace {

constexpr int64_t kBatch = 500;

}  // namespace

Evaluation::Evaluation(keel::Graph& graph, const keel_examples::Classifier& model) : model_(model) {
  mask_ = graph.input("mask", keel::boolean, {-1});
  const auto hit = equal(argmax(model.logits), cast(model.label, keel::i64));
  correct_ = sum(cast(logical_and(hit, mask_), keel::f32));
}

double Evaluation::accuracy(keel::Session& session, const keel::LabelledImages& set) {
  if (loop_ == nullptr) {
    const int64_t batch = std::min(kBatch, set.count());
    const auto data = keel::Dataset::from_images(set).batch(batch, keel::Tail::kPad);
    feeder_ = keel::feed(data, session.spec({model_.image, model_.label, mask_}), {.name = "test"});
    loop_ = std::make_unique<keel::Loop>(session.sink({.fetches = {correct_}, .source = feeder_}));
    batches_ = (set.count() + batch - 1) / batch;
  } else {
    feeder_->open({});
  }
  const keel::LoopReport report = loop_->run(batches_);
  double correct = 0;
  for (const double c : report[correct_]) correct += c;
  return correct / static_cast<double>(set.count());
}

}  // namespace keel_cli
