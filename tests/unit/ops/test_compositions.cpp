// Functions that are made of ops and so have no samples of their own: random shapes on every
// backend, values by the plain loops written here, gradients beside those of `ref` in f64.
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "drawn_steps_for_tests.h"
#include "gradients_for_tests.h"
#include "unit/ops/logistic_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::testing;

constexpr int kCases = 25;

// A call of a composition, and what it should give.
struct Call {
  std::vector<Tensor> inputs;  // floats in f64, whose numbers f32 holds exactly
  std::function<Value(const Values& inputs)> build;
  Doubles expected;
};

Tensor as(const Tensor& tensor, DType dtype) {
  if (!is_float(tensor.dtype())) return tensor;
  Tensor result(dtype, tensor.shape());
  for (int64_t i = 0; i < tensor.num_elements(); ++i) result.set(i, tensor.at(i));
  return result;
}

// The value, then the gradients of a weighted sum of it.
Rows run_on(const std::string& backend, const Call& call, DType dtype) {
  Graph g;
  Values inputs, floats;
  Feeds feeds;
  for (const Tensor& tensor : call.inputs) {
    const Tensor fed = as(tensor, dtype);
    inputs.push_back(g.input("x" + std::to_string(inputs.size()), fed.dtype(), fed.shape()));
    feeds.push_back({inputs.back(), fed});
    if (is_float(fed.dtype())) floats.push_back(inputs.back());
  }
  Values fetches = {call.build(inputs)};
  const Value weights = g.constant(waves(fetches[0].shape(), 7, dtype));
  for (const Value& d : gradients(sum(fetches[0] * weights), floats)) fetches.push_back(d);
  Session session(g, device(backend));
  Rows rows;
  for (const Tensor& t : session.run(fetches, feeds)) rows.push_back(elements(t));
  return rows;
}

// Each number is within `relative` of the largest beside it, which counts as 1 where it is less.
void check_near(const Doubles& got, const Doubles& expected, double relative) {
  double largest = 1;
  for (const double v : expected) largest = std::max(largest, std::fabs(v));
  check_close(got, expected, relative * largest);
}

void check_calls(const std::function<Call(Draws&)>& draw) {
  Draws draws(3);
  for (int i = 0; i < kCases; ++i) {
    CAPTURE(i);
    const Call call = draw(draws);
    const Rows doubles = run_on("ref", call, f64);
    check_near(doubles[0], call.expected, 1e-12);
    for (const std::string& backend : backend_names()) {
      CAPTURE(backend);
      const Rows got = run_on(backend, call, f32);
      check_near(got[0], call.expected, 1e-5);
      REQUIRE(got.size() == doubles.size());
      for (size_t k = 1; k < got.size(); ++k) check_near(got[k], doubles[k], 2e-5);
    }
  }
}

Shape draw_shape(Draws& draws, size_t rank, int64_t largest) {
  Shape shape;
  for (size_t i = 0; i < rank; ++i) shape.push_back(draws.integer(1, largest));
  return shape;
}

// Calls body(index, flat) for each element of a shape.
void for_each_index(const Shape& shape,
                    const std::function<void(const std::vector<int64_t>&, int64_t)>& body) {
  std::vector<int64_t> index(shape.rank(), 0);
  for (int64_t flat = 0; flat < shape.num_elements(); ++flat) {
    int64_t rest = flat;
    for (size_t i = shape.rank(); i-- > 0; rest /= shape[i]) index[i] = rest % shape[i];
    body(index, flat);
  }
}
int64_t flat_of(const Shape& shape, const std::vector<int64_t>& index) {
  int64_t flat = 0;
  for (size_t i = 0; i < shape.rank(); ++i) flat = flat * shape[i] + index[i];
  return flat;
}

// The elements of x from where `source` says.
Doubles moved(const Tensor& x, const Shape& result,
              const std::function<std::vector<int64_t>(std::vector<int64_t>)>& source) {
  Doubles numbers;
  for_each_index(result, [&](const std::vector<int64_t>& index, int64_t) {
    numbers.push_back(x.at(flat_of(x.shape(), source(index))));
  });
  return numbers;
}

