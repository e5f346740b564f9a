// What libtorch computes, in double precision: each function gives an output, then the gradients of
// sum(output * upstream) for its operands, in their order. Images are NCHW and weights OIHW. In a
// file of its own, since libtorch's headers and doctest's define macros of one name.
#ifndef KEEL_TESTS_PEERS_LIBTORCH_H
#define KEEL_TESTS_PEERS_LIBTORCH_H

#include <array>
#include <cstdint>
#include <vector>

namespace keel_peers {

struct Array {
  std::vector<int64_t> shape;
  std::vector<double> values;
};
using Arrays = std::vector<Array>;

struct Window {
  std::array<int64_t, 2> stride = {1, 1};
  std::array<int64_t, 4> pads = {0, 0, 0, 0};  // top, bottom, left, right
  std::array<int64_t, 2> dilation = {1, 1};
  int64_t groups = 1;
};

Arrays conv2d(const Array& x, const Array& weights, const Window& window, const Array& upstream);
// Pads are the same in front and behind here.
Arrays conv_transpose2d(const Array& x, const Array& weights, const Window& window,
                        const Array& upstream);

enum class Pool { kMax, kAverage, kAverageWithPadding };
// Pads are the same in front and behind here.
Arrays pool2d(Pool pool, const Array& x, std::array<int64_t, 2> size, const Window& window,
              const Array& upstream);

// In training, with the statistics of the batch; operands: x, scale, offset. The last two of the
// result are the batch's mean and its variance as of a population.
Arrays batch_norm(const Array& x, const Array& scale, const Array& offset, double epsilon,
                  const Array& upstream);
// Along the last axis.
Arrays layer_norm(const Array& x, const Array& scale, const Array& offset, double epsilon,
                  const Array& upstream);
Arrays group_norm(const Array& x, int64_t groups, const Array& scale, const Array& offset,
                  double epsilon, const Array& upstream);

// Attention of several heads of x [time, batch, width] with itself, as torch.nn.MultiheadAttention
// computes it. Operands: x, weights [3 * width, width] and bias of queries, keys and values,
// weights and bias of what follows.
Arrays multi_head_attention(const Arrays& operands, int64_t heads, bool causal,
                            const Array& upstream);

// x [time, batch, features], weights of x [gates * units, features] and of the state, their biases,
// the first state (lstm: and the first cell). The output is the states of all steps.
Arrays lstm(const Arrays& operands, const Array& upstream);
Arrays gru(const Arrays& operands, const Array& upstream);

}  // namespace keel_peers

#endif  // KEEL_TESTS_PEERS_LIBTORCH_H
