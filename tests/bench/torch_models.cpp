#include "bench/torch_models.h"

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace keel_bench {
namespace {

namespace nn = torch::nn;
using torch::Tensor;

constexpr int64_t kSide = 28;

struct DenseLayers final : TorchModel {
  explicit DenseLayers(const TrainingTask& task) : tanh(task.tanh) {
    for (size_t i = 0; i + 1 < task.widths.size(); ++i) {
      layers.push_back(register_module("layer" + std::to_string(i),
                                       nn::Linear(task.widths[i], task.widths[i + 1])));
    }
  }
  Tensor forward(Tensor x) override {
    for (size_t i = 0; i < layers.size(); ++i) {
      x = layers[i](x);
      if (i + 1 < layers.size()) x = tanh ? torch::tanh(x) : torch::relu(x);
    }
    return x;
  }
  bool tanh;
  std::vector<nn::Linear> layers;
};

struct ImageModel : TorchModel {
  explicit ImageModel(bool channels_last)
      : format(channels_last ? torch::MemoryFormat::ChannelsLast
                             : torch::MemoryFormat::Contiguous) {}
  Tensor images_of(const Tensor& x) const {
    // With one channel both layouts are the same bytes, and strides alone tell them apart.
    return format == torch::MemoryFormat::ChannelsLast
               ? x.view({-1, kSide, kSide, 1}).permute({0, 3, 1, 2})
               : x.view({-1, 1, kSide, kSide});
  }
  nn::Conv2d convolution(const std::string& name, int64_t in, int64_t out, int64_t side,
                         int64_t stride, bool bias) {
    nn::Conv2d made(nn::Conv2dOptions(in, out, side).padding(side / 2).stride(stride).bias(bias));
    made->weight.set_data(made->weight.contiguous(format));
    return register_module(name, made);
  }
  torch::MemoryFormat format;
};

struct LeNet final : ImageModel {
  explicit LeNet(bool channels_last) : ImageModel(channels_last) {}
  Tensor forward(Tensor x) override {
    x = torch::max_pool2d(torch::relu(conv1(images_of(x))), 2);
    x = torch::max_pool2d(torch::relu(conv2(x)), 2);
    x = torch::relu(dense1(x.flatten(1)));
    return dense2(torch::dropout(x, 0.4, is_training()));
  }
  nn::Conv2d conv1 = convolution("conv1", 1, 32, 5, 1, true);
  nn::Conv2d conv2 = convolution("conv2", 32, 64, 5, 1, true);
  nn::Linear dense1 = register_module("dense1", nn::Linear(7 * 7 * 64, 512));
  nn::Linear dense2 = register_module("dense2", nn::Linear(512, 10));
};

struct Residual final : ImageModel {
  Residual(int64_t in, int64_t out, int64_t stride, bool channels_last)
      : ImageModel(channels_last),
        conv1(convolution("conv1", in, out, 3, stride, false)),
        conv2(convolution("conv2", out, out, 3, 1, false)),
        norm1(register_module("norm1", nn::BatchNorm2d(out))),
        norm2(register_module("norm2", nn::BatchNorm2d(out))) {
    if (in != out) shortcut = convolution("shortcut", in, out, 1, stride, false);
  }
  Tensor forward(Tensor x) override {
    const Tensor y = norm2(conv2(torch::relu(norm1(conv1(x)))));
    return torch::relu(y + (shortcut.is_empty() ? x : shortcut(x)));
  }
  nn::Conv2d conv1, conv2;
  nn::BatchNorm2d norm1, norm2;
  nn::Conv2d shortcut{nullptr};
};

struct ResNet final : ImageModel {
  explicit ResNet(bool channels_last) : ImageModel(channels_last) {
    for (const auto& [in, out] : {std::pair{16, 16}, {16, 32}, {32, 64}}) {
      const auto block = std::make_shared<Residual>(in, out, in == out ? 1 : 2, channels_last);
      blocks.push_back(register_module("block" + std::to_string(blocks.size()), block));
    }
  }
  Tensor forward(Tensor x) override {
    x = torch::relu(norm(first(images_of(x))));
    for (const auto& block : blocks) x = block->forward(x);
    return logits(x.mean({2, 3}));
  }
  nn::Conv2d first = convolution("first", 1, 16, 3, 1, false);
  nn::BatchNorm2d norm = register_module("norm", nn::BatchNorm2d(16));
  std::vector<std::shared_ptr<Residual>> blocks;
  nn::Linear logits = register_module("logits", nn::Linear(64, 10));
};

constexpr int64_t kWidth = 64, kHeads = 4;

// libtorch's own encoder layer normalises behind the sum; this is the order of Keel's block.
struct Block final : nn::Module {
  explicit Block(bool looks_back) : causal(looks_back) {}
  Tensor forward(const Tensor& x) {
    const Tensor middle = x + attention(norm1(x));
    return middle + out(torch::gelu(hidden(norm2(middle))));
  }
  Tensor attention(const Tensor& x) {
    const int64_t batch = x.size(0), tokens = x.size(1);
    const auto parts = inputs(x)
                           .view({batch, tokens, 3, kHeads, kWidth / kHeads})
                           .permute({2, 0, 3, 1, 4})
                           .unbind(0);
    Tensor scores = torch::matmul(parts[0] / std::sqrt(static_cast<double>(kWidth / kHeads)),
                                  parts[1].transpose(-2, -1));
    if (causal) {
      if (!mask.defined() || mask.size(0) != tokens)
        mask = torch::ones({tokens, tokens}, torch::kBool).triu(1);
      scores = scores.masked_fill(mask, -std::numeric_limits<float>::infinity());
    }
    const Tensor seen = torch::matmul(torch::softmax(scores, -1), parts[2]);
    return joined(seen.transpose(1, 2).reshape({batch, tokens, kWidth}));
  }
  bool causal;
  Tensor mask;
  nn::LayerNorm norm1 = register_module("norm1", nn::LayerNorm(nn::LayerNormOptions({kWidth})));
  nn::LayerNorm norm2 = register_module("norm2", nn::LayerNorm(nn::LayerNormOptions({kWidth})));
  nn::Linear inputs = register_module("inputs", nn::Linear(kWidth, 3 * kWidth));
  nn::Linear joined = register_module("joined", nn::Linear(kWidth, kWidth));
  nn::Linear hidden = register_module("hidden", nn::Linear(kWidth, 4 * kWidth));
  nn::Linear out = register_module("out", nn::Linear(4 * kWidth, kWidth));
};

struct Encoder : TorchModel {
  Encoder(bool looks_back, int64_t tokens, int64_t classes)
      : blocks{register_module("block1", std::make_shared<Block>(looks_back)),
               register_module("block2", std::make_shared<Block>(looks_back))},
        positions(register_parameter("positions", torch::randn({tokens, kWidth}) * 0.02)),
        logits(register_module("logits", nn::Linear(kWidth, classes))) {}
  Tensor encoded(const Tensor& tokens) {
    Tensor x = tokens + positions;
    for (const auto& block : blocks) x = block->forward(x);
    return norm(x);
  }
  std::vector<std::shared_ptr<Block>> blocks;
  Tensor positions;
  nn::LayerNorm norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({kWidth})));
  nn::Linear logits;
};

