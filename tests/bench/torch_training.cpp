// What libtorch takes for the training steps that `keel train` runs: eager mode, autograd,
// optim::SGD, batches sliced from a float set that is ready in memory. Prints the median
// microseconds of a step. The counterpart in compare_training.sh. Usage: bench_torch_training
// softmax|mlp BATCH THREADS STEPS MNIST_DIR|digits
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include <keel/keel.h>
#include <torch/torch.h>

namespace {

struct Net : torch::nn::Module {
  explicit Net(bool deep) {
    const std::vector<int64_t> widths =
        deep ? std::vector<int64_t>{784, 512, 512, 10} : std::vector<int64_t>{784, 10};
    for (size_t i = 0; i + 1 < widths.size(); ++i) {
      layers.push_back(register_module("layer" + std::to_string(i),
                                       torch::nn::Linear(widths[i], widths[i + 1])));
    }
  }
  torch::Tensor forward(torch::Tensor x) {
    for (size_t i = 0; i < layers.size(); ++i) {
      x = layers[i](x);
      if (i + 1 < layers.size()) x = torch::relu(x);
    }
    return x;
  }
  std::vector<torch::nn::Linear> layers;
};

double seconds_per_step(bool deep, int64_t batch, int64_t steps, const torch::Tensor& images,
                        const torch::Tensor& labels) {
  torch::manual_seed(1);
  Net net(deep);
  torch::optim::SGD optimizer(net.parameters(), torch::optim::SGDOptions(0.01));
  const int64_t batches = images.size(0) / batch;
  const auto step = [&](int64_t i) {
    const auto x = images.narrow(0, i % batches * batch, batch);
    const auto y = labels.narrow(0, i % batches * batch, batch);
    optimizer.zero_grad();
    torch::nn::functional::cross_entropy(net.forward(x), y).backward();
    optimizer.step();
  };
  for (int64_t i = 0; i < 20; ++i) step(i);
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < steps; ++i) step(i);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() /
         static_cast<double>(steps);
}

int run(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: %s softmax|mlp BATCH THREADS STEPS MNIST_DIR|digits\n", argv[0]);
    return 2;
  }
  const bool deep = std::string(argv[1]) == "mlp";
  const int64_t batch = keel::parse_integer(argv[2], "BATCH", 1, 60000);
  torch::set_num_threads(static_cast<int>(keel::parse_integer(argv[3], "THREADS", 1, 1024)));
  const int64_t steps = keel::parse_integer(argv[4], "STEPS", 1);
  const std::string source = argv[5];
  keel::LabelledSplits data = source == "digits" ? keel::make_digits() : keel::load_mnist(source);
  const int64_t count = data.train.count();
  const auto images =
      torch::from_blob(data.train.images.raw(), {count, 784}, torch::kUInt8).to(torch::kFloat32) /
      255;
  const auto labels =
      torch::from_blob(data.train.labels.raw(), {count}, torch::kUInt8).to(torch::kInt64);
  std::vector<double> times;
  for (int i = 0; i < 3; ++i) times.push_back(seconds_per_step(deep, batch, steps, images, labels));
  std::sort(times.begin(), times.end());
  std::printf("%.3f\n", times[1] * 1e6);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