TEST_CASE("compositions: reverse roll and tile") {
  check_calls([](Draws& draws) {
    const auto rank = static_cast<size_t>(draws.integer(1, 4));
    const Tensor x = draws.tensor(draw_shape(draws, rank, 5), f64);
    std::vector<int64_t> axes, repeats;
    Shape tiled;
    for (size_t i = 0; i < rank; ++i) {
      if (draws.integer(0, 1) == 0) axes.push_back(static_cast<int64_t>(i));
      repeats.push_back(draws.integer(1, 3));
      tiled.push_back(x.shape()[i] * repeats[i]);
    }
    if (axes.empty()) axes = {0};
    const auto rolled = static_cast<size_t>(draws.integer(0, static_cast<int64_t>(rank) - 1));
    const int64_t shift = draws.integer(-9, 9), size = x.shape()[rolled];
    return Call{{x},
                [=](const Values& in) {
                  return tile(roll(reverse(in[0], axes), shift, static_cast<int64_t>(rolled)),
                              repeats);
                },
                moved(x, tiled, [&](std::vector<int64_t> index) {
                  for (size_t i = 0; i < rank; ++i) index[i] %= x.shape()[i];
                  index[rolled] = (index[rolled] - shift % size + size) % size;
                  for (const int64_t axis : axes) {
                    const auto i = static_cast<size_t>(axis);
                    index[i] = x.shape()[i] - 1 - index[i];
                  }
                  return index;
                })};
  });
}

TEST_CASE("compositions: conv1d") {
  check_calls([](Draws& draws) {
    const int64_t groups = draws.integer(0, 2) == 0 ? draws.integer(2, 3) : 1;
    const int64_t batch = draws.integer(1, 3), in = draws.integer(1, 4), out = draws.integer(1, 4);
    const int64_t kernel = draws.integer(1, 4), stride = draws.integer(1, 5);
    const int64_t dilation = draws.integer(1, 2), low = draws.integer(0, 3);
    const int64_t high = draws.integer(0, 3), reach = (kernel - 1) * dilation + 1;
    const int64_t width = std::max<int64_t>(reach - low - high, 1) + draws.integer(0, 6);
    const int64_t windows = (low + width + high - reach) / stride + 1;
    const Tensor x = draws.tensor({batch, width, in * groups}, f64);
    const Tensor w = draws.tensor({kernel, in, out * groups}, f64);
    Doubles y;
    for_each_index({batch, windows, out * groups}, [&](const std::vector<int64_t>& at, int64_t) {
      double total = 0;
      for (int64_t k = 0; k < kernel; ++k) {
        const int64_t place = at[1] * stride + k * dilation - low;
        if (place < 0 || place >= width) continue;
        for (int64_t c = 0; c < in; ++c) {
          const int64_t from = at[2] / out * in + c;
          total += x.at((at[0] * width + place) * in * groups + from) *
                   w.at((k * in + c) * out * groups + at[2]);
        }
      }
      y.push_back(total);
    });
    return Call{{x, w},
                [=](const Values& inputs) {
                  return conv1d(inputs[0], inputs[1],
                                {.stride = stride,
                                 .padding = "explicit",
                                 .pads = {low, high},
                                 .dilation = dilation,
                                 .groups = groups});
                },
                y};
  });
}

