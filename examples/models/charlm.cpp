// A character-level language model: a small transformer whose attention looks only back, so that
// one pass predicts each character of a window from those before it.
#include "models/generative.h"

namespace keel_examples {
namespace {

struct CharTransformer : keel::Module {
  static constexpr int64_t kWidth = 64, kHeads = 4;

  keel::Embedding symbols;
  keel::Value positions;
  keel::TransformerBlock block1, block2;
  keel::LayerNorm norm;
  keel::Dense logits;

  explicit CharTransformer(const keel::Scope& scope)
      : Module(scope),
        symbols(scope / "symbols", kSymbols, kWidth),
        positions(scope.parameter("positions", keel::trunc_normal({kWindow, kWidth}, 0, 0.02))),
        block1(scope / "blocks" / 0, kWidth, kHeads),
        block2(scope / "blocks" / 1, kWidth, kHeads),
        norm(scope / "norm", kWidth),
        logits(scope / "logits", kWidth, kSymbols) {}

  keel::Value operator()(keel::Value text) const {
    auto x = symbols(text) + positions;
    for (const auto* block : {&block1, &block2})
      x = (*block)(x, keel::Mode::kTraining, {.causal = true});
    return logits(norm(x));
  }
};

}  // namespace

CharLm build_charlm(keel::Graph& graph) {
  const CharTransformer model{keel::Scope(graph)};
  CharLm lm;
  lm.text = graph.input("text", keel::u8, {-1, kWindow + 1});
  const auto seen = lm.text[{keel::_, keel::range(0, kWindow)}];
  const auto next = lm.text[{keel::_, keel::range(1, kWindow + 1)}];
  lm.logits = model(seen);
  const auto losses =
      softmax_cross_entropy(reshape(lm.logits, {-1, kSymbols}), reshape(next, {-1}));
  lm.loss = named(mean(losses), "loss");
  lm.losses = mean(reshape(losses, {-1, kWindow}), {1});
  return lm;
}

}  // namespace keel_examples
