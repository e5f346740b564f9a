// Models of the data themselves, without labels, that the `keel` tool trains: ordinary user code.
#ifndef KEEL_EXAMPLES_MODELS_GENERATIVE_H
#define KEEL_EXAMPLES_MODELS_GENERATIVE_H

#include <keel/keel.h>

namespace keel_examples {

// A variational autoencoder of 28x28 grey images.
struct Vae {
  keel::Value image;    // u8 [batch, 784], an input
  keel::Value losses;   // f32 [batch], nats: minus the bound on each image's log likelihood
  keel::Value loss;     // f32, their mean
  keel::Value samples;  // f32 [16, 784] in 0 .. 1, drawn anew in each step
};
Vae build_vae(keel::Graph& graph);

// A transformer that predicts each character of a text, a byte, from those before it.
inline constexpr int64_t kWindow = 64;  // how many it looks back at
inline constexpr int64_t kSymbols = 256;
struct CharLm {
  keel::Value text;    // u8 [batch, kWindow + 1], an input
  keel::Value logits;  // f32 [batch, kWindow, kSymbols]: for the character behind each
  keel::Value losses;  // f32 [batch], mean nats a character of each window
  keel::Value loss;    // f32, their mean
};
CharLm build_charlm(keel::Graph& graph);

}  // namespace keel_examples

#endif  // KEEL_EXAMPLES_MODELS_GENERATIVE_H