// Each element spreads its kernel over the result; what falls beyond it is cut off.
TEST_CASE("compositions: conv_transpose2d") {
  check_calls([](Draws& draws) {
    const int64_t batch = draws.integer(1, 2), in = draws.integer(1, 4), out = draws.integer(1, 4);
    std::vector<int64_t> from(2), kernel(2), stride(2), pads, size(2);
    for (size_t i = 0; i < 2; ++i) {
      from[i] = draws.integer(1, 4);
      kernel[i] = draws.integer(1, 4);
      stride[i] = draws.integer(1, 5);
      const int64_t low = draws.integer(0, kernel[i] - 1), high = draws.integer(0, kernel[i] - 1);
      pads.push_back(low);
      pads.push_back(high);
      size[i] = (from[i] - 1) * stride[i] + kernel[i] - low - high;
    }
    if (size[0] < 1 || size[1] < 1) {
      pads = {0, 0, 0, 0};
      for (size_t i = 0; i < 2; ++i) size[i] = (from[i] - 1) * stride[i] + kernel[i];
    }
    const Tensor x = draws.tensor({batch, from[0], from[1], in}, f64);
    const Tensor w = draws.tensor({kernel[0], kernel[1], out, in}, f64);
    const Shape result = {batch, size[0], size[1], out};
    Doubles y(static_cast<size_t>(result.num_elements()), 0);
    for_each_index(x.shape(), [&](const std::vector<int64_t>& at, int64_t flat) {
      for (int64_t a = 0; a < kernel[0]; ++a) {
        for (int64_t b = 0; b < kernel[1]; ++b) {
          const int64_t row = at[1] * stride[0] + a - pads[0];
          const int64_t column = at[2] * stride[1] + b - pads[2];
          if (row < 0 || row >= size[0] || column < 0 || column >= size[1]) continue;
          for (int64_t c = 0; c < out; ++c) {
            y[static_cast<size_t>(flat_of(result, {at[0], row, column, c}))] +=
                x.at(flat) * w.at(((a * kernel[1] + b) * out + c) * in + at[3]);
          }
        }
      }
    });
    return Call{{x, w},
                [=](const Values& inputs) {
                  return conv_transpose2d(inputs[0], inputs[1],
                                          {.stride = stride, .padding = "explicit", .pads = pads});
                },
                y};
  });
}

// (x - mean) / sqrt(variance + epsilon) of consecutive elements, `count` at a time.
Doubles normalised_runs(const Tensor& x, int64_t count, double epsilon, bool centre) {
  Doubles result;
  for (int64_t begin = 0; begin < x.num_elements(); begin += count) {
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < count; ++i) mean += centre ? x.at(begin + i) : 0;
    mean /= static_cast<double>(count);
    for (int64_t i = 0; i < count; ++i) variance += std::pow(x.at(begin + i) - mean, 2);
    const double spread = std::sqrt(variance / static_cast<double>(count) + epsilon);
    for (int64_t i = 0; i < count; ++i) result.push_back((x.at(begin + i) - mean) / spread);
  }
  return result;
}

TEST_CASE("compositions: layer norm and rms norm") {
  for (const bool centre : {true, false}) {
    check_calls([centre](Draws& draws) {
      Shape shape = draw_shape(draws, static_cast<size_t>(draws.integer(0, 3)), 4);
      const int64_t features = draws.integer(1, 40);
      shape.push_back(features);
      const Tensor x = draws.tensor(shape, f64), scale = draws.tensor({features}, f64);
      const Tensor offset = draws.tensor({features}, f64);
      Doubles y = normalised_runs(x, features, 0.1, centre);
      for (size_t i = 0; i < y.size(); ++i) {
        const int64_t feature = static_cast<int64_t>(i) % features;
        y[i] = y[i] * scale.at(feature) + offset.at(feature);
      }
      return Call{{x, scale, offset},
                  [centre](const Values& in) {
                    return centre ? layer_norm(in[0], in[1], in[2], {.epsilon = 0.1})
                                  : rms_norm(in[0], in[1], {.epsilon = 0.1}) + in[2];
                  },
                  y};
    });
  }
}

TEST_CASE("compositions: group norm") {
  check_calls([](Draws& draws) {
    const int64_t groups = draws.integer(1, 4), of_group = draws.integer(1, 5);
    const int64_t channels = groups * of_group, batch = draws.integer(1, 3);
    const Shape rest = draw_shape(draws, static_cast<size_t>(draws.integer(0, 2)), 5);
    Shape shape = {batch, channels};
    for (const int64_t dim : rest) shape.push_back(dim);
    const int64_t size = rest.num_elements();
    const Tensor x = draws.tensor(shape, f64), scale = draws.tensor({channels}, f64);
    const Tensor offset = draws.tensor({channels}, f64);
    Doubles y = normalised_runs(x, of_group * size, 0.1, true);
    for (size_t i = 0; i < y.size(); ++i) {
      const int64_t channel = static_cast<int64_t>(i) / size % channels;
      y[i] = y[i] * scale.at(channel) + offset.at(channel);
    }
    return Call{{x, scale, offset},
                [groups](const Values& in) {
                  return group_norm(in[0], groups, in[1], in[2],
                                    {.epsilon = 0.1, .channel_axis = 1});
                },
                y};
  });
}

