// A variational autoencoder: an encoder gives each image a normal distribution over a few numbers,
// a decoder makes an image of a draw from it. Training raises a bound on the images' likelihood;
// decoding draws from N(0, 1) then makes new images. Source: Kingma and Welling, "Auto-Encoding
// Variational Bayes" (2013), appendix B.
#include "models/generative.h"

namespace keel_examples {
namespace {

constexpr int64_t kPixels = 784, kHidden = 256, kLatent = 20, kSamples = 16;

struct Autoencoder : keel::Module {
  keel::Dense encoder, mean, log_variance;  // of the latent numbers
  keel::Dense decoder, pixels;

  explicit Autoencoder(const keel::Scope& scope)
      : Module(scope),
        encoder(scope / "encoder", kPixels, kHidden, {.weights = keel::he_uniform}),
        mean(scope / "mean", kHidden, kLatent),
        log_variance(scope / "log_variance", kHidden, kLatent),
        decoder(scope / "decoder", kLatent, kHidden, {.weights = keel::he_uniform}),
        pixels(scope / "pixels", kHidden, kPixels) {}

  keel::Value decode(keel::Value latent) const { return pixels(relu(decoder(latent))); }
};

}  // namespace

Vae build_vae(keel::Graph& graph) {
  const Autoencoder model{keel::Scope(graph)};
  Vae vae;
  vae.image = graph.input("image", keel::u8, {-1, kPixels});
  const auto x = cast(vae.image, keel::f32) / 255.0f;

  const auto hidden = relu(model.encoder(x));
  const auto mean = model.mean(hidden), log_variance = model.log_variance(hidden);
  // The draw is a function of mean and variance, so gradients pass it; the noise has a key of its
  // own in each step, so a training is the same however it is cut into launches.
  const auto key = keel::fold_key(graph.seed(), graph.step());
  const auto noise = keel::normal_like(key, mean, 0, 1, keel::f32);
  const auto logits = model.decode(mean + exp(0.5f * log_variance) * noise);

  // How badly the image is described, and what its distribution costs beside N(0, 1), in nats.
  const auto described = sum(sigmoid_cross_entropy(logits, x), {1});
  const auto cost = 0.5f * sum(square(mean) + exp(log_variance) - log_variance - 1.0f, {1});
  vae.losses = described + cost;
  vae.loss = named(keel::mean(vae.losses), "loss");
  vae.samples = sigmoid(model.decode(keel::normal(graph, {kSamples, kLatent})));
  return vae;
}

}  // namespace keel_examples
