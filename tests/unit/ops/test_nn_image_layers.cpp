// Layers of images beyond conv2d, pooling layers, rms norm and ways around layers: beside graphs
// and loops written here, on every backend.
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/keel.h"

#include "gradients_for_tests.h"

TEST_SUITE_BEGIN("nn");

namespace {

using namespace keel;
using namespace keel::testing;

// Gives every parameter numbers of its own.
void write_waves(Session& session, const Values& parameters) {
  double phase = 1;
  for (const Value& state : parameters) session.write(state, waves(state.shape(), phase++, f32));
}

// A layer, and what stands for it in a graph by hand.
struct Pair {
  Value layer, by_hand;
};
using Build = std::function<Pair(const Scope& scope, const Value& x)>;

// The two give the same numbers and the same gradients for x, and `make` has parameters of waves.
void check_same(const Build& build, const Shape& shape) {
  for (const std::string& backend : backend_names()) {
    CAPTURE(backend);
    Graph g;
    const Value x = g.input("x", f32, shape);
    const Pair pair = build(Scope(g) / "layer", x);
    REQUIRE(pair.layer.shape() == pair.by_hand.shape());
    const Value weights = g.constant(waves(pair.layer.shape(), 9, f32));
    const Value dx = gradients(sum(pair.layer * weights), {x})[0];
    const Value expected = gradients(sum(pair.by_hand * weights), {x})[0];
    Session session(g, device(backend));
    Values states;
    for (const char* name : {"layer.weight", "layer.bias"}) {
      if (const Value state = g.find_state(name); state.valid()) states.push_back(state);
    }
    write_waves(session, states);
    const auto got =
        session.run({pair.layer, pair.by_hand, dx, expected}, {{x, waves(shape, 0, f32)}});
    check_close(elements(got[0]), elements(got[1]), 1e-5);
    check_close(elements(got[2]), elements(got[3]), 1e-5);
  }
}

Value state_of(const Value& x, const char* name) {
  const Value state = x.graph().find_state(name);
  REQUIRE(state.valid());
  return state;
}

// [n, h, w, c] from [n, c, h, w], and back.
Value channels_last(const Value& x) { return transpose(x, {0, 2, 3, 1}); }
Value channels_first(const Value& x) { return transpose(x, {0, 3, 1, 2}); }

}  // namespace

TEST_CASE("layers of images have parameters of these names and shapes") {
  Graph g;
  const Scope root(g);
  const std::vector<std::string> both = {"up.weight", "up.bias"};
  const ConvTranspose2d up(root / "up", 6, 4, {3, 2}, {.groups = 2});
  CHECK(names_of(up.parameters()) == both);
  CHECK(up.weight().shape() == Shape{3, 2, 2, 6});
  CHECK(up.bias().shape() == Shape{4});
  const Conv1d line(root / "line", 6, 4, 5, {.groups = 2});
  CHECK(line.weight().shape() == Shape{5, 3, 4});
  CHECK(Conv2d(root / "first", 6, 4, {3}, {.layout = "NCHW"}).weight().shape() ==
        Shape{3, 3, 6, 4});
  const GroupNorm norm(root / "norm", 3, 6);
  CHECK(names_of(norm.parameters()) == std::vector<std::string>{"norm.weight", "norm.bias"});
  CHECK(norm.buffers().empty());
  CHECK(names_of(RmsNorm(root / "rms", 6).parameters()) == std::vector<std::string>{"rms.weight"});
  CHECK(MaxPool2d(root / "pool", {2}).parameters().empty());
}

TEST_CASE("conv layers are their ops plus a bias") {
  check_same(
      [](const Scope& scope, const Value& x) {
        const ConvTranspose2d up(scope, 3, 2, {3, 3}, {.stride = {2}});
        return Pair{up(x), conv_transpose2d(x, state_of(x, "layer.weight"),
                                            {.stride = {2}, .padding = "same"}) +
                               state_of(x, "layer.bias")};
      },
      {2, 3, 4, 3});
  check_same(
      [](const Scope& scope, const Value& x) {
        const ConvTranspose2d up(scope, 2, 2, {2, 3},
                                 {.stride = {3, 2}, .padding = "valid", .size = {9, 8}});
        return Pair{up(x),
                    conv_transpose2d(x, state_of(x, "layer.weight"), {.stride = {3, 2}}, {9, 8}) +
                        state_of(x, "layer.bias")};
      },
      {1, 3, 3, 2});
  check_same(
      [](const Scope& scope, const Value& x) {
        const Conv1d line(scope, 4, 6, 3, {.stride = 2, .groups = 2, .use_bias = false});
        return Pair{line(x), conv1d(x, state_of(x, "layer.weight"),
                                    {.stride = 2, .padding = "same", .groups = 2})};
      },
      {2, 7, 4});
}

