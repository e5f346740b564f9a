// A transformer that reads an image row by row: each row is a token, and the mean of what the last
// block makes of them is classified.
#include "models/classifier.h"

namespace keel_examples {
namespace {

constexpr int64_t kWidth = 64, kHeads = 4;

struct Transformer : keel::Module {
  int64_t rows, row;  // how many, and the numbers of each
  keel::Dense embed;
  keel::Value positions;
  keel::TransformerBlock block1, block2;
  keel::LayerNorm norm;
  keel::Dense logits;

  Transformer(const keel::Scope& scope, const ImageFormat& format)
      : Module(scope),
        rows(format.height),
        row(format.width * format.channels),
        embed(scope / "embed", row, kWidth),
        positions(scope.parameter("positions", keel::normal({rows, kWidth}, 0, 0.02))),
        block1(scope / "blocks" / 0, kWidth, kHeads),
        block2(scope / "blocks" / 1, kWidth, kHeads),
        norm(scope / "norm", kWidth),
        logits(scope / "logits", kWidth, format.classes) {}

  keel::Value operator()(keel::Value x, keel::Mode mode) const {
    x = embed(reshape(x, {-1, rows, row})) + positions;
    x = block2(block1(x, mode), mode);
    return logits(mean(norm(x), {1}));
  }
};

}  // namespace

Classifier build_transformer(keel::Graph& graph, const ImageFormat& format) {
  return classify(graph, format, Transformer(keel::Scope(graph), format));
}

}  // namespace keel_examples
