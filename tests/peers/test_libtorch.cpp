// Convolutions, pooling, norms, attention and recurrence beside libtorch: outputs and gradients on
// every backend. libtorch computes in double. The bound on each number is kBound times the largest
// of its array, which is taken for 1 where it is less: in f32 the rounding of sums of up to a few
// hundred products of numbers below 1; ref computes in f64.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "peers/libtorch.h"
#include "unit/gradients_for_tests.h"

TEST_SUITE_BEGIN("libtorch");

namespace {

using namespace keel;
using namespace keel::testing;
using keel_peers::Array;
using keel_peers::Arrays;
using keel_peers::Window;

constexpr double kBound = 1e-5, kBoundOfDoubles = 1e-12;

Array array_of(const Tensor& tensor) {
  Array array{{}, elements(tensor)};
  for (const int64_t dim : tensor.shape()) array.shape.push_back(dim);
  return array;
}

double largest(const Doubles& values) {
  double most = 1;
  for (const double v : values) most = std::max(most, std::fabs(v));
  return most;
}

void check_array(const Tensor& got, const Array& expected, double bound) {
  REQUIRE(got.shape() == Shape(expected.shape));
  double wrong = 0;
  for (int64_t i = 0; i < got.num_elements(); ++i) {
    const double difference = std::fabs(got.at(i) - expected.values[static_cast<size_t>(i)]);
    wrong = std::isnan(difference) ? INFINITY : std::max(wrong, difference);
  }
  CHECK(wrong <= bound * largest(expected.values));
}

// What Keel computes of the operands: the first value is differentiated.
using Build = std::function<Values(const Values& operands)>;
// The same by libtorch: that value, its gradients, then the other values.
using Peer = std::function<Arrays(const Arrays& operands, const Array& upstream)>;

void check_peer(const std::vector<Shape>& shapes, const Build& build, const Peer& peer) {
  Points points;
  for (const Shape& shape : shapes)
    points.push_back(waves(shape, static_cast<double>(points.size())));
  Arrays operands, expected;
  Array upstream;
  for (const Tensor& point : points) operands.push_back(array_of(point));
  for (const std::string& backend : backend_names()) {
    CAPTURE(backend);
    const DType dtype = backend == "ref" ? f64 : f32;
    Graph g;
    Values inputs;
    for (const Tensor& point : points)
      inputs.push_back(g.input("x" + std::to_string(inputs.size()), dtype, point.shape()));
    const Values outputs = build(inputs);
    if (expected.empty()) {
      upstream = array_of(waves(outputs[0].shape(), 9));
      expected = peer(operands, upstream);
    }
    const Value weights = g.constant(waves(outputs[0].shape(), 9, dtype));
    Values fetches = {outputs[0]};
    for (const Value& d : gradients(sum(outputs[0] * weights), inputs)) fetches.push_back(d);
    fetches.insert(fetches.end(), outputs.begin() + 1, outputs.end());
    REQUIRE(fetches.size() == expected.size());
    Session session(g, device(backend));
    Feeds feeds;
    for (size_t i = 0; i < inputs.size(); ++i) {
      Tensor fed(dtype, points[i].shape());
      for (int64_t e = 0; e < fed.num_elements(); ++e) fed.set(e, points[i].at(e));
      feeds.push_back({inputs[i], fed});
    }
    const auto got = session.run(fetches, feeds);
    for (size_t i = 0; i < got.size(); ++i) {
      CAPTURE(i);
      check_array(got[i], expected[i], dtype == f64 ? kBoundOfDoubles : kBound);
    }
  }
}

// ---- images: Keel's side in NCHW, as libtorch's, and in NHWC between transpositions

Value last(const Value& x) { return transpose(x, {0, 2, 3, 1}); }
Value first(const Value& x) { return transpose(x, {0, 3, 1, 2}); }
Value hwio(const Value& weights) { return transpose(weights, {2, 3, 1, 0}); }

struct Convolution {
  const char* what;
  Shape x, weights;  // NCHW, OIHW
  Window window;
  std::string padding = "explicit";  // "same" where the window's pads are what that comes to
};

// Of a window: what the pads that libtorch is given come from.
Conv2dAttributes attributes_of(const Convolution& c, const char* layout) {
  Conv2dAttributes a{.stride = {c.window.stride[0], c.window.stride[1]},
                     .padding = c.padding,
                     .dilation = {c.window.dilation[0], c.window.dilation[1]},
                     .groups = c.window.groups,
                     .layout = layout};
  if (c.padding == "explicit") a.pads = {c.window.pads.begin(), c.window.pads.end()};
  return a;
}

const std::vector<Convolution>& convolutions() {
  static const std::vector<Convolution> all = {
      {"1x1", {2, 5, 3, 4}, {3, 5, 1, 1}, {}},
      {"3x3 same", {2, 3, 6, 5}, {4, 3, 3, 3}, {.pads = {1, 1, 1, 1}}, "same"},
      {"5x5 valid", {1, 2, 8, 9}, {3, 2, 5, 5}, {}},
      {"even kernel same", {2, 2, 5, 6}, {3, 2, 2, 4}, {.pads = {0, 1, 1, 2}}, "same"},
      {"stride 2 same",
       {1, 3, 6, 7},
       {2, 3, 3, 3},
       {.stride = {2, 2}, .pads = {0, 1, 1, 1}},
       "same"},
      {"stride beyond the kernel", {1, 2, 9, 8}, {2, 2, 2, 1}, {.stride = {4, 3}}},
      {"asymmetric pads", {2, 2, 4, 5}, {3, 2, 3, 2}, {.stride = {1, 2}, .pads = {2, 0, 1, 3}}},
      {"dilated",
       {1, 2, 9, 10},
       {2, 2, 3, 3},
       {.stride = {2, 1}, .pads = {2, 2, 3, 3}, .dilation = {2, 3}}},
      {"groups", {2, 6, 5, 5}, {9, 2, 3, 3}, {.pads = {1, 1, 1, 1}, .groups = 3}},
      {"depthwise",
       {2, 4, 6, 6},
       {8, 1, 3, 3},
       {.stride = {2, 2}, .pads = {1, 1, 1, 1}, .groups = 4}},
      {"one row", {1, 3, 1, 7}, {2, 3, 1, 2}, {.pads = {1, 0, 3, 2}}},
      {"many channels", {3, 17, 7, 7}, {20, 17, 3, 3}, {.pads = {1, 1, 1, 1}}, "same"},
  };
  return all;
}

}  // namespace