// The weights are the same for both layouts, so one is the other between transpositions.
TEST_CASE("conv layers with the channels in front are those with the channels behind") {
  check_same(
      [](const Scope& scope, const Value& x) {
        const Conv2d conv(scope, 4, 6, {3, 2}, {.stride = {2, 1}, .groups = 2, .layout = "NCHW"});
        return Pair{conv(x),
                    channels_first(conv2d(channels_last(x), state_of(x, "layer.weight"),
                                          {.stride = {2, 1}, .padding = "same", .groups = 2}) +
                                   state_of(x, "layer.bias"))};
      },
      {2, 4, 5, 6});
  check_same(
      [](const Scope& scope, const Value& x) {
        const ConvTranspose2d up(scope, 4, 6, {3, 2},
                                 {.stride = {2}, .groups = 2, .layout = "NCHW"});
        return Pair{up(x), channels_first(
                               conv_transpose2d(channels_last(x), state_of(x, "layer.weight"),
                                                {.stride = {2}, .padding = "same", .groups = 2}) +
                               state_of(x, "layer.bias"))};
      },
      {2, 4, 3, 2});
  check_same(
      [](const Scope& scope, const Value& x) {
        const Conv1d line(scope, 3, 5, 4, {.dilation = 2, .layout = "NCW"});
        const Value y = conv1d(transpose(x, {0, 2, 1}), state_of(x, "layer.weight"),
                               {.padding = "same", .dilation = 2});
        return Pair{line(x), transpose(y + state_of(x, "layer.bias"), {0, 2, 1})};
      },
      {2, 3, 9});
}

TEST_CASE("norm layers are those of plain loops") {
  constexpr int64_t kBatch = 2, kChannels = 6, kGroups = 3, kSize = 4;
  const Tensor data = waves({kBatch, kChannels, kSize}, 0, f32);
  const Tensor scale = waves({kChannels}, 1, f32), offset = waves({kChannels}, 2, f32);
  Doubles grouped(static_cast<size_t>(data.num_elements()));
  const int64_t per_group = kChannels / kGroups * kSize;
  for (int64_t group = 0; group < kBatch * kGroups; ++group) {
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < per_group; ++i) mean += data.at(group * per_group + i) / per_group;
    for (int64_t i = 0; i < per_group; ++i)
      variance += std::pow(data.at(group * per_group + i) - mean, 2) / per_group;
    for (int64_t i = 0; i < per_group; ++i) {
      const int64_t at = group * per_group + i, channel = at / kSize % kChannels;
      grouped[static_cast<size_t>(at)] =
          (data.at(at) - mean) / std::sqrt(variance + 0.01) * scale.at(channel) +
          offset.at(channel);
    }
  }
  Doubles rows(static_cast<size_t>(data.num_elements()));
  const Tensor row_scale = waves({kSize}, 1, f32);
  for (int64_t row = 0; row < kBatch * kChannels; ++row) {
    double squares = 0;
    for (int64_t i = 0; i < kSize; ++i)
      squares += std::pow(data.at(row * kSize + i), 2) / static_cast<double>(kSize);
    for (int64_t i = 0; i < kSize; ++i) {
      rows[static_cast<size_t>(row * kSize + i)] =
          data.at(row * kSize + i) / std::sqrt(squares + 1e-5) * row_scale.at(i);
    }
  }
  for (const std::string& backend : backend_names()) {
    CAPTURE(backend);
    Graph g;
    const Value x = g.input("x", f32, {-1, kChannels, kSize});
    const GroupNorm groups(Scope(g) / "groups", kGroups, kChannels,
                           {.epsilon = 0.01, .channel_axis = 1});
    const RmsNorm rms(Scope(g) / "rms", kSize);
    const Value in_front = groups(x);
    const GroupNorm last(Scope(g) / "last", kGroups, kChannels, {.epsilon = 0.01});
    const Value behind = transpose(last(transpose(x, {0, 2, 1})), {0, 2, 1});
    const Value y = rms(x);
    Session session(g, device(backend));
    for (const GroupNorm* norm : {&groups, &last}) write_waves(session, norm->parameters());
    write_waves(session, rms.parameters());
    const auto got = session.run({in_front, behind, y}, {{x, data}});
    check_close(elements(got[0]), grouped, 1e-5);
    check_close(elements(got[1]), grouped, 1e-5);
    check_close(elements(got[2]), rows, 1e-5);
  }
}

