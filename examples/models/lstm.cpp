// An lstm that reads an image row by row, from top to bottom, and classifies what it remembers.
#include "models/classifier.h"

namespace keel_examples {
namespace {

struct RowReader : keel::Module {
  keel::Lstm lstm;
  keel::Dense logits;

  explicit RowReader(const keel::Scope& scope)
      : Module(scope), lstm(scope / "lstm", 28, 128), logits(scope / "logits", 128, 10) {}

  keel::Value operator()(keel::Value x, keel::Mode) const {
    return logits(lstm(reshape(x, {-1, 28, 28})).last.hidden);
  }
};

}  // namespace

Classifier build_lstm(keel::Graph& graph, keel::DType image) {
  return classify(graph, image, RowReader(keel::Scope(graph)));
}

}  // namespace keel_examples