struct Transformer final : Encoder {
  Transformer() : Encoder(false, kSide, 10) {}
  Tensor forward(Tensor x) override {
    return logits(encoded(embed(x.view({-1, kSide, kSide}))).mean(1));
  }
  nn::Linear embed = register_module("embed", nn::Linear(kSide, kWidth));
};

struct CharLm final : Encoder {
  CharLm() : Encoder(true, kTextWindow, 256) {}
  Tensor forward(Tensor x) override { return logits(encoded(symbols(x))).view({-1, 256}); }
  nn::Embedding symbols = register_module("symbols", nn::Embedding(256, kWidth));
};

struct RowReader final : TorchModel {
  Tensor forward(Tensor x) override {
    const Tensor all = std::get<0>(lstm(x.view({-1, kSide, kSide})));
    return logits(all.select(1, kSide - 1));
  }
  nn::LSTM lstm = register_module("lstm", nn::LSTM(nn::LSTMOptions(kSide, 128).batch_first(true)));
  nn::Linear logits = register_module("logits", nn::Linear(128, 10));
};

}  // namespace

std::shared_ptr<TorchModel> make_torch_model(const TrainingTask& task, bool channels_last) {
  if (task.name == "lenet") return std::make_shared<LeNet>(channels_last);
  if (task.name == "resnet") return std::make_shared<ResNet>(channels_last);
  if (task.name == "transformer") return std::make_shared<Transformer>();
  if (task.name == "lstm") return std::make_shared<RowReader>();
  if (task.name == "charlm") return std::make_shared<CharLm>();
  if (task.widths.empty())
    throw keel::Error({.op = task.name, .message = "has no model for libtorch"});
  return std::make_shared<DenseLayers>(task);
}

}  // namespace keel_bench