TEST_CASE("batch norm takes the axis of the channels") {
  const Shape shape = {3, 4, 2, 5};
  const Tensor data = waves(shape, 0, f32);
  for (const std::string& backend : backend_names()) {
    CAPTURE(backend);
    Graph g;
    const Value x = g.input("x", f32, shape);
    const BatchNorm first(Scope(g) / "first", 4, {.channel_axis = 1});
    const BatchNorm last(Scope(g) / "last", 4);
    Values outputs;
    for (const Mode mode : {Mode::kTraining, Mode::kEvaluation}) {
      outputs.push_back(first(x, mode));
      outputs.push_back(channels_first(last(channels_last(x), mode)));
    }
    const Update update = sgd(0.0).minimize(mean(square(outputs[0])) + mean(square(outputs[1])));
    Session session(g, device(backend));
    const auto trained = session.run(update, {outputs[0], outputs[1]}, {{x, data}});
    check_close(elements(trained[0]), elements(trained[1]), 1e-5);
    const auto evaluated = session.run({outputs[2], outputs[3]}, {{x, data}});
    check_close(elements(evaluated[0]), elements(evaluated[1]), 1e-5);
    for (size_t i = 0; i < 2; ++i)
      check_close(elements(session.read(first.buffers()[i])),
                  elements(session.read(last.buffers()[i])), 1e-5);
    CHECK(session.read(first.buffers()[0]).at(0) != 0);
  }
}

TEST_CASE("pooling layers take the largest or the mean of a window or of an image") {
  for (const std::string& backend : backend_names()) {
    CAPTURE(backend);
    Graph g;
    const Scope root(g);
    const Value x = g.input("x", f32, {1, 4, 4, 1});
    const Value first = g.input("first", f32, {1, 1, 4, 4});
    Sequential model(root / "model");
    model.add<MaxPool2d>(std::vector<int64_t>{2, 2}).add<GlobalMaxPool2d>();
    const Values outputs = {
        MaxPool2d(root / "max", {2})(x),
        MaxPool2d(root / "steps", {2, 1}, {.stride = {1, 3}})(x),
        MaxPool2d(root / "front", {3}, {.padding = "same", .layout = "NCHW"})(first),
        AvgPool2d(root / "avg", {2})(x),
        AvgPool2d(root / "inside", {3}, {.padding = "explicit", .pads = {1, 1, 1, 1}})(x),
        AvgPool2d(root / "padded", {3},
                  {.padding = "explicit", .pads = {1, 1, 1, 1}, .count_padding = true})(x),
        GlobalAvgPool2d(root / "mean")(x),
        GlobalAvgPool2d(root / "mean2", "NCHW")(first),
        GlobalMaxPool2d(root / "largest")(x),
        model(x, Mode::kEvaluation)};
    Session session(g, device(backend));
    const auto got = session.run(outputs, {{x, counting({1, 4, 4, 1})},  // 0 to 15
                                           {first, counting({1, 1, 4, 4})}});
    CHECK(elements(got[0]) == Doubles{5, 7, 13, 15});
    CHECK(elements(got[1]) == Doubles{4, 7, 8, 11, 12, 15});
    CHECK(elements(got[2]) == Doubles{5, 7, 13, 15});
    CHECK(elements(got[3]) == Doubles{2.5, 4.5, 10.5, 12.5});
    CHECK(elements(got[4]) == Doubles{2.5, 4.5, 10.5, 12.5});
    check_close(elements(got[5]), Doubles{10.0 / 9, 2, 42.0 / 9, 50.0 / 9}, 1e-6);
    CHECK(elements(got[6]) == Doubles{7.5});
    CHECK(elements(got[7]) == Doubles{7.5});
    CHECK(elements(got[8]) == Doubles{15});
    CHECK(elements(got[9]) == Doubles{15});
    CHECK(got[9].shape() == Shape{1, 1});
  }
}