TEST_CASE("libtorch: conv2d") {
  for (const Convolution& c : convolutions()) {
    CAPTURE(std::string(c.what));
    const Peer peer = [&](const Arrays& in, const Array& upstream) {
      return keel_peers::conv2d(in[0], in[1], c.window, upstream);
    };
    check_peer(
        {c.x, c.weights},
        [&](const Values& in) { return Values{conv2d(in[0], in[1], attributes_of(c, "NCHW"))}; },
        peer);
    check_peer(
        {c.x, c.weights},
        [&](const Values& in) {
          return Values{first(conv2d(last(in[0]), hwio(in[1]), attributes_of(c, "NHWC")))};
        },
        peer);
  }
}

TEST_CASE("libtorch: conv_transpose2d") {
  const std::vector<Convolution> all = {
      {"3x3", {2, 3, 4, 5}, {3, 4, 3, 3}, {}},
      {"stride and pads", {1, 2, 4, 3}, {2, 3, 4, 3}, {.stride = {2, 3}, .pads = {1, 1, 1, 1}}},
      {"stride beyond the kernel", {1, 2, 3, 3}, {2, 2, 2, 1}, {.stride = {3, 2}}},
      {"groups and dilation", {2, 4, 3, 4}, {4, 3, 2, 3}, {.dilation = {2, 1}, .groups = 2}},
  };
  for (const Convolution& c : all) {
    CAPTURE(std::string(c.what));
    const Peer peer = [&](const Arrays& in, const Array& upstream) {
      return keel_peers::conv_transpose2d(in[0], in[1], c.window, upstream);
    };
    check_peer(
        {c.x, c.weights},
        [&](const Values& in) {
          return Values{conv_transpose2d(in[0], in[1], attributes_of(c, "NCHW"))};
        },
        peer);
    check_peer(
        {c.x, c.weights},
        [&](const Values& in) {
          return Values{
              first(conv_transpose2d(last(in[0]), hwio(in[1]), attributes_of(c, "NHWC")))};
        },
        peer);
  }
}

TEST_CASE("libtorch: pooling") {
  struct Row {
    const char* what;
    Shape x;
    std::array<int64_t, 2> size;
    Window window;
  };
  const std::vector<Row> rows = {
      {"2x2", {2, 3, 4, 6}, {2, 2}, {.stride = {2, 2}}},
      {"windows that overlap", {2, 2, 7, 6}, {3, 3}, {.stride = {2, 1}}},
      {"padded", {1, 5, 7, 7}, {3, 2}, {.stride = {2, 2}, .pads = {1, 1, 1, 1}}},
      {"stride beyond the window", {2, 2, 8, 9}, {2, 1}, {.stride = {3, 4}}},
      {"one window", {3, 20, 5, 4}, {5, 4}, {.stride = {1, 1}}},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.what));
    using keel_peers::Pool;
    for (const Pool pool : {Pool::kMax, Pool::kAverage, Pool::kAverageWithPadding}) {
      CAPTURE(static_cast<int>(pool));
      const auto pooled = [&](const Value& x, const char* layout) {
        const std::vector<int64_t> size = {row.size[0], row.size[1]};
        const std::vector<int64_t> stride = {row.window.stride[0], row.window.stride[1]};
        const std::vector<int64_t> pads = {row.window.pads.begin(), row.window.pads.end()};
        if (pool == Pool::kMax) {
          return max_pool2d(x, {.window = size,
                                .stride = stride,
                                .padding = "explicit",
                                .pads = pads,
                                .layout = layout});
        }
        return avg_pool2d(x, {.window = size,
                              .stride = stride,
                              .padding = "explicit",
                              .pads = pads,
                              .layout = layout,
                              .count_padding = pool == Pool::kAverageWithPadding});
      };
      const Peer peer = [&](const Arrays& in, const Array& upstream) {
        return keel_peers::pool2d(pool, in[0], row.size, row.window, upstream);
      };
      check_peer(
          {row.x}, [&](const Values& in) { return Values{pooled(in[0], "NCHW")}; }, peer);
      check_peer(
          {row.x}, [&](const Values& in) { return Values{first(pooled(last(in[0]), "NHWC"))}; },
          peer);
    }
  }
}

