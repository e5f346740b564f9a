// TorchModel: the models of examples/models written for libtorch, layer by layer, for the contest
// of trainings. A module owns its parameters; one thread at a time.
#ifndef KEEL_TESTS_BENCH_TORCH_MODELS_H
#define KEEL_TESTS_BENCH_TORCH_MODELS_H

#include <memory>

#include <torch/torch.h>

#include "bench/training_task.h"

namespace keel_bench {

struct TorchModel : torch::nn::Module {
  // From f32 images [batch, 784] to logits [batch, 10]; of charlm, from i64 characters
  // [batch, window] to logits [batch * window, 256].
  virtual torch::Tensor forward(torch::Tensor x) = 0;
};

// `channels_last`: how convolutions lay out images and weights; others do not care.
std::shared_ptr<TorchModel> make_torch_model(const TrainingTask& task, bool channels_last);

}  // namespace keel_bench

#endif  // KEEL_TESTS_BENCH_TORCH_MODELS_H
