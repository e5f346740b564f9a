// Compositions that refuse two shapes when both are known took a 1 for any size at run time where
// a size was declared as -1, and broadcast it in silence, or failed in the name of an op inside.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "keel/graph/ir/rewriter.h"
#include "keel/graph/passes/passes.h"
#include "keel/keel.h"

#include "support/error_of.h"

namespace keel {
namespace {

using keel_test::contains;
using keel_test::error_of;

// Returns the error of computing the value from ones of these shapes; "" where there is none.
std::string size_refusal(Graph& g, const Value& value,
                         const std::vector<std::pair<Value, Shape>>& inputs) {
  Feeds feeds;
  for (const auto& [input, shape] : inputs) feeds.emplace_back(input, Tensor::full(f32, shape, 1));
  Session session(g, device("cpu"));
  return error_of([&] { session.run({value}, feeds); });
}

void check_refusal(const std::string& error, const std::string& words) {
  INFO(error);
  CHECK(error.starts_with(words));
  CHECK(contains(error, "test_dynamic_sizes_that_compositions_took.cpp"));
}

// Two features, two units.
LstmWeights lstm_weights(Graph& g) {
  const auto ones = [&](const Shape& shape) { return g.constant(Tensor::full(f32, shape, 1)); };
  return {ones({2, 8}), ones({2, 8}), ones({8})};
}
GruWeights gru_weights(Graph& g) {
  const auto ones = [&](const Shape& shape) { return g.constant(Tensor::full(f32, shape, 1)); };
  return {ones({2, 6}), ones({2, 6}), ones({6}), ones({6})};
}

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("a recurrent cell takes no state of one row for an unknown batch") {
  Graph g;
  const Value x = g.input("x", f32, {-1, 2}), h = g.input("h", f32, {-1, 2});
  const Value lstm_next = lstm_cell(x, {h, h}, lstm_weights(g)).hidden;
  const Value gru_next = gru_cell(x, h, gru_weights(g));
  check_refusal(size_refusal(g, lstm_next, {{x, {3, 2}}, {h, {1, 2}}}),
                "lstm_cell: hidden state: expected size 3 along axis 0");
  check_refusal(size_refusal(g, gru_next, {{x, {3, 2}}, {h, {1, 2}}}),
                "gru_cell: state: expected size 3 along axis 0");
  check_refusal(size_refusal(g, gru_next, {{x, {1, 2}}, {h, {3, 2}}}),
                "gru_cell: state: expected size 1 along axis 0");
  CHECK(size_refusal(g, lstm_next, {{x, {3, 2}}, {h, {3, 2}}}).empty());
  CHECK(size_refusal(g, gru_next, {{x, {1, 2}}, {h, {1, 2}}}).empty());
}

TEST_CASE("a recurrent sequence takes no state of another batch than its own") {
  Graph g;
  const Value x = g.input("x", f32, {2, -1, 2}), h = g.input("h", f32, {-1, 2});
  const Value all = lstm(x, lstm_weights(g), LstmState{h, h}).outputs;
  const Value last = gru(x, gru_weights(g), h).last;
  for (const auto& [batch, states] : {std::pair{1, 3}, {3, 1}}) {
    const std::string size = std::to_string(batch) + " along axis 0, as [2, ";
    check_refusal(size_refusal(g, all, {{x, {2, batch, 2}}, {h, {states, 2}}}),
                  "lstm: initial hidden state: expected size " + size);
    check_refusal(size_refusal(g, last, {{x, {2, batch, 2}}, {h, {states, 2}}}),
                  "gru: initial state: expected size " + size);
  }
  CHECK(size_refusal(g, all, {{x, {2, 3, 2}}, {h, {3, 2}}}).empty());
  CHECK(size_refusal(g, last, {{x, {2, 3, 2}}, {h, {3, 2}}}).empty());
}

TEST_CASE("recurrent weights of an unknown size are those of the units and features") {
  Graph g;
  const Value x = g.input("x", f32, {2, 3, -1}), bias = g.input("bias", f32, {-1});
  const Value input = g.input("input", f32, {-1, 8});
  LstmWeights weights = lstm_weights(g);
  weights.bias = bias;
  weights.input = input;
  const Value all = lstm(x, weights).outputs;
  check_refusal(size_refusal(g, all, {{x, {2, 3, 2}}, {bias, {1}}, {input, {2, 8}}}),
                "lstm: bias: expected size 8 along axis 0");
  check_refusal(size_refusal(g, all, {{x, {2, 3, 5}}, {bias, {8}}, {input, {2, 8}}}),
                "lstm: input weights: expected size 5 along axis 0, as [2, 3, 5] has along axis 2");
  CHECK(size_refusal(g, all, {{x, {2, 3, 2}}, {bias, {8}}, {input, {2, 8}}}).empty());
}

TEST_CASE("numbers for each channel are as many as the channels of an unknown size") {
  Graph g;
  const Value x = g.input("x", f32, {2, 4}), open = g.input("open", f32, {2, -1});
  const Value one = g.input("one", f32, {-1}), four = g.input("four", f32, {4});
  const Value grouped = group_norm(x, 2, one, one);
  const Value inferred = batch_norm_inference(open, four, four, four, four);
  check_refusal(size_refusal(g, grouped, {{x, {2, 4}}, {one, {1}}}),
                "group_norm: scale: expected size 4 along axis 0");
  check_refusal(size_refusal(g, inferred, {{open, {2, 1}}, {four, {4}}}),
                "batch_norm_inference: variance: expected size 1 along axis 0");
  CHECK(size_refusal(g, grouped, {{x, {2, 4}}, {one, {4}}}).empty());
  CHECK(size_refusal(g, inferred, {{open, {2, 4}}, {four, {4}}}).empty());
}

TEST_CASE("stacked values and transposed convolutions name themselves for unknown sizes") {
  Graph g;
  const Value a = g.input("a", f32, {-1, 3}), b = g.input("b", f32, {-1, 3});
  check_refusal(size_refusal(g, stack({a, b}, 1), {{a, {2, 3}}, {b, {1, 3}}}),
                "stack: value 1: expected size 2 along axis 0");
  CHECK(size_refusal(g, stack({a, b}, 1), {{a, {2, 3}}, {b, {2, 3}}}).empty());
  const Value images = g.input("images", f32, {1, 3, 3, -1});
  const Value kernels = g.input("kernels", f32, {2, 2, 4, 3});
  const Value wide = conv_transpose2d(images, kernels);
  check_refusal(size_refusal(g, wide, {{images, {1, 3, 3, 2}}, {kernels, {2, 2, 4, 3}}}),
                "conv_transpose2d: weights: expected size 2 along axis 3");
  CHECK(size_refusal(g, wide, {{images, {1, 3, 3, 3}}, {kernels, {2, 2, 4, 3}}}).empty());
}

TEST_CASE("convolutions of sequences and global maxima name themselves for unknown sizes") {
  Graph g;
  const Value x = g.input("x", f32, {1, -1, -1}), w = g.input("w", f32, {3, 2, 1});
  for (const auto& [options, shortest] :
       {std::pair{Conv1dOptions{}, 3},
        {Conv1dOptions{.dilation = 4}, 9},
        {Conv1dOptions{.padding = "explicit", .pads = {1, 0}}, 2}}) {
    const int least = shortest;  // clang 14 cannot capture what a structured binding names
    CAPTURE(least);
    const Value y = conv1d(x, w, options);
    check_refusal(size_refusal(g, y, {{x, {1, least - 1, 2}}, {w, {3, 2, 1}}}),
                  "conv1d: x, for " + std::to_string(least) + " or more along axis 1: expected");
    CHECK(size_refusal(g, y, {{x, {1, least, 2}}, {w, {3, 2, 1}}}).empty());
    check_refusal(size_refusal(g, y, {{x, {1, 9, 3}}, {w, {3, 2, 1}}}),
                  "conv1d: weights: expected size 3 along axis 1");
  }
  // Padded as far as its windows reach, any width will do.
  for (const Conv1dOptions& options :
       {Conv1dOptions{.padding = "same"}, {.padding = "explicit", .pads = {1, 1}}})
    CHECK(size_refusal(g, conv1d(x, w, options), {{x, {1, 1, 2}}, {w, {3, 2, 1}}}).empty());
  const Value first = g.input("first", f32, {1, 2, -1}), v = g.input("v", f32, {1, 2, 3});
  const Value z = conv1d(first, v, {.layout = "NCW"});
  check_refusal(size_refusal(g, z, {{first, {1, 2, 2}}, {v, {1, 2, 3}}}),
                "conv1d: x, for 3 or more along axis 2: expected");
  CHECK(size_refusal(g, z, {{first, {1, 2, 3}}, {v, {1, 2, 3}}}).empty());
  const Value images = g.input("images", f32, {1, -1, 2, 1});
  const Value largest = global_max_pool2d(images), average = global_avg_pool2d(images);
  check_refusal(size_refusal(g, largest, {{images, {1, 0, 2, 1}}}),
                "global_max_pool2d: x, for 1 or more along axis 1: expected");
  CHECK(size_refusal(g, largest, {{images, {1, 1, 2, 1}}}).empty());
  CHECK(size_refusal(g, average, {{images, {1, 0, 2, 1}}}).empty());
}

TEST_CASE("the checks of recurrent and stacked sizes leave no node behind") {
  const auto nodes = [](int64_t batch) {
    Graph g;
    const Value x = g.input("x", f32, {batch, 2}), h = g.input("h", f32, {batch, 2});
    const Value scale = g.input("scale", f32, {batch < 0 ? -1 : 2});
    const Value next = lstm_cell(x, {h, h}, lstm_weights(g)).hidden;
    SpecialiseRequest request;
    request.graph = &g;
    request.fetches = {stack({group_norm(next, 1, scale, scale), h})};
    request.input_types = {{"x", {f32, {4, 2}}}, {"h", {f32, {4, 2}}}, {"scale", {f32, {2}}}};
    const auto folded = fold(*specialise(request));
    const std::vector<bool> live = live_nodes(*folded);
    return std::count(live.begin(), live.end(), true);
  };
  CHECK(nodes(-1) == nodes(4));
}

TEST_SUITE_END();

}  // namespace keel
