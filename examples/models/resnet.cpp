// A small residual net with batch norm: three stages of two blocks, each stage with half the height
// and width and twice the channels of the one before. Source: He et al., "Deep Residual Learning
// for Image Recognition" (2015).
#include <optional>
#include <utility>
#include <vector>

#include "models/classifier.h"

namespace keel_examples {
namespace {

// The norm behind a convolution has an offset of its own.
keel::Conv2dOptions without_bias(int64_t stride = 1) {
  return {.stride = {stride, stride}, .use_bias = false};
}

// x + f(x), where f is two convolutions; where they change the size, x goes through one of its own.
struct Residual : keel::Module {
  keel::Conv2d conv1, conv2;
  keel::BatchNorm norm1, norm2;
  std::optional<keel::Conv2d> shortcut;

  Residual(const keel::Scope& scope, int64_t in, int64_t out, int64_t stride)
      : Module(scope),
        conv1(scope / "conv1", in, out, {3, 3}, without_bias(stride)),
        conv2(scope / "conv2", out, out, {3, 3}, without_bias()),
        norm1(scope / "norm1", out),
        norm2(scope / "norm2", out) {
    if (in != out)
      shortcut.emplace(scope / "shortcut", in, out, std::vector<int64_t>{1, 1},
                       without_bias(stride));
  }

  keel::Value operator()(keel::Value x, keel::Mode mode) const {
    const auto y = norm2(conv2(relu(norm1(conv1(x), mode))), mode);
    return relu(y + (shortcut ? (*shortcut)(x) : x));
  }
};

struct ResNet : keel::Module {
  ImageFormat format;
  keel::Conv2d first;
  keel::BatchNorm norm;
  std::vector<Residual> blocks;
  keel::Dense logits;

  ResNet(const keel::Scope& scope, const ImageFormat& images)
      : Module(scope),
        format(images),
        first(scope / "first", format.channels, 16, {3, 3}, without_bias()),
        norm(scope / "norm", 16),
        logits(scope / "logits", 64, format.classes) {
    for (const auto& [in, out] : {std::pair{16, 16}, {16, 32}, {32, 64}})
      blocks.emplace_back(scope / "blocks" / static_cast<int64_t>(blocks.size()), in, out,
                          in == out ? 1 : 2);
  }

  keel::Value operator()(keel::Value x, keel::Mode mode) const {
    x = reshape(x, {-1, format.height, format.width, format.channels});
    x = relu(norm(first(x), mode));
    for (const Residual& block : blocks) x = block(x, mode);
    return logits(global_avg_pool2d(x));
  }
};

}  // namespace

Classifier build_resnet(keel::Graph& graph, const ImageFormat& format) {
  return classify(graph, format, ResNet(keel::Scope(graph), format));
}

}  // namespace keel_examples