TEST_CASE("a residual adds what goes around a layer") {
  Graph g;
  const Scope root(g);
  const Value x = g.input("x", f32, {-1, 3});
  const Dense inside(root / "inside", 3, 3), wide(root / "wide", 3, 5), way(root / "way", 3, 5);
  const Residual same(root / "same", inside), other(root / "other", wide, way);
  const Residual doubled(root / "doubled", relu);
  Sequential model(root / "model");
  model.add<Residual>(inside).add(Residual(root / "dropped", Dropout(root / "drop", 0.5)));
  CHECK(names_of(same.parameters()) == std::vector<std::string>{"inside.weight", "inside.bias"});
  CHECK(names_of(other.parameters()) ==
        std::vector<std::string>{"wide.weight", "wide.bias", "way.weight", "way.bias"});
  CHECK(names_of(model.parameters()) == names_of(same.parameters()));
  const Values got = {same(x, Mode::kEvaluation), other(x, Mode::kEvaluation),
                      doubled(x, Mode::kEvaluation), model(x, Mode::kEvaluation)};
  const Values expected = {x + inside(x), way(x) + wide(x), x + relu(x), 2.0f * (x + inside(x))};
  Session session(g, device("ref"));
  const Feeds feeds = {{x, waves({2, 3}, 0, f32)}};
  const auto results = session.run(got, feeds), by_hand = session.run(expected, feeds);
  for (size_t i = 0; i < got.size(); ++i)
    check_close(elements(results[i]), elements(by_hand[i]), 1e-6);
}

TEST_CASE("layers of images refuse what does not fit and name their path") {
  Graph g, other;
  const Scope root(g);
  const auto refused = [](const std::function<void()>& make, const std::string& words) {
    const std::string text = error_of(make);
    CAPTURE(text);
    CHECK(contains(text, words));
    CHECK(contains(text, "test_nn_image_layers.cpp"));
  };
  const Value image = g.input("image", f32, {2, 4, 4, 3});
  refused([&] { Conv2d(root / "a", 1, 1, {1}, {.layout = "NHCW"}); },
          "conv2d a: layout: expected NHWC or NCHW");
  refused([&] { Conv1d(root / "b", 1, 1, 1, {.layout = "NHWC"}); },
          "conv1d b: layout: expected NWC or NCW");
  refused([&] { Conv1d(root / "c", 1, 1, 0); }, "conv1d c: kernel: expected at least 1");
  refused([&] { ConvTranspose2d(root / "d", 3, 4, {1}, {.groups = 2}); },
          "groups: expected a number that divides 3 and 4");
  refused([&] { ConvTranspose2d(root / "e", 3, 4, {1, 2, 3}); }, "a height and a width");
  refused([&] { GroupNorm(root / "f", 4, 6); },
          "group norm f: groups: expected a number that divides 6");
  refused([&] { MaxPool2d(root / "h", {0, 2}); }, "max pool h: window: expected at least 1");
  refused([&] { AvgPool2d(root / "i", {}); }, "avg pool i: window: expected a height and a width");
  refused([&] { GlobalAvgPool2d(root / "j", "NWHC")(image); }, "NHWC or NCHW");
  const Conv2d first(root / "first", 3, 4, {3}, {.layout = "NCHW"});
  refused([&] { first(image); }, "3 along axis 1");
  const GroupNorm norm(root / "norm", 1, 3, {.channel_axis = 0});
  refused([&] { norm(image); }, "with the channels along axis 0");
  refused([&] { RmsNorm(root / "k", 5)(image); }, "rms norm k: x");
  refused([&] { Residual(root / "l", Layer(nullptr)); }, "residual l: layer 0");
  refused([&] { Residual(root / "m", Dense(Scope(other) / "n", 3, 3)); }, "the same graph");
  const Residual narrow(root / "narrow", GlobalAvgPool2d(root / "pool"));
  refused([&] { narrow(image, Mode::kTraining); },
          "residual narrow: f(x): expected shape [2, 4, 4, 3], got [2, 3]");
}

TEST_SUITE_END();
