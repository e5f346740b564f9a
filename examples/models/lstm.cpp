// An lstm that reads an image row by row, from top to bottom, and classifies what it remembers.
#include "models/classifier.h"

namespace keel_examples {
namespace {

struct RowReader : keel::Module {
  int64_t rows, row;  // how many, and the numbers of each
  keel::Lstm lstm;
  keel::Dense logits;

  RowReader(const keel::Scope& scope, const ImageFormat& format)
      : Module(scope),
        rows(format.height),
        row(format.width * format.channels),
        lstm(scope / "lstm", row, 128),
        logits(scope / "logits", 128, format.classes) {}

  keel::Value operator()(keel::Value x, keel::Mode) const {
    return logits(lstm(reshape(x, {-1, rows, row})).last.hidden);
  }
};

}  // namespace

Classifier build_lstm(keel::Graph& graph, const ImageFormat& format) {
  return classify(graph, format, RowReader(keel::Scope(graph), format));
}

}  // namespace keel_examples
