#include "peers/libtorch.h"

#include <functional>

#include <torch/torch.h>

namespace keel_peers {
namespace {

using torch::Tensor;
using Tensors = std::vector<Tensor>;

Tensor tensor_of(const Array& array) {
  return torch::tensor(array.values, torch::kFloat64).reshape(array.shape).contiguous();
}

Array array_of(const Tensor& tensor) {
  const Tensor dense = tensor.detach().contiguous();
  const double* values = dense.data_ptr<double>();
  return {dense.sizes().vec(), {values, values + dense.numel()}};
}

// The output of a function and its gradients.
Arrays differentiated(const Arrays& operands, const Array& upstream,
                      const std::function<Tensor(const Tensors&)>& function) {
  at::set_num_threads(1);
  Tensors inputs;
  for (const Array& operand : operands) inputs.push_back(tensor_of(operand).requires_grad_());
  const Tensor output = function(inputs);
  (output * tensor_of(upstream)).sum().backward();
  Arrays results = {array_of(output)};
  for (const Tensor& input : inputs) results.push_back(array_of(input.grad()));
  return results;
}

template <size_t kSize>
at::IntArrayRef list(const std::array<int64_t, kSize>& numbers) {
  return {numbers.data(), numbers.size()};
}

// The pads of height and width, which are the same in front and behind.
std::array<int64_t, 2> symmetric(const Window& window) { return {window.pads[0], window.pads[2]}; }

}  // namespace

Arrays conv2d(const Array& x, const Array& weights, const Window& window, const Array& upstream) {
  return differentiated({x, weights}, upstream, [&](const Tensors& in) {
    constexpr std::array<int64_t, 2> kNone = {0, 0};
    const auto& p = window.pads;
    // libtorch counts from the last axis.
    const Tensor padded = at::constant_pad_nd(in[0], {p[2], p[3], p[0], p[1]});
    return at::conv2d(padded, in[1], {}, list(window.stride), list(kNone), list(window.dilation),
                      window.groups);
  });
}

Arrays conv_transpose2d(const Array& x, const Array& weights, const Window& window,
                        const Array& upstream) {
  return differentiated({x, weights}, upstream, [&](const Tensors& in) {
    const auto pads = symmetric(window);
    return at::conv_transpose2d(in[0], in[1], {}, list(window.stride), list(pads), {0, 0},
                                window.groups, list(window.dilation));
  });
}

Arrays pool2d(Pool pool, const Array& x, std::array<int64_t, 2> size, const Window& window,
              const Array& upstream) {
  return differentiated({x}, upstream, [&](const Tensors& in) {
    const auto pads = symmetric(window);
    if (pool == Pool::kMax)
      return at::max_pool2d(in[0], list(size), list(window.stride), list(pads));
    return at::avg_pool2d(in[0], list(size), list(window.stride), list(pads), false,
                          pool == Pool::kAverageWithPadding);
  });
}

Arrays batch_norm(const Array& x, const Array& scale, const Array& offset, double epsilon,
                  const Array& upstream) {
  const int64_t channels = scale.shape.at(0);
  Tensor mean = torch::zeros({channels}, torch::kFloat64);
  Tensor variance = torch::zeros({channels}, torch::kFloat64);
  Arrays results = differentiated({x, scale, offset}, upstream, [&](const Tensors& in) {
    return at::batch_norm(in[0], in[1], in[2], mean, variance, true, 1.0, epsilon, false);
  });
  // With a momentum of 1 the running statistics are the batch's, the variance over n - 1.
  const auto count = static_cast<double>(x.values.size()) / static_cast<double>(channels);
  results.push_back(array_of(mean));
  results.push_back(array_of(variance * ((count - 1) / count)));
  return results;
}

Arrays layer_norm(const Array& x, const Array& scale, const Array& offset, double epsilon,
                  const Array& upstream) {
  return differentiated({x, scale, offset}, upstream, [&](const Tensors& in) {
    return at::layer_norm(in[0], scale.shape, in[1], in[2], epsilon);
  });
}

Arrays group_norm(const Array& x, int64_t groups, const Array& scale, const Array& offset,
                  double epsilon, const Array& upstream) {
  return differentiated({x, scale, offset}, upstream, [&](const Tensors& in) {
    return at::group_norm(in[0], groups, in[1], in[2], epsilon);
  });
}

Arrays multi_head_attention(const Arrays& operands, int64_t heads, bool causal,
                            const Array& upstream) {
  return differentiated(operands, upstream, [&](const Tensors& in) {
    namespace F = torch::nn::functional;
    const int64_t time = in[0].size(0), width = in[0].size(2);
    auto options = F::MultiheadAttentionForwardFuncOptions(width, heads, in[1], in[2], {}, {},
                                                           false, 0.0, in[3], in[4]);
    options.training(false).need_weights(false);
    if (causal) {
      options.attn_mask(torch::full({time, time}, -INFINITY, torch::kFloat64).triu(1));
    }
    return std::get<0>(F::multi_head_attention_forward(in[0], in[0], in[0], options));
  });
}

Arrays lstm(const Arrays& operands, const Array& upstream) {
  return differentiated(operands, upstream, [](const Tensors& in) {
    return std::get<0>(at::lstm(in[0], {in[5].unsqueeze(0), in[6].unsqueeze(0)},
                                {in[1], in[2], in[3], in[4]}, true, 1, 0.0, true, false, false));
  });
}

Arrays gru(const Arrays& operands, const Array& upstream) {
  return differentiated(operands, upstream, [](const Tensors& in) {
    return std::get<0>(at::gru(in[0], in[5].unsqueeze(0), {in[1], in[2], in[3], in[4]}, true, 1,
                               0.0, true, false, false));
  });
}

}  // namespace keel_peers