// A loss of two values of one shape, and of one element of each.
struct PairLoss {
  std::function<Value(const Value&, const Value&)> build;
  std::function<double(double, double)> element;
};

TEST_CASE("compositions: losses of elements and their means") {
  const auto logistic = [](double x) { return 1 / (1 + std::exp(-x)); };
  const std::vector<PairLoss> losses = {
      {[](const Value& a, const Value& b) { return huber(a, b, 0.25); },
       [](double a, double b) {
         const double d = std::fabs(a - b);
         return d <= 0.25 ? d * d / 2 : 0.25 * (d - 0.125);
       }},
      {[](const Value& a, const Value& b) { return sigmoid_cross_entropy(a * 4.0, b * 0.5 + 0.5); },
       [&](double a, double b) {
         const double p = logistic(4 * a), t = b / 2 + 0.5;
         return -t * std::log(p) - (1 - t) * std::log(1 - p);
       }},
      {[](const Value& a, const Value& b) { return hinge(a * 2.0, b); },
       [](double a, double b) { return std::max(0.0, 1 - 2 * a * b); }}};
  const std::vector<PairLoss> means = {
      {[](const Value& a, const Value& b) { return mean_squared_error(a, b); },
       [](double a, double b) { return (a - b) * (a - b); }},
      {[](const Value& a, const Value& b) { return mean_absolute_error(a, b); },
       [](double a, double b) { return std::fabs(a - b); }}};
  for (const PairLoss& loss : losses) {
    check_calls([&](Draws& draws) {
      const Shape shape = draw_shape(draws, static_cast<size_t>(draws.integer(1, 3)), 6);
      const Tensor a = draws.tensor(shape, f64), b = draws.tensor(shape, f64);
      Doubles y;
      for (int64_t i = 0; i < a.num_elements(); ++i) y.push_back(loss.element(a.at(i), b.at(i)));
      return Call{{a, b}, [&](const Values& in) { return loss.build(in[0], in[1]); }, y};
    });
  }
  for (const PairLoss& loss : means) {
    check_calls([&](Draws& draws) {
      const Shape shape = draw_shape(draws, static_cast<size_t>(draws.integer(1, 3)), 6);
      const Tensor a = draws.tensor(shape, f64), b = draws.tensor(shape, f64);
      double total = 0;
      for (int64_t i = 0; i < a.num_elements(); ++i) total += loss.element(a.at(i), b.at(i));
      return Call{{a, b},
                  [&](const Values& in) { return loss.build(in[0], in[1]); },
                  {total / static_cast<double>(a.num_elements())}};
    });
  }
}

TEST_CASE("compositions: losses of rows") {
  check_calls([](Draws& draws) {
    const int64_t batch = draws.integer(1, 6), classes = draws.integer(1, 12);
    const Tensor logits = draws.tensor({batch, classes}, f64);
    const Tensor weights = draws.tensor({batch, classes}, f64);
    Tensor ids(u8, {batch});
    Doubles y;
    for (int64_t r = 0; r < batch; ++r) {
      ids.set(r, static_cast<double>(draws.integer(0, classes - 1)));
      double of_logits = 0, of_weights = 0, divergence = 0;
      for (int64_t c = 0; c < classes; ++c) {
        of_logits += std::exp(logits.at(r * classes + c));
        of_weights += std::exp(weights.at(r * classes + c));
      }
      for (int64_t c = 0; c < classes; ++c) {
        const double p = std::exp(weights.at(r * classes + c)) / of_weights;
        const double log_q = logits.at(r * classes + c) - std::log(of_logits);
        divergence += p * (std::log(p) - log_q);
      }
      const double likelihood =
          std::log(of_logits) - logits.at(r * classes + static_cast<int64_t>(ids.at(r)));
      y.push_back(likelihood + 2 * divergence);
    }
    return Call{{logits, weights, ids},
                [](const Values& in) {
                  const Value log_q = log_softmax(in[0]);
                  return negative_log_likelihood(log_q, in[2]) +
                         2.0 * kl_divergence(log_q, softmax(in[1]));
                },
                y};
  });
}

// ---- recurrence

// Sizes of a sequence, and tensors of x, the weights, the biases and the state.
struct Recurrence {
  int64_t time, batch, features, units;
  std::vector<Tensor> tensors;

