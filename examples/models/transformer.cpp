// A transformer that reads an image row by row: each row is a token, and the mean of what the last
// block makes of them is classified.
#include "models/classifier.h"

namespace keel_examples {
namespace {

constexpr int64_t kRows = 28, kWidth = 64, kHeads = 4;

struct Transformer : keel::Module {
  keel::Dense embed;
  keel::Value positions;
  keel::TransformerBlock block1, block2;
  keel::LayerNorm norm;
  keel::Dense logits;

  explicit Transformer(const keel::Scope& scope)
      : Module(scope),
        embed(scope / "embed", 28, kWidth),
        positions(scope.parameter("positions", keel::normal({kRows, kWidth}, 0, 0.02))),
        block1(scope / "blocks" / 0, kWidth, kHeads),
        block2(scope / "blocks" / 1, kWidth, kHeads),
        norm(scope / "norm", kWidth),
        logits(scope / "logits", kWidth, 10) {}

  keel::Value operator()(keel::Value x, keel::Mode mode) const {
    x = embed(reshape(x, {-1, kRows, 28})) + positions;
    x = block2(block1(x, mode), mode);
    return logits(mean(norm(x), {1}));
  }
};

}  // namespace

Classifier build_transformer(keel::Graph& graph, keel::DType image) {
  return classify(graph, image, Transformer(keel::Scope(graph)));
}

}  // namespace keel_examples