TEST_CASE("libtorch: norms") {
  for (const Shape& x : {Shape{4, 3, 5, 2}, Shape{2, 6, 1, 1}, Shape{7, 20}, Shape{3, 4, 33}}) {
    CAPTURE(to_string(x));
    const int64_t channels = x[1];
    check_peer(
        {x, {channels}, {channels}},
        [](const Values& in) {
          const BatchNormOutput y =
              batch_norm(in[0], in[1], in[2], {.epsilon = 1e-3, .channel_axis = 1});
          return Values{y.output, y.mean, y.variance};
        },
        [](const Arrays& in, const Array& upstream) {
          return keel_peers::batch_norm(in[0], in[1], in[2], 1e-3, upstream);
        });
    check_peer(
        {x, {x.back()}, {x.back()}},
        [](const Values& in) { return Values{layer_norm(in[0], in[1], in[2], {.epsilon = 1e-3})}; },
        [](const Arrays& in, const Array& upstream) {
          return keel_peers::layer_norm(in[0], in[1], in[2], 1e-3, upstream);
        });
  }
  for (const int64_t groups : {1, 2, 6}) {
    CAPTURE(groups);
    check_peer(
        {{3, 6, 4, 3}, {6}, {6}},
        [&](const Values& in) {
          return Values{
              group_norm(in[0], groups, in[1], in[2], {.epsilon = 1e-3, .channel_axis = 1})};
        },
        [&](const Arrays& in, const Array& upstream) {
          return keel_peers::group_norm(in[0], groups, in[1], in[2], 1e-3, upstream);
        });
  }
}

TEST_CASE("libtorch: attention of several heads") {
  struct Row {
    int64_t time, batch, width, heads;
    bool causal;
  };
  for (const Row& row : {Row{5, 2, 6, 2, false}, Row{7, 3, 8, 4, true}, Row{1, 2, 4, 1, true},
                         Row{40, 1, 16, 2, true}, Row{33, 2, 20, 1, false}}) {
    CAPTURE(row.time);
    const int64_t width = row.width;
    check_peer(
        {{row.time, row.batch, width}, {3 * width, width}, {3 * width}, {width, width}, {width}},
        [&](const Values& in) {
          const auto heads = [&](int64_t which) {
            const Value w = in[1][range(which * width, (which + 1) * width)];
            const Value b = in[2][range(which * width, (which + 1) * width)];
            const Value y = matmul(in[0], transpose(w)) + b;
            return transpose(reshape(y, {row.time, row.batch, row.heads, width / row.heads}),
                             {1, 2, 0, 3});
          };
          const Value seen = attention(heads(0), heads(1), heads(2), {.causal = row.causal});
          const Value together =
              reshape(transpose(seen, {2, 0, 1, 3}), {row.time, row.batch, width});
          return Values{matmul(together, transpose(in[3])) + in[4]};
        },
        [&](const Arrays& in, const Array& upstream) {
          return keel_peers::multi_head_attention(in, row.heads, row.causal, upstream);
        });
  }
}

TEST_CASE("libtorch: lstm and gru") {
  struct Row {
    int64_t time, batch, features, units;
  };
  for (const Row& row : {Row{4, 2, 3, 5}, Row{1, 1, 2, 1}, Row{9, 3, 17, 20}}) {
    CAPTURE(row.time);
    const Shape x = {row.time, row.batch, row.features}, state = {row.batch, row.units};
    const auto shapes = [&](int64_t gates) {
      const int64_t rows = gates * row.units;
      return std::vector<Shape>{x, {rows, row.features}, {rows, row.units}, {rows}, {rows}, state};
    };
    std::vector<Shape> of_lstm = shapes(4);
    of_lstm.push_back(state);
    check_peer(
        of_lstm,
        [](const Values& in) {
          // libtorch has two biases, which are added.
          const LstmWeights weights{transpose(in[1]), transpose(in[2]), in[3] + in[4]};
          return Values{lstm(in[0], weights, LstmState{in[5], in[6]}).outputs};
        },
        keel_peers::lstm);
    check_peer(
        shapes(3),
        [](const Values& in) {
          const GruWeights weights{transpose(in[1]), transpose(in[2]), in[3], in[4]};
          return Values{gru(in[0], weights, in[5]).outputs};
        },
        keel_peers::gru);
  }
}

TEST_SUITE_END();