  Recurrence(Draws& draws, int64_t gates, int64_t biases, int64_t states)
      : time(draws.integer(1, 5)),
        batch(draws.integer(1, 3)),
        features(draws.integer(1, 6)),
        units(draws.integer(1, 6)) {
    tensors.push_back(draws.tensor({time, batch, features}, f64));
    tensors.push_back(draws.tensor({features, gates * units}, f64));
    tensors.push_back(draws.tensor({units, gates * units}, f64));
    for (int64_t i = 0; i < biases; ++i) tensors.push_back(draws.tensor({gates * units}, f64));
    for (int64_t i = 0; i < states; ++i) tensors.push_back(draws.tensor({batch, units}, f64));
  }
  double of_x(int64_t t, int64_t b, int64_t column) const {
    double total = 0;
    for (int64_t i = 0; i < features; ++i) {
      total += tensors[0].at((t * batch + b) * features + i) *
               tensors[1].at(i * tensors[1].shape()[1] + column);
    }
    return total;
  }
  double of_state(const Doubles& state, int64_t b, int64_t column) const {
    double total = 0;
    for (int64_t i = 0; i < units; ++i) {
      total += state[static_cast<size_t>(b * units + i)] *
               tensors[2].at(i * tensors[2].shape()[1] + column);
    }
    return total;
  }
};

TEST_CASE("compositions: lstm") {
  check_calls([](Draws& draws) {
    const Recurrence r(draws, 4, 1, 2);
    const bool reverse = draws.integer(0, 1) == 0;
    Doubles h = elements(r.tensors[4]), c = elements(r.tensors[5]);
    Doubles outputs(static_cast<size_t>(r.time * r.batch * r.units));
    for (int64_t step = 0; step < r.time; ++step) {
      const int64_t t = reverse ? r.time - 1 - step : step;
      const Doubles before = h;
      for_each_index({r.batch, r.units}, [&](const std::vector<int64_t>& at, int64_t flat) {
        const auto gate = [&](int64_t which) {
          const int64_t column = which * r.units + at[1];
          return r.of_x(t, at[0], column) + r.of_state(before, at[0], column) +
                 r.tensors[3].at(column);
        };
        const auto i = static_cast<size_t>(flat);
        c[i] = logistic(gate(1)) * c[i] + logistic(gate(0)) * std::tanh(gate(2));
        h[i] = logistic(gate(3)) * std::tanh(c[i]);
        outputs[static_cast<size_t>(t * r.batch * r.units + flat)] = h[i];
      });
    }
    return Call{r.tensors,
                [=](const Values& in) {
                  return lstm(in[0], {in[1], in[2], in[3]}, LstmState{in[4], in[5]},
                              {.reverse = reverse})
                      .outputs;
                },
                outputs};
  });
}

TEST_CASE("compositions: gru") {
  check_calls([](Draws& draws) {
    const Recurrence r(draws, 3, 2, 1);
    Doubles h = elements(r.tensors[5]), outputs;
    for (int64_t t = 0; t < r.time; ++t) {
      const Doubles before = h;
      for_each_index({r.batch, r.units}, [&](const std::vector<int64_t>& at, int64_t flat) {
        const auto of_x = [&](int64_t which) {
          const int64_t column = which * r.units + at[1];
          return r.of_x(t, at[0], column) + r.tensors[3].at(column);
        };
        const auto of_state = [&](int64_t which) {
          const int64_t column = which * r.units + at[1];
          return r.of_state(before, at[0], column) + r.tensors[4].at(column);
        };
        const double reset = logistic(of_x(0) + of_state(0));
        const double update = logistic(of_x(1) + of_state(1));
        const double candidate = std::tanh(of_x(2) + reset * of_state(2));
        const auto i = static_cast<size_t>(flat);
        h[i] = (1 - update) * candidate + update * before[i];
      });
      outputs.insert(outputs.end(), h.begin(), h.end());
    }
    return Call{r.tensors,
                [](const Values& in) {
                  return gru(in[0], {in[1], in[2], in[3], in[4]}, in[5]).outputs;
                },
                outputs};
  });
}

}  // namespace

TEST_SUITE_END();
